# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices from NVML. An unsupported value is None, and not 0."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.devices import read
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.request import Device
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError

MIB = 2**20


class FakeNvml:
    """Answers by function and handle; None where the card has no answer."""

    def __init__(self, cards: list[Card], answers: dict[tuple[Any, ...], Any]) -> None:
        self._cards, self.answers = cards, answers

    def cards(self) -> list[Card]:
        return self._cards

    def ask(self, function: str, *arguments: Any) -> Any:
        return self.answers.get((function.removeprefix("nvmlDeviceGet"), *arguments))

    def call(self, function: str, *arguments: Any) -> Any:
        return "580.159.04" if function == "nvmlSystemGetDriverVersion" else self.ask(function, *arguments)


def test_a_geforce_without_mig_is_a_device() -> None:
    card = Card("h", 0, "GPU-a", "0000:41:00.0", "NVIDIA GeForce RTX 4090")
    answers = {("ComputeMode", "h"): 0, ("CudaComputeCapability", "h"): (8, 9)}
    assert read(FakeNvml([card], answers)) == (  # type: ignore[arg-type]
        [Device("GPU-a", "0", "0000:41:00.0", card.name, capability=(8, 9), memory_mib=None)],
        "580.159.04",
    )


def test_a_divided_gpu_is_followed_by_its_instances() -> None:
    answers = {
        ("MigMode", "h"): [1, 1],
        ("ComputeMode", "h"): 3,
        ("MaxMigDeviceCount", "h"): 7,
        ("MigDeviceHandleByIndex", "h", 1): "i",
        ("UUID", "i"): "MIG-b",
        ("MemoryInfo", "i"): SimpleNamespace(total=20 * 1024 * MIB),
    }
    gpu, instance = read(FakeNvml([Card("h", 0, "GPU-a")], answers))[0]  # type: ignore[arg-type]
    assert (gpu.divided, gpu.compute_mode) == (True, "EXCLUSIVE_PROCESS")
    assert (instance.uuid, instance.parent, instance.memory_mib) == ("MIG-b", "GPU-a", 20480)


def test_a_lost_gpu_is_no_device() -> None:
    assert read(FakeNvml([Card(None, 0, problem=NvmlError(15, "x"))], {}))[0] == []  # type: ignore[arg-type]
