# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings on the installed displays."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._status import verify
from ansible_collections.rigwright.workstation.plugins.module_utils._system import gpu_snapshot

NOW = 1_764_076_800.0
REQUEST: Any = {"interval_s": 15, "html": True, "login_line": True, "console": "tty1"}
SCREEN = "ws1\nMachine\nCPU\n"


class Host:
    """A host whose programs print what a test has them print."""

    def __init__(self, root: Path, program: tuple[int, str, str] = (0, SCREEN, ""), console: str = "active") -> None:
        self.tree, self.program, self.console = Tree(str(root)), program, console
        self.commands: list[list[str]] = []
        self.pauses: list[float] = []

    def run(self, command: list[str], **_options: Any) -> tuple[int, str, str]:
        self.commands.append(command)
        if command[0] == "runuser":
            return self.program
        if command[0] == "systemctl":
            return 0, f"{self.console}\n", ""
        return 0, "".join(f"Overall exposure level for {unit}: 1.4 OK\n" for unit in command[3:]), ""

    def write(self, path: str, text: str, age: float = 0) -> None:
        file = Path(self.tree.at(path))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        os.utime(file, (NOW - age, NOW - age))

    def found(self, **request: Any) -> dict[str, tuple[str, str]]:
        rows = verify.findings(self.run, REQUEST | request, self.tree, self.pauses.append, lambda: NOW)
        return {row["id"]: (row["status"], row["evidence"]) for row in rows}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    found = Host(tmp_path)
    for name in ("status.html", "login"):
        found.write(f"{verify.FOLDER}/{name}", "x", 7)
    found.write(gpu_snapshot.PATH, json.dumps({"format": 1, "time": NOW - 5, "interval_s": 15, "gpus": [{}]}))
    return found


def test_displays_that_work_pass(host: Host) -> None:
    assert host.found() == {
        "status.program": ("pass", "/usr/local/bin/workstation-status shows 3 lines at 80x24"),
        "status.snapshot": ("pass", "1 GPUs, written 5 s ago"),
        "status.page": ("pass", "/run/rigwright-status/status.html was written 7 s ago"),
        "status.login_line": ("pass", "/run/rigwright-status/login was written 7 s ago"),
        "status.console": ("pass", "rigwright-status-console.service on tty1 is active"),
        "status.confinement": (
            "pass",
            "exposure by systemd-analyze security: rigwright-status.service 1.4, rigwright-status-console.service 1.4",
        ),
    }
    assert host.pauses == []
    assert host.commands[0][:3] == ["runuser", "--user", "nobody"]


def test_displays_that_are_off_are_not_verified(host: Host) -> None:
    assert set(host.found(html=False, login_line=False, console="")) == {"status.program", "status.snapshot"}


@pytest.mark.parametrize(
    ("outcome", "message"),
    [((127, "", "not found"), "not found"), ((1, "", "a\nlast line"), "last line"), ((0, "", ""), "no output")],
)
def test_program_that_fails_is_reported(tmp_path: Path, outcome: tuple[int, str, str], message: str) -> None:
    host = Host(tmp_path, outcome)
    assert host.found()["status.program"] == ("fail", f"/usr/local/bin/workstation-status: {message}")


def test_old_files_fail_after_a_while(host: Host) -> None:
    host.write(f"{verify.FOLDER}/login", "x", 46)
    os.unlink(host.tree.at(f"{verify.FOLDER}/status.html"))
    found = host.found()
    assert found["status.login_line"] == ("fail", "/run/rigwright-status/login was written 46 s ago")
    assert found["status.page"] == ("fail", "/run/rigwright-status/status.html is missing")
    assert host.pauses == [verify.PAUSE_S] * 2 * verify.ATTEMPTS


def test_console_that_ended_fails(host: Host) -> None:
    host.console = "failed"
    assert host.found()["status.console"] == ("fail", "rigwright-status-console.service on tty1 is failed")


@pytest.mark.parametrize(
    ("content", "status", "evidence"),
    [
        ({"format": 1, "time": NOW - 46, "interval_s": 15, "gpus": []}, "warn", "stale 46 s"),
        ({"format": 1, "time": NOW, "gpus": [], "problem": "driver gone"}, "warn", "driver gone"),
        ({"format": 2}, "fail", "has format 2"),
        (None, "skip", "role gpu_usage is not set up"),
    ],
)
def test_snapshot_is_judged_as_the_display_does(host: Host, content: Any, status: str, evidence: str) -> None:
    os.unlink(host.tree.at(gpu_snapshot.PATH))
    if content:
        host.write(gpu_snapshot.PATH, json.dumps(content))
    found = host.found()["status.snapshot"]
    assert found[0] == status and evidence in found[1]
