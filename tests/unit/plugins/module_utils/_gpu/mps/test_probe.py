# SPDX-License-Identifier: GPL-3.0-or-later
"""Problems of the devices that a client sees. The client itself runs in the tests of gpu_mps and of the fake MPS."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import probe

A = "GPU-aaaaaaaa"


def account(**changes: Any) -> Any:
    device = {
        "ordinal": 0,
        "uuid": A,
        "mps": 1,
        "multiprocessors": 66,
        "memory_total_mib": 143771,
        "memory_free_mib": 1500,
    }
    return {"devices": [{**device, **changes}], "error": None}


OUTSIDE = account(mps=0, multiprocessors=132)


def problems(**changes: Any) -> list[str]:
    return probe.judge(account(**changes), OUTSIDE, 50, {A: 2048}, [A])


def test_client_with_the_declared_limits_is_the_proof() -> None:
    assert problems() == []


def test_client_outside_mps_is_found() -> None:
    assert problems(mps=0) == [f"a client on {A} runs outside MPS and without limits (device attribute 133 is 0)"]
    assert "is None" in problems(mps=None)[0]


def test_a_client_with_all_multiprocessors_is_found() -> None:
    assert problems(multiprocessors=132) == [f"a client on {A} has 132 of 132 multiprocessors, more than 50 %"]


@pytest.mark.parametrize(
    ("total", "percentage", "most"), [(132, 50, 68), (132, 25, 35), (108, 33, 38), (132, 100, 132)]
)
def test_a_share_is_rounded_up_to_whole_groups(total: int, percentage: int, most: int) -> None:
    assert probe.most_multiprocessors(total, percentage) == most


def test_a_limit_shows_as_free_memory_and_not_as_the_total() -> None:
    assert problems(memory_free_mib=140000, memory_total_mib=143771, beyond_limit=0) != []
    assert problems(memory_free_mib=2000, memory_total_mib=143771) == []


def test_failed_allocation_proves_a_limit() -> None:
    assert problems(memory_free_mib=140000, beyond_limit=probe.OUT_OF_MEMORY) == []
    assert "given more memory than its limit" in problems(memory_free_mib=140000, beyond_limit=0)[0]


def test_a_device_that_is_missing_is_found() -> None:
    assert probe.judge(account(), None, None, {}, [A, "GPU-b"]) == ["a client sees 1 of the daemon's 2 devices"]


def test_instance_is_matched_by_its_uuid_without_prefix() -> None:
    assert probe.judge(account(), None, None, {"MIG-aaaaaaaa": 1000}, ["MIG-aaaaaaaa"]) != []


def test_program_reports_a_missing_driver() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", probe.source()],
        input=probe.request({}, contexts=False),
        capture_output=True,
        text=True,
        check=True,
        env={"LD_LIBRARY_PATH": "/nowhere"},
    )
    account = probe.read(f"a word of a library\n{done.stdout}")
    assert account["error"] is None or account["error"]["function"] in ("libcuda.so.1", "cuInit")


def test_output_without_a_result_is_refused() -> None:
    with pytest.raises(ValueError, match="Killed"):
        probe.read("Killed")
    assert probe.read(json.dumps(account()))["devices"][0]["uuid"] == A
