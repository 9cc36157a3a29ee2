# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits that the kernel enforces: request, versions of the driver, and NVML's structures; with a fake only."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import memory_limits as hard
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.request import Device
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError

A = "GPU-aaaaaaaa"
GPU = Device(A, "0")
ROW = {"slice": "user-1001.slice", "device": "0", "soft": "8G", "hard": "20G"}
GIB = 2**30


def refusal(gpu: Device = GPU, driver: str = "615.71.09", **changes: str) -> str:
    (text,) = hard.read([{**ROW, **changes}], [gpu], driver)[1]
    return text


def test_a_limit_is_of_a_control_group() -> None:
    limits, refusals = hard.read([ROW], [GPU], "615.71.09")
    assert refusals == []
    assert limits == [hard.Limit(A, "/sys/fs/cgroup/user.slice/user-1001.slice", 8 * GIB, 20 * GIB)]


@pytest.mark.parametrize(
    ("slice_", "path"),
    [
        ("team.slice", "/sys/fs/cgroup/team.slice"),
        ("a-b-c.slice", "/sys/fs/cgroup/a.slice/a-b.slice/a-b-c.slice"),
        ("/sys/fs/cgroup/x/y", "/sys/fs/cgroup/x/y"),
    ],
)
def test_systemd_nests_slices_by_their_dashes(slice_: str, path: str) -> None:
    assert hard.control_group(slice_) == path


def test_an_older_driver_is_refused() -> None:
    assert "need driver 615 or later, this is 580.159.04" in refusal(driver="580.159.04")


def test_a_divided_gpu_is_refused() -> None:
    assert "is divided (MIG)" in refusal(Device(A, "0", divided=True))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"device": "7"}, "no GPU is '7'"),
        ({"slice": "alice"}, "is neither a slice"),
        ({"slice": "/etc/passwd"}, "is neither a slice"),
        ({"soft": "30G"}, "is more than hard"),
        ({"hard": "20"}, "are no sizes"),
        ({"hard": "0G"}, "are no sizes"),
    ],
)
def test_impossible_limit_is_refused(changes: dict[str, Any], message: str) -> None:
    assert message in refusal(**changes)


def test_soft_limit_can_be_removed() -> None:
    assert hard.read([{**ROW, "soft": "0M"}], [GPU], "615.1")[0][0].soft == 0


class Driver:
    """NVML's two functions, on a table."""

    def __init__(self, takes: bool = True) -> None:
        self.table: dict[str, tuple[int, int]] = {}
        self.writes, self.takes = 0, takes

    def find(self, _uuid: str) -> Card:
        return Card("handle", 0, A)

    def call(self, function: str, handle: str, row: Any) -> None:
        assert handle == "handle"
        if "Set" in function:
            self.writes += 1
            if self.takes:
                self.table[row.nameSpace] = (row.softLimit, row.hardLimit)
        else:
            row.softLimit, row.hardLimit = self.table.get(row.nameSpace, (0, 0))


def test_a_limit_is_set_once_and_read_back() -> None:
    driver: Any = Driver()
    limits, _refusals = hard.read([ROW], [GPU], "615.1")
    hard.apply(driver, hard.due(driver, limits))
    assert driver.table == {"/sys/fs/cgroup/user.slice/user-1001.slice": (8 * GIB, 20 * GIB)}
    assert (hard.due(driver, limits), driver.writes) == ([], 1)


def test_a_limit_that_does_not_hold_is_an_error() -> None:
    driver: Any = Driver(takes=False)
    with pytest.raises(NvmlError):
        hard.apply(driver, hard.read([ROW], [GPU], "615.1")[0])
