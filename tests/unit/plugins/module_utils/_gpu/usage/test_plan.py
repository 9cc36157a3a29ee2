# SPDX-License-Identifier: GPL-3.0-or-later
"""What the host lacks for the role."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import plan as planning

from tests.unit.plugins.module_utils._gpu.usage.test_request import GOOD

REQUEST: Any = {
    **GOOD,
    "state": "present",
    "containers": True,
    "python": "nvidia-ml-py==13.0",
    "account": "sampler",
    "planned": {},
}


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    found: dict[str, Any] = {"user": None, "group": None, "due": True}
    monkeypatch.setattr(accounts, "user", lambda _name: found["user"])
    monkeypatch.setattr(accounts, "group", lambda _name: found["group"])
    monkeypatch.setattr(planning, "environment_due", lambda *_arguments: found["due"])
    return found


def test_fresh_host_lacks_everything(host: dict[str, Any]) -> None:
    found = planning.plan(REQUEST, "/env")
    assert (found["install"], found["remove"], found["containers"]) == (["environment", "account"], [], False)


def test_complete_host_lacks_nothing(host: dict[str, Any]) -> None:
    host.update(user=object(), due=False)
    assert planning.plan(REQUEST, "/env")["install"] == []


def test_containers_need_docker_and_the_wish(host: dict[str, Any]) -> None:
    assert planning.plan(REQUEST | {"planned": {"docker": True}}, "/env")["containers"] is True
    host["group"] = object()
    assert planning.plan(REQUEST, "/env")["containers"] is True
    assert planning.plan(REQUEST | {"containers": False}, "/env")["containers"] is False


def test_absent_checks_no_option_and_removes_the_environment(host: dict[str, Any]) -> None:
    found = planning.plan(REQUEST | {"state": "absent", "idle_after": "2 moons"}, "/env")
    assert (found["requirements"], found["install"], found["remove"]) == ([], [], ["environment"])


def test_missing_environment_is_due(tmp_path: Path) -> None:
    assert planning.environment_due(str(tmp_path / "nowhere"), "nvidia-ml-py==13.0", True)
    assert not planning.environment_due(str(tmp_path / "nowhere"), "", False)
