# SPDX-License-Identifier: GPL-3.0-or-later
"""A sample of the fake NVML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.probe import Probe, serve
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.proc import Processes

from harness.fakes import nvml as fake_nvml
from tests.unit.plugins.module_utils._gpu.usage.test_proc import USERS, add

NOW = 1_764_000_000.0


@pytest.fixture
def probe(tmp_path: Path) -> Probe:
    for pid, uid in ((42, 1000), (43, 1001)):
        add(tmp_path, pid, 1000 + pid, uid, f"/user.slice/user-{uid}.slice/session-3.scope")
    return Probe(Processes(Tree(str(tmp_path)), lambda uid: USERS.get(uid, ""), 100))


def use(machine: fake_nvml.Machine, pid: int, stamp: float, *percent: int) -> None:
    numbers = " ".join(map(str, [int(stamp * 1e6), *percent, 0, 0, 0]))
    machine.change({f"gpu.0.use.{pid}": numbers})


def shares(probe: Probe, now: float = NOW) -> dict[int, int | None]:
    (gpu,) = probe.sample(1000.0, now)["gpus"]
    return {row["pid"]: row["share_percent"] for row in gpu["processes"]}


def test_sample_has_gpus_and_owners(probe: Probe) -> None:
    with fake_nvml.fake(["H200"]) as machine:
        machine.run_process(0, 42, memory_mib=2048)
        machine.run_process(0, 43, kind="graphics", memory_mib=64)
        sample = probe.sample(1000.0, NOW)
    assert (sample["driver"], sample["problem"]) == (fake_nvml.DRIVER, "")
    (gpu,) = sample["gpus"]
    assert (gpu["index"], gpu["uuid"], gpu["memory_used_mib"] >= 2112) == (0, machine.gpus[0].uuid, True)
    assert [(row["pid"], row["user"], row["memory_mib"], row["start"], row["started"]) for row in gpu["processes"]] == [
        (42, "alice", 2048, 10.42, NOW - 989.58),
        (43, "bob", 64, 10.43, NOW - 989.57),
    ]


def test_root_in_a_container_is_nobody(probe: Probe, tmp_path: Path) -> None:
    add(tmp_path, 44, 1044, 0, f"/system.slice/docker-{'ab' * 32}.scope")
    with fake_nvml.fake(["H200"]) as machine:
        machine.run_process(0, 44)
        machine.run_process(0, 45)
        rows = probe.sample(1000.0, NOW)["gpus"][0]["processes"]
    assert [(row["user"], row["kind"], row["uid"], row["owner_uid"]) for row in rows] == [
        ("", "container", 0, None),
        ("", "unknown", -1, None),
    ]


def test_share_is_that_since_the_last_sample(probe: Probe) -> None:
    with fake_nvml.fake(["H200"]) as machine:
        machine.run_process(0, 42)
        machine.run_process(0, 43)
        use(machine, 42, NOW - 1, 60)
        assert shares(probe) == {42: 60, 43: 0}
        assert shares(probe, NOW + 15) == {42: 0, 43: 0}
        use(machine, 43, NOW + 20, 30)
        assert shares(probe, NOW + 30) == {42: 0, 43: 30}


def test_clock_set_back_hides_no_kernel(probe: Probe) -> None:
    with fake_nvml.fake(["H200"]) as machine:
        machine.run_process(0, 42)
        use(machine, 42, NOW, 60)
        shares(probe, NOW)
        use(machine, 42, NOW - 3600, 70)
        assert shares(probe, NOW - 3590) == {42: 70}


def test_number_beyond_all_percent_is_unknown(probe: Probe) -> None:
    with fake_nvml.fake(["H200"]) as machine:
        machine.run_process(0, 42)
        use(machine, 42, NOW, 4_294_967_295)
        assert shares(probe) == {42: None}


def test_no_sample_in_a_short_interval_is_no_statement(probe: Probe) -> None:
    """The driver looks at the GPU about once a second: of two equal loads it may see the other one a few times."""
    with fake_nvml.fake(["H200"]) as machine:
        machine.run_process(0, 42)
        machine.run_process(0, 43)
        use(machine, 42, NOW - 0.1, 60)
        use(machine, 43, NOW - 0.4, 40)
        for seconds in (0.0, 0.3, 1.0, 4.0):
            assert shares(probe, NOW + seconds) == {42: 60, 43: 40}
        assert shares(probe, NOW + 6) == {42: 0, 43: 0}


def test_young_process_without_a_sample_is_unknown(probe: Probe, tmp_path: Path) -> None:
    add(tmp_path, 44, 99800, 1000, "/user.slice/user-1000.slice/session-3.scope")
    with fake_nvml.fake(["H200"]) as machine:
        machine.run_process(0, 42)
        machine.run_process(0, 44)
        assert shares(probe) == {42: 0, 44: None}


def test_share_of_a_working_client_of_mps_is_unknown(probe: Probe, tmp_path: Path) -> None:
    add(tmp_path, 40, 1040, 0, "/system.slice/rigwright-mps.service", "nvidia-cuda-mps")
    with fake_nvml.fake(["H200"]) as machine:
        machine.run_process(0, 40, memory_mib=66)
        machine.run_process(0, 42, kind="mps")
        machine.run_process(0, 43)
        use(machine, 40, NOW - 1, 86)
        assert shares(probe) == {40: 86, 42: None, 43: 0}
        assert shares(probe, NOW + 15) == {40: 0, 42: 0, 43: 0}
        machine.end_process(0, 40)
        # Where the server is cannot be seen.
        assert shares(probe, NOW + 30) == {42: None, 43: 0}


def test_drawing_process_is_marked(probe: Probe) -> None:
    with fake_nvml.fake(["H200"]) as machine:
        machine.run_process(0, 42)
        machine.run_process(0, 43, kind="graphics")
        (gpu,) = probe.sample(1000.0, NOW)["gpus"]
    assert [row["graphics"] for row in gpu["processes"]] == [False, True]


def test_gpu_with_mig_reports_no_share(probe: Probe) -> None:
    with fake_nvml.fake(["H200"]) as machine:
        machine.change({"gpu.0.mig.mode": "1"})
        machine.run_process(0, 42)
        assert shares(probe) == {42: None}


def test_client_of_mps_is_counted_once(probe: Probe) -> None:
    with fake_nvml.fake(["H200"]) as machine:
        machine.run_process(0, 42, kind="mps", memory_mib=512)
        (gpu,) = probe.sample(1000.0, NOW)["gpus"]
    assert [(row["pid"], row["memory_mib"]) for row in gpu["processes"]] == [(42, 512)]


def test_lost_gpu_does_not_hide_the_others(probe: Probe) -> None:
    with fake_nvml.fake(["H200", "H200"]) as machine:
        machine.lose(0)
        sample = probe.sample(1000.0, NOW)
    assert [gpu["index"] for gpu in sample["gpus"]] == [1]
    assert sample["problem"].startswith("GPU 0 does not answer: GPU_IS_LOST")


def test_missing_driver_is_a_problem_and_ends_the_child(probe: Probe) -> None:
    lines: list[str] = []
    with fake_nvml.fake(["H200"]) as machine:
        machine.unload_driver()
        serve(["\n", "\n"], lines.append, probe)
        (sample,) = map(json.loads, lines)
        assert sample["problem"].startswith("NVML: DRIVER_NOT_LOADED") and sample["gpus"] == []
        machine.reboot()
        lines.clear()
        serve(["\n", "\n"], lines.append, probe)
    assert [json.loads(line)["problem"] for line in lines] == ["", ""]


def test_nothing_is_open_between_two_samples(probe: Probe) -> None:
    calls: list[str] = []

    class Recording(Nvml):
        def call(self, function: str, *arguments: Any) -> Any:
            calls.append(function)
            return super().call(function, *arguments)

    probe.nvml = Recording
    with fake_nvml.fake(["H200"]):
        probe.sample(1000.0, NOW)
    assert calls[0] == "nvmlInit" and calls[-1] == "nvmlShutdown"
