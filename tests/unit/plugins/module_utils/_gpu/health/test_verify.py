# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings from the timer and the report of the installed check."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import verify

REQUEST: Any = {"interval_s": 600, "textfile_directory": ""}
CARD = {"id": "gpu_health.GPU-1", "status": "fail", "evidence": "Xid 79", "remedy": "reset it"}
EXPOSURE = "Overall exposure level for rigwright-gpu-health.service: 2.1 OK"
DENIED = "Traceback (most recent call last):\nPermissionError: [Errno 13] Permission denied: '/x.prom'\n"


def report(age_s: int) -> tuple[int, str, str]:
    return 0, json.dumps({"age_s": age_s, "findings": [CARD]}), ""


class Host:
    """A host whose programs print what a test has them print; the reader prints each of its texts once."""

    def __init__(self, *readings: tuple[int, str, str], timer: tuple[int, str, str] = (0, "active\n", "")) -> None:
        self.readings = list(readings)
        self.timer = timer
        self.commands: list[list[str]] = []
        self.pauses: list[float] = []

    def run(self, command: list[str], **_options: Any) -> tuple[int, str, str]:
        self.commands.append(command)
        if command[0] == "runuser":
            return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]
        return self.timer if command[0] == "systemctl" else (0, EXPOSURE, "")

    def found(self, **request: Any) -> dict[str, tuple[str, str]]:
        rows = verify.findings(self.run, REQUEST | request, self.pauses.append)
        return {row["id"]: (row["status"], row["evidence"]) for row in rows}


def test_fresh_report_brings_its_findings() -> None:
    host = Host(report(1860))
    assert host.found() == {
        "gpu_health.confinement": ("pass", "exposure by systemd-analyze security: rigwright-gpu-health.service 2.1"),
        "gpu_health.timer": ("pass", "rigwright-gpu-health.timer is active"),
        "gpu_health.fresh": ("pass", "the last check was 1860 s ago"),
        "gpu_health.GPU-1": ("fail", "Xid 79"),
    }
    assert host.pauses == []


def test_first_check_is_waited_for() -> None:
    host = Host((1, "", DENIED), report(4000), report(0))
    assert host.found()["gpu_health.fresh"] == ("pass", "the last check was 0 s ago")
    assert host.pauses == [verify.PAUSE_S] * 2


def test_stale_report_fails_after_a_while() -> None:
    host = Host(report(1861), timer=(3, "inactive\n", ""))
    rows = host.found()
    assert rows["gpu_health.fresh"] == ("fail", "the last check was 1861 s ago")
    assert rows["gpu_health.timer"] == ("fail", "rigwright-gpu-health.timer is inactive")
    assert len(host.pauses) == verify.ATTEMPTS - 1


@pytest.mark.parametrize(
    ("reading", "evidence"),
    [
        ((1, "", DENIED), "PermissionError: [Errno 13] Permission denied: '/x.prom'"),
        ((1, "", ""), "the report could not be read"),
    ],
)
def test_unreadable_report_is_reported_by_its_error(reading: tuple[int, str, str], evidence: str) -> None:
    rows = Host(reading).found()
    assert rows["gpu_health.fresh"] == ("fail", evidence)
    assert "gpu_health.GPU-1" not in rows


@pytest.mark.parametrize(
    ("timer", "state"),
    [((127, "", "systemctl: No such file"), "systemctl: No such file"), ((4, "", ""), "not installed")],
)
def test_missing_timer_fails(timer: tuple[int, str, str], state: str) -> None:
    assert Host(report(0), timer=timer).found()["gpu_health.timer"] == (
        "fail",
        f"rigwright-gpu-health.timer is {state}",
    )


def test_report_and_textfile_are_read_as_nobody() -> None:
    host = Host(report(0))
    host.found(textfile_directory="/var/lib/node")
    command = next(command for command in host.commands if command[0] == "runuser")
    assert command[:3] == ["runuser", "--user", "nobody"]
    assert command[-2:] == ["/var/lib/rigwright_gpu_health/report.json", "/var/lib/node/rigwright_gpu_health.prom"]


def test_age_is_that_of_the_older_file(tmp_path: Path) -> None:
    path, textfile = tmp_path / "report.json", tmp_path / "x.prom"
    path.write_text(json.dumps({"time": time.time() - 100, "findings": [CARD]}))
    textfile.write_text("metric 1\n")
    done = subprocess.run(
        [sys.executable, "-I", "-c", verify.READ, path, textfile], check=True, capture_output=True, text=True
    )
    found = json.loads(done.stdout)
    assert found["findings"] == [CARD] and 100 <= found["age_s"] <= 110


def test_fifo_in_place_of_the_textfile_blocks_nobody(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"time": 0, "findings": []}))
    os.mkfifo(tmp_path / "textfile")
    command = [sys.executable, "-I", "-c", verify.READ, str(report), str(tmp_path / "textfile")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=10)
    assert json.loads(done.stdout)["findings"] == []
