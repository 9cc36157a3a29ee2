# SPDX-License-Identifier: GPL-3.0-or-later
"""Daemons on the imitation of MPS: started, changed, drained, stopped and proven; with and without systemd."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils import _mps_devices
from ansible_collections.rigwright.workstation.plugins.module_utils._mps_plan import Device
from ansible_collections.rigwright.workstation.plugins.modules import gpu_mps

from harness.imitated_mps import Mps, imitated_mps, waited_for

Run = Callable[..., dict[str, Any]]

A = "GPU-aaaaaaaa-0000-0000-0000-000000000001"
B = "GPU-bbbbbbbb-0000-0000-0000-000000000002"
GPUS = [
    Device(A, "0", "0000:41:00.0", "NVIDIA H200", capability=(9, 0), memory_mib=143771),
    Device(B, "1", "0000:42:00.0", "NVIDIA H200", capability=(9, 0), memory_mib=143771),
]


class Machine:
    """The imitation, and what NVML would tell of its GPUs."""

    def __init__(self, mps: Mps, run_module: Run) -> None:
        self.mps, self.run_module = mps, run_module
        self.devices, self.driver = list(GPUS), "580.159.04"

    def pipe(self, name: str = "team") -> Path:
        return self.mps.folder / "run" / name

    def run(self, *daemons: dict[str, Any], **params: Any) -> dict[str, Any]:
        root = self.mps.folder
        places = {"pipe_root": f"{root}/run", "log_root": f"{root}/log", "config_root": f"{root}/etc"}
        return self.run_module(gpu_mps, daemons=list(daemons), **{"manager": "none", **places, **params})

    def pid(self, name: str = "team") -> int:
        return int((self.pipe(name) / "nvidia-cuda-mps-control.pid").read_text())


@pytest.fixture
def machine(run_module: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    with imitated_mps([A, B]) as mps:
        made = Machine(mps, run_module)
        monkeypatch.setattr(gpu_mps, "Nvml", lambda: contextlib.nullcontext("no NVML"))
        monkeypatch.setattr(gpu_mps, "respawn_where_needed", lambda module: None)
        monkeypatch.setattr(_mps_devices, "read", lambda nvml: (made.devices, made.driver))
        for key in ("PATH", "LD_LIBRARY_PATH", "RIGWRIGHT_IMITATED_CUDA"):
            monkeypatch.setenv(key, mps.env[key])
        yield made


TEAM = {"name": "team", "devices": [A], "active_thread_percentage": 50, "memory_limits": {A: "2G"}}


def test_a_daemon_is_started_with_its_limits_and_proven_by_a_client(machine: Machine) -> None:
    result = machine.run(TEAM)
    assert result["changed"], result
    (daemon,) = result["daemons"]
    assert daemon["actions"] == ["start"]
    assert daemon["client_environment"] == {"CUDA_MPS_PIPE_DIRECTORY": str(machine.pipe())}
    (seen,) = daemon["verified"]["devices"]
    assert (seen["mps"], seen["multiprocessors"], seen["uuid"]) == (1, 66, A)
    assert machine.mps.ask(machine.pipe(), "get_default_active_thread_percentage") == "50.0"


def test_a_second_run_changes_nothing(machine: Machine) -> None:
    machine.run(TEAM)
    before = machine.pid()
    again = machine.run(TEAM)
    assert (again["changed"], again["pending"], again["daemons"][0]["actions"]) == (False, [], []), again
    assert again["diff"]["before"] == again["diff"]["after"]
    assert machine.pid() == before
