# SPDX-License-Identifier: GPL-3.0-or-later
"""The request of the role docker, on a host without docker."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import facts
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.model import PROGRAMS, UNITS
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import docker as docker_role

from tests.unit.support.plan import run_plan

Run = Callable[..., dict[str, Any]]

PACKAGES = {"docker.io": ["docker.io"], "docker-ce": ["docker-ce"]}
CONTEXT: dict[str, Any] = {"packages": PACKAGES, "repository": {}, "coming_parts": {}}
INACTIVE = "\n".join(f"Id={name}\nNames={name}\nActiveState=inactive\n" for name in UNITS)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "ROOT", str(tmp_path))
    for edition in PACKAGES:
        monkeypatch.setitem(PROGRAMS, edition, str(tmp_path / "dockerd"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(AnsibleModule, "run_command", lambda _self, _command, **_options: (0, INACTIVE, ""))


def test_defaults_install_docker(run_module: Run) -> None:
    result = run_plan(run_module, docker_role, CONTEXT)
    assert (result["changed"], result["requirements"], result["packages"]["install"]) == (False, [], ["docker.io"])
    assert result["options"]["live-restore"] is True


@pytest.mark.parametrize(("check", "problems"), [(True, []), (False, ["docker_data_root", "docker_containerd_root"])])
def test_planned_mounts_count_only_in_check_mode(run_module: Run, check: bool, problems: list[str]) -> None:
    mount = {"target": "/data", "source": "/dev/sdb1", "fstype": "ext4", "bytes": 1 << 62}
    context = {**CONTEXT, "planned": {"mounts": [mount]}}
    result = run_plan(run_module, docker_role, context, check, data_root="/data/docker", free_bytes=1 << 61)
    assert [problem["variable"] for problem in result["requirements"]] == problems


def test_a_password_of_a_proxy_is_a_secret(run_module: Run) -> None:
    options = {"proxies": {"https-proxy": "http://alice:s3cret@proxy.example:3128"}}
    result = run_plan(run_module, docker_role, CONTEXT, daemon_options=options)
    assert result["options"]["proxies"] == options["proxies"]
    assert result["secret"] is True
    assert "s3cret" not in json.dumps({name: part for name, part in result.items() if name not in ("files", "options")})
