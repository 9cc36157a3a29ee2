# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings of what the readers of the sampler see."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import verify

FRESH = {"stale": False, "problem": "", "gpus": [{}]}
UNITS = {verify.SERVICE: "active", verify.CONTAINERS: "active"}


class Host:
    def __init__(
        self, snapshots: list[Any], units: dict[str, str] = UNITS, metrics: str = "rigwright_gpu_usage_up 1\n"
    ) -> None:
        self.snapshots, self.units, self.metrics = snapshots, units, metrics
        self.waits: list[float] = []
        self.commands: list[list[str]] = []

    def run(self, command: list[str], **_options: Any) -> tuple[int, str, str]:
        self.commands.append(command)
        if command[0] == "systemd-analyze":
            return 0, "".join(f"→ Overall exposure level for {unit}: 1.8 OK\n" for unit in self.units), ""
        if command[0] == "systemctl":
            return 0, self.units.get(command[2], "") + "\n", ""
        if verify.WHO in command:
            found = self.snapshots.pop(0) if len(self.snapshots) > 1 else self.snapshots[0]
            return (1, "", found) if isinstance(found, str) else (0, json.dumps(found), "")
        return (0, self.metrics, "") if self.metrics else (1, "", "head: cannot open it")

    def findings(self, directory: str = "/textfile", containers: bool = True) -> dict[str, str]:
        rows = verify.findings(self.run, directory, containers, self.waits.append)
        assert all(row["remedy"] for row in rows if row["status"] != "pass")
        return {row["id"]: row["status"] for row in rows}


def test_running_sampler_passes() -> None:
    host = Host([FRESH])
    assert host.findings() == {
        f"gpu_usage.{name}": "pass" for name in ("confinement", "sampler", "containers", "fresh", "nvml", "metrics")
    }
    assert host.waits == []


def test_readers_are_nobody() -> None:
    host = Host([FRESH])
    host.findings()
    assert all(
        command[:4] == list(verify.AS_NOBODY) for command in host.commands if not command[0].startswith("system")
    )


def test_first_sample_is_waited_for() -> None:
    host = Host(["gpu-who: the sampler has written no snapshot", {**FRESH, "stale": True}, FRESH])
    assert host.findings()["gpu_usage.fresh"] == "pass"
    assert len(host.waits) == 2


@pytest.mark.parametrize("found", ["gpu-who: the snapshot has format 2", {**FRESH, "stale": True}])
def test_stale_or_damaged_snapshot_fails(found: Any) -> None:
    rows = Host([found]).findings()
    assert rows["gpu_usage.fresh"] == "fail"
    assert "gpu_usage.nvml" not in rows


def test_problem_of_nvml_is_a_warning() -> None:
    rows = Host([{**FRESH, "problem": "NVML: DRIVER_NOT_LOADED"}]).findings()
    assert (rows["gpu_usage.nvml"], rows["gpu_usage.fresh"]) == ("warn", "pass")


def test_stopped_unit_and_missing_metrics_fail() -> None:
    rows = Host([FRESH], {verify.SERVICE: "failed"}, "").findings()
    assert (rows["gpu_usage.sampler"], rows["gpu_usage.containers"], rows["gpu_usage.metrics"]) == ("fail",) * 3


def test_what_is_not_set_up_has_no_finding() -> None:
    assert Host([FRESH], {verify.SERVICE: "active"}).findings("", False).keys() == {
        f"gpu_usage.{name}" for name in ("confinement", "sampler", "fresh", "nvml")
    }
