# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions in the repository, package files, and the record of the role."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import api as docker_api
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import gpu_toolkit as toolkit
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import gpu_toolkit_facts as facts
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import (
    nvidia_container_toolkit as plan_module,
)

from tests.unit.plugins.module_utils._docker.test_gpu_toolkit_facts import Host
from tests.unit.support.plan import run_plan

Run = Callable[..., dict[str, Any]]

REPOSITORY = {
    "url": "http://repo.example/stable/deb/$(ARCH)",
    "key_url": "http://repo.example/gpgkey",
    "fingerprints": ["A" * 40],
}
CONTEXT = {"repository": REPOSITORY, "architecture": "amd64", "allow_disruption": False}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host(tmp_path / "root")
    monkeypatch.setattr(facts, "ROOT", str(found.root))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(docker_api, "SOCKET", str(tmp_path / "no docker"))
    monkeypatch.setattr(facts, "read_url", lambda address, *_limits: index(address))
    monkeypatch.setattr(
        AnsibleModule, "run_command", lambda _self, command, **options: found.run_command(command, **options)
    )
    return found


def index(address: str) -> bytes:
    assert address == "http://repo.example/stable/deb/amd64/Packages"
    blocks = [
        f"Package: {name}\nVersion: {version}\n" for name in toolkit.PACKAGES for version in ("1.19.1-1", "1.20.1-1")
    ]
    # Not of all four.
    return "\n".join([*blocks, "Package: libnvidia-container1\nVersion: 1.20.2-1\n"]).encode()


@pytest.fixture
def planned(run_module: Run, host: Host) -> Run:
    def run(**params: Any) -> dict[str, Any]:
        status = "\n".join(
            f"Package: {name}\nStatus: install ok installed\nVersion: {version}\n"
            for name, version in host.packages.items()
        )
        host.write("/var/lib/dpkg/status", status)
        return run_plan(run_module, plan_module, CONTEXT, **params)

    return run


def units(result: dict[str, Any]) -> list[str]:
    return [unit["name"] for unit in result["units"]]


def test_version_is_checked_in_the_repository(planned: Run, host: Host) -> None:
    assert planned()["requirements"] == []
    (fault,) = planned(version="1.20.2")["requirements"]
    assert fault["variable"] == "nvidia_container_toolkit_version"
    assert fault["remedy"] == "choose one of 1.20.1-1, 1.19.1-1"


def test_unreachable_repository_is_left_to_apt(planned: Run, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(address: str, *_limits: Any) -> Any:
        raise OSError(f"{address}: no route to host")

    monkeypatch.setattr(facts, "read_url", unreachable)
    result = planned(version="1.20.2")
    assert (result["requirements"], len(result["install"])) == ([], 4)


def test_missing_package_files_are_due(planned: Run, host: Host) -> None:
    result = planned()
    assert (result["package_files_due"], result["key"]) == (True, "")


def test_a_damaged_record_ends_the_run(planned: Run, host: Host) -> None:
    host.write(toolkit.RECORD, "{")
    result = planned()
    assert result["failed"] is True and f"{toolkit.RECORD} is damaged" in result["msg"]


@pytest.mark.parametrize("record", [toolkit.RECORD, toolkit.FORMER_RECORD])
def test_absent_is_planned_from_the_record(planned: Run, host: Host, record: str) -> None:
    host.install()
    host.write(record, json.dumps({"packages": list(toolkit.PACKAGES), "settings": True, "held": []}))
    result = planned(state="absent")
    assert result["remove"] == list(toolkit.PACKAGES)
