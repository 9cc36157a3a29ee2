# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric of a GPU, by either version of NVML's structure."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import fabric
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.reader import Reader

from harness.fakes.nvml import fake


def read(model: str = "H200", failing: bool = False, **facts: Any) -> Any:
    with fake([model]) as machine, Nvml() as nvml:
        machine.set(0, **facts)
        if failing:
            machine.fail("nvmlDeviceGetGpuFabricInfoV", "ARGUMENT_VERSION_MISMATCH")
        return fabric.read(Reader(nvml, nvml.cards()[0]))


@pytest.mark.parametrize(
    ("number", "name"), [(1, "not_started"), (2, "in_progress"), (3, "completed"), (9, "unknown (9)")]
)
def test_the_state_has_a_name(number: int, name: str) -> None:
    found = read(fabric__state=number)
    assert found and found["state"] == name


def test_a_failure_of_the_fabric_manager_is_the_status() -> None:
    found = read(fabric__status=999)
    assert found and (found["state"], found["status"]) == ("completed", "UNKNOWN")


def test_health_mask_is_unpacked() -> None:
    found = read(fabric__health=0b0101_01_10_00_01, fabric__summary=2)
    assert found and found["summary"] == "unhealthy"
    assert found["health"] == {
        "degraded_bandwidth": True,
        "route_recovery": None,
        "route_unhealthy": False,
        "access_timeout_recovery": True,
        "incorrect_configuration": "insufficient_nvlinks",
    }


def test_driver_with_only_version_2_is_read() -> None:
    found = read(failing=True, fabric__clique=7, fabric__summary=1)
    assert found and (found["state"], found["clique"], found["summary"]) == ("completed", 7, None)


@pytest.mark.parametrize(("model", "facts"), [("RTX 4090", {}), ("H200", {"fabric__state": 0})])
def test_a_gpu_without_a_fabric_has_none(model: str, facts: dict[str, Any]) -> None:
    assert read(model, **facts) is None


def test_gpu_without_a_driver_has_no_fabric() -> None:
    assert fabric.read(Reader(None, Card(None, 0))) is None
