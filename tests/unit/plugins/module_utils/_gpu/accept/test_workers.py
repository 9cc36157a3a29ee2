# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes of the measuring program with a fake NVML: events, samples and time limits."""

from __future__ import annotations

import io
import json
import os
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import workers
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml

from harness.fakes.nvml import fake
from tests.unit.support.gpu import measuring_program

REQUEST: Any = {
    "warm_up_s": 0,
    "window_s": 0.1,
    "windows": 1,
    "burn_in_s": 0,
    "memory_share": 0.9,
    "dtypes": ["bf16"],
    "seed": 6,
}


def measure(nvml: Nvml, python: Path | str) -> workers.Outcome:
    (outcome,) = workers.measure(nvml, [(nvml.cards()[0], REQUEST)], str(python))
    return outcome


def test_program_is_sent_as_text():
    names = [name.rpartition(".")[2] for name, _text in workers.sources()]
    assert names[-1] == "program"
    # What a module imports comes before it.
    for number, (_name, text) in enumerate(workers.sources()):
        assert text.startswith("# Copyright")
        lines = re.findall(r"^from ansible_collections.* import (.+)", text, re.MULTILINE)
        imported = [name for line in lines for name in line.split(", ")]
        assert set(imported) <= set(names[:number])


def test_events_and_samples_come_from_one_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workers, "PERIOD_S", 0.005)
    python = measuring_program.write(tmp_path)
    with fake(["H200"]) as machine, Nvml() as nvml:
        outcome = measure(nvml, python)
        uuid = machine.gpus[0].uuid

    windows = [event for event in outcome.events if event["event"] == "window"]
    assert outcome.status == 0
    assert [window["test"] for window in windows] == ["matmul_bf16", "copy", "h2d", "d2h", "h2d_d2h"]
    assert outcome.samples[0]["at"] < windows[-1]["begun"]
    assert windows[0]["begun"] < outcome.samples[-1]["at"]
    assert all(window["from"] < row["at"] < window["to"] for window in windows for row in outcome.samples)
    assert outcome.samples[0]["power_w"] == 70
    record = json.loads((tmp_path / "record.jsonl").read_text())
    # Python would write a byte code for what it imports; the GPU is chosen by its UUID, since indices differ between CUDA and NVML.
    assert record["uuid"] == uuid
    assert record["wanted"]["limit_s"] == workers.seconds_needed(REQUEST)


def lines(*events: Any) -> list[Any]:
    """Return the events that are kept of these lines."""
    found: list[Any] = []
    workers.read_lines(io.StringIO("".join(json.dumps(event) + "\n" for event in events)), found)
    return found


def test_long_burn_in_is_kept_as_one_event_for_each_test():
    burnt = [
        {"event": "burn_in", "test": f"test {number % 3}", "wrong": 0} for number in range(workers.KEPT_EVENTS + 2)
    ]
    # A copy counts only whether its own window is wrong.
    burnt[-4]["wrong"] = 1
    outcome = workers.Outcome(events=lines({"event": "started"}, *burnt, {"event": "did", "step": "measure"}))

    assert outcome.did("measure")
    assert sum(event["windows"] for event in outcome.of("burn_in")) == len(burnt)
    assert [event["wrong"] for event in outcome.of("burn_in")].count(1) == 1
    assert len(outcome.events) == 5


def test_event_after_the_text_of_a_library_is_read():
    found: list[Any] = []
    text = 'Loading 100%{"event": "started"}\n{"a": 1}\n5\n{"event": \n{"event": "done"}\n'
    workers.read_lines(io.StringIO(text), found)

    assert found == [{"event": "started"}, {"event": "done"}]


@pytest.mark.parametrize(("kind", "kept"), [("burn_in", 0), ("window", 3)])
def test_samples_of_the_burn_in_are_left_out(monkeypatch: pytest.MonkeyPatch, kind: str, kept: int):
    monkeypatch.setattr(workers, "PERIOD_S", 0)
    monkeypatch.setattr(workers, "sample", lambda _nvml, _card: {})
    outcome = workers.Outcome(events=[{"event": kind}])
    worker: Any = SimpleNamespace(outcome=outcome, card=None, runs=lambda: True)
    done = iter([False] * 3 + [True])
    workers.wait(cast("Nvml", None), [worker], lambda _worker: next(done), "measure", 60.0)

    assert len(outcome.samples) == kept


def test_unknown_value_is_null_in_a_sample():
    with fake(["H200"]) as machine, Nvml() as nvml:
        for function in ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetCurrPcieLinkWidth"):
            machine.fail(function, "NOT_SUPPORTED")
        found = workers.sample(nvml, nvml.cards()[0])

    assert (found["power_w"], found["pcie_width"]) == (None, None)
    assert found["clock_mhz"] is not None


def test_hanging_program_is_killed_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    hanging = f"import subprocess; child = subprocess.Popen(['sleep', '60']); open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid)); "
    python = measuring_program.write(tmp_path, hanging + "time.sleep(60)")
    monkeypatch.setattr(workers, "START_S", 1.0)
    begun = time.monotonic()
    with fake(["H200"]), Nvml() as nvml:
        outcome = measure(nvml, python)

    assert (outcome.status, outcome.hung) == (None, "start")
    assert time.monotonic() - begun < 20
    assert gone(int((tmp_path / "pid").read_text()))


def gone(pid: int) -> bool:
    limit = time.monotonic() + 5
    while time.monotonic() < limit:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text():
            return True
        time.sleep(0.05)
    return False


def test_lost_card_ends_the_program(tmp_path: Path):
    python = measuring_program.write(tmp_path, "time.sleep(60)")
    begun = time.monotonic()
    with fake(["H200"]) as machine, Nvml() as nvml:
        nvml.cards()
        machine.lose(gpu=0)
        outcome = measure(nvml, python)

    assert outcome.lost is not None and outcome.lost.name == "GPU_IS_LOST"
    assert time.monotonic() - begun < 20


def test_end_of_standard_error_is_kept(tmp_path: Path):
    python = measuring_program.write(tmp_path, "sys.exit('no more memory')")
    with fake(["H200"]), Nvml() as nvml:
        outcome = measure(nvml, python)

    assert (outcome.status, outcome.output) == (1, "no more memory")


def test_missing_interpreter_is_an_error(tmp_path: Path):
    with fake(["H200"]), Nvml() as nvml, pytest.raises(FileNotFoundError):
        measure(nvml, tmp_path / "none")


def test_meeting_place_is_private_and_removed():
    with workers.meeting_place() as store:
        folder = Path(store).parent
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


def test_test_begins_when_all_processes_are_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workers, "PERIOD_S", 0.005)
    python = measuring_program.write(tmp_path)
    with fake(["H200", "H200"]), Nvml() as nvml:
        outcomes = workers.measure(nvml, [(card, REQUEST) for card in nvml.cards()], str(python))

    for number in range(workers.TOGETHER):
        began = [outcome.of("together")[number]["begun"] for outcome in outcomes]
        before = [outcome.of("together")[number - 1]["begun"] if number else 0 for outcome in outcomes]
        assert min(began) > max(before)
