# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._status import checks

REQUEST: Any = {"console": "", "interval_s": 15}


def lines(has_terminal: bool = True, **request: Any) -> list[str]:
    found = checks.problems(REQUEST | request, lambda _name: has_terminal)
    return [f"{row['variable']} {row['problem']}" for row in found]


@pytest.mark.parametrize(
    "request_", [{}, {"console": "tty1"}, {"console": "tty12"}, {"interval_s": 2}, {"interval_s": 3600}]
)
def test_good_request_has_no_problem(request_: Any) -> None:
    assert lines(**request_) == []


@pytest.mark.parametrize("name", ["tty0", "ttyS0", "tty1.service", "../tty1", "pts/1", "tty1\n", "tty123"])
def test_other_names_are_no_console(name: str) -> None:
    assert lines(console=name) == [f"status_console is {name!r}, which is no virtual console"]


def test_console_has_to_exist() -> None:
    assert lines(has_terminal=False, console="tty9") == ["status_console is tty9, and the host has no /dev/tty9"]


@pytest.mark.parametrize("interval", [-1, 0, 1, 3601])
def test_interval_is_bounded(interval: int) -> None:
    assert lines(interval_s=interval) == [f"status_interval_s is {interval}"]


def test_only_devices_are_terminals() -> None:
    assert checks.is_terminal("null") and not checks.is_terminal("shm") and not checks.is_terminal("nothing")


def test_login_gets_its_console_back(tmp_path: Path) -> None:
    units = tmp_path / "etc/systemd/system"
    units.mkdir(parents=True)
    tree, request = Tree(str(tmp_path)), REQUEST | {"state": "present", "console": "tty1"}
    assert checks.logins_due(request, tree) == []
    (units / "rigwright-status-console.service").write_text("[Service]\nTTYPath=/dev/tty1\n")
    assert checks.logins_due(request, tree) == []
    due: Any = [{"name": "getty@tty1.service", "state": "started"}]
    assert checks.logins_due(request | {"console": ""}, tree) == due
    assert checks.logins_due(request | {"state": "absent"}, tree) == due
    (units / "getty@tty1.service").symlink_to("/dev/null")
    assert checks.logins_due(request | {"state": "absent"}, tree) == []
