# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings of the facts of gpu_info."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import inventory as gpu_inventory
from ansible_collections.rigwright.workstation.plugins.plugin_utils import _finding, _gpu_findings

from harness.fakes import nvml as fake_nvml


@pytest.fixture
def tell(tmp_path: Path) -> Any:
    def findings() -> dict[str, Any]:
        rows = _gpu_findings.findings(gpu_inventory.gather(Tree(str(tmp_path))))
        # Every one is a finding as the callback knows it.
        return {row["id"].partition(".")[2]: _finding.parse(row) for row in rows}

    return findings


def test_gpu_is_a_line_with_its_state_and_users(tell: Any) -> None:
    with fake_nvml.fake(["H200"]) as machine:
        idle = tell()
        machine.run_process(0, 4242, memory_mib=20480)
        busy = tell()
    assert idle["gpu0"]["evidence"] == (
        "NVIDIA H200 at 0000:41:00.0; time slicing; 0 of 140 GiB; 70 of 700 W; 31 °C; idle"
    )
    assert "; 20 of 140 GiB; " in busy["gpu0"]["evidence"]
    assert busy["gpu0"]["evidence"].endswith("; used by an unknown user (1)")
    assert idle["driver"]["evidence"] == f"driver {fake_nvml.DRIVER}, CUDA 13.0"


def test_a_lost_gpu_has_failed_and_the_others_pass(tell: Any) -> None:
    with fake_nvml.fake(["H200", "H200"]) as machine:
        machine.lose(1)
        found = tell()
    assert (found["gpu0"]["status"], found["gpu1"]["status"]) == ("pass", "fail")
    assert "GPU_IS_LOST" in found["gpu1"]["evidence"] and "reboot" in found["gpu1"]["remedy"]


def test_failed_call_of_nvml_is_a_warning(tell: Any) -> None:
    with fake_nvml.fake(["H200"]) as machine:
        machine.fail("nvmlDeviceGetPowerUsage", "UNKNOWN")
        found = tell()
    assert found["gpu0"]["status"] == "warn"
    assert "failed calls of NVML: 1, the first nvmlDeviceGetPowerUsage with UNKNOWN" in found["gpu0"]["evidence"]


def test_without_a_driver_gpus_come_from_pci(tell: Any, tmp_path: Path) -> None:
    device = tmp_path / "sys/bus/pci/devices/0000:41:00.0"
    device.mkdir(parents=True)
    for name, text in {"vendor": "0x10de", "class": "0x030200", "device": "0x2335"}.items():
        (device / name).write_text(f"{text}\n")
    with fake_nvml.fake(["H200"]) as machine:
        machine.upgrade_library("590.48.01")
        found = tell()
    assert found["driver"]["status"] == "fail"
    assert found["driver"]["evidence"].startswith("LIB_RM_VERSION_MISMATCH")
    assert found["pci-0000-41-00-0"]["status"] == "skip"


def test_host_without_gpus_is_skipped() -> None:
    found = _gpu_findings.findings({"gpus": [], "driver": {"problem": {"nvml_error": "LIBRARY_NOT_FOUND"}}})
    assert [row["status"] for row in found] == ["skip"]
