# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of gpu_accept with a fake NVML and a fake measuring program: reports, baselines and refusals."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import baseline, workers
from ansible_collections.rigwright.workstation.plugins.modules import gpu_accept

from harness.fakes.nvml import fake, models
from tests.unit.support.gpu import measuring_program
from tests.unit.support.gpu.reports import HEALTHY

Run = Callable[..., dict[str, Any]]

# Clocks for the fake figures: those of an idle card would give ceilings below them.
UNDER_LOAD = {"clock.1.current": 1700, "power.usage": 690000, "temperature.gpu": 60, "events.current": 4}
XID = "[  100.000000] NVRM: Xid (PCI:0000:%s): 48, pid=7, name=python, DBE (double bit error)\n"


@pytest.fixture
def machine() -> Iterator[Any]:
    with fake(["H200"]) as found:
        found.set(0, **UNDER_LOAD)
        yield found


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fake the kernel's log: each read returns the next of these texts, and the last one stays."""
    texts = ["[    1.000000] Linux version 6.18\n"]

    def run_command(self: AnsibleModule, command: list[str], **options: Any) -> tuple[int, str, str]:
        return 0, texts.pop(0) if len(texts) > 1 else texts[0], ""

    monkeypatch.setattr(AnsibleModule, "run_command", run_command)
    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda self, name, *_rest, **_options: name)
    return texts


@pytest.fixture
def accept(run_module: Run, tmp_path: Path, log: list[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(workers, "PERIOD_S", 0.005)

    def run(
        check: bool = False, values: dict[str, float] | None = None, before: str = "", **params: Any
    ) -> dict[str, Any]:
        python = measuring_program.write(tmp_path, before, **(values or {}))
        given = {"python": str(python), "directory": str(tmp_path / "baselines"), "quick": True, "windows": 1, **params}
        return run_module(gpu_accept, check=check, **given)

    return run


def only(result: dict[str, Any]) -> dict[str, Any]:
    (gpu,) = result["gpus"]
    return gpu


def test_a_healthy_card_passes_and_gets_a_baseline(accept: Run, machine: Any, tmp_path: Path):
    result = accept()

    gpu = only(result)
    assert (result["verdict"], result["changed"], gpu["problems"]) == ("passed", True, [])
    assert (gpu["uuid"], gpu["driver"], gpu["torch"]) == (machine.gpus[0].uuid, "580.159.04", "2.11.0+cu130")
    assert set(gpu["tests"]) == set(HEALTHY)
    assert (gpu["memory_test"]["share"], gpu["together"]) == (0.9, {})
    kept = json.loads((tmp_path / "baselines" / f"{gpu['uuid']}.json").read_text())
    assert kept["tests"]["copy"]["value"] == 4300
    assert result["diff"] == {"before": "", "after": baseline.text_of(kept)}
    assert machine.writes == 0


def test_the_second_run_changes_nothing(accept: Run, machine: Any):
    accept()

    result = accept()

    assert (result["changed"], result["diff"]) == (False, {"before": "", "after": ""})


def test_check_mode_measures_and_writes_no_baseline(accept: Run, machine: Any, tmp_path: Path):
    result = accept(check=True)

    assert (result["verdict"], result["changed"]) == ("passed", True)
    assert not (tmp_path / "baselines").exists()


def test_unwritable_baseline_keeps_the_measurement(accept: Run, machine: Any, tmp_path: Path):
    (tmp_path / "baselines").write_text("in the way")

    result = accept()

    assert (result["verdict"], result["changed"], result["diff"]["after"]) == ("passed", False, "")
    assert "there is no baseline of this run ([Errno" in only(result)["notes"][-1]


def test_unknown_gpu_is_refused_in_whole_sentences(accept: Run, machine: Any):
    assert accept(gpus=["GPU-x"])["msg"].endswith("at 0000:41:00.0. Nothing was measured.")


def test_slower_card_keeps_its_baseline(accept: Run, machine: Any, tmp_path: Path):
    accept()

    result = accept(values={"matmul_bf16": 720})

    assert (result["verdict"], result["changed"]) == ("slower", False)
    assert "8% less than 780 on 20" in only(result)["problems"][0]["evidence"]
    assert accept(values={"matmul_bf16": 720}, baseline="renew")["changed"]
    assert accept(values={"matmul_bf16": 720})["verdict"] == "passed"


def test_ignored_baseline_is_neither_read_nor_written(accept: Run, machine: Any, tmp_path: Path):
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines" / f"{machine.gpus[0].uuid}.json").write_text("{half")

    assert accept(baseline="ignore")["changed"] is False


@pytest.mark.parametrize("text", ["{half", "[]", '{"uuid": "GPU-another", "tests": {}}', '{"tests": {}}'])
def test_damaged_baseline_is_refused_before_a_measurement(accept: Run, machine: Any, tmp_path: Path, text: str):
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines" / f"{machine.gpus[0].uuid}.json").write_text(text)

    result = accept()

    assert result["failed"]
    assert "is damaged" in result["msg"] and "Nothing was measured" in result["msg"]
    assert not (tmp_path / "record.jsonl").exists()


def test_card_held_back_by_heat_is_cooling(accept: Run, machine: Any):
    machine.set(0, **{"clock.1.current": 1000, "events.current": 0x20, "temperature.gpu": 89})

    result = accept(values={"matmul_bf16": 480, "matmul_fp16": 480})

    assert result["verdict"] == "cooling"
    assert result["changed"] is False


def test_only_new_xids_of_the_card_count(accept: Run, machine: Any, log: list[str]):
    address = machine.gpus[0].pci_address.removeprefix("0000:").partition(".")[0]
    old = log[0] + XID.replace("100.0", "50.0") % address
    log[:] = [old, old + XID % "99:00" + XID % address]

    result = accept()

    assert result["verdict"] == "hardware"
    assert [row["evidence"] for row in only(result)["problems"]] == ["Xid 48: DBE (double bit error)"]


def test_unreadable_kernel_log_is_noted(accept: Run, machine: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        AnsibleModule, "run_command", lambda self, command, **options: (1, "", "Operation not permitted")
    )

    assert only(accept())["notes"] == ["the kernel's log could not be read: Xids are not judged"]


def test_rising_counter_is_a_problem(accept: Run, machine: Any, monkeypatch: pytest.MonkeyPatch):
    plain = workers.measure

    def measure(*arguments: Any, **options: Any) -> Any:
        outcome = plain(*arguments, **options)
        machine.set(0, **{"ecc.0.1.total": 1})
        return outcome

    monkeypatch.setattr(workers, "measure", measure)

    assert [row["evidence"] for row in only(accept())["problems"]] == ["ecc_errors.volatile.uncorrected rose by 1"]


@pytest.mark.parametrize("before", ["", "def measure(line): sys.exit(4)"])
def test_card_lost_right_after_the_test_fails(accept: Run, machine: Any, monkeypatch: pytest.MonkeyPatch, before: str):
    plain = workers.measure

    def measure(*arguments: Any, **options: Any) -> Any:
        outcome = plain(*arguments, **options)
        machine.lose(gpu=0)
        return outcome

    monkeypatch.setattr(workers, "measure", measure)
    gpu = only(accept(before=before))

    assert gpu["verdict"] == "hardware"
    assert [row["evidence"] for row in gpu["problems"]] == ["it no longer answers after the test: GPU_IS_LOST"]


# Not measured


def failing(reason: str) -> str:
    return f"say(event='failed', reason={reason!r}, words='words of it'); sys.exit(3)"


def test_without_pytorch_nothing_passes_and_has_a_remedy(accept: Run, machine: Any):
    result = accept(before=failing("no_torch"))

    gpu = only(result)
    assert (result["verdict"], result["changed"], gpu["tests"]) == ("not_measured", False, {})
    assert "has PyTorch as `python`" in gpu["problems"][0]["next_step"]
    # What can be read without it is.
    assert gpu["power_limit_w"] == 700


def test_missing_interpreter_is_no_crash(accept: Run, machine: Any):
    gpu = only(accept(python="/nowhere/python"))

    assert gpu["problems"][0]["evidence"] == "/nowhere/python cannot be started: No such file or directory"


def test_a_card_in_use_is_left_alone(accept: Run, machine: Any, tmp_path: Path):
    machine.run_process(gpu=0, pid=4242, kind="compute", memory_mib=512)

    result = accept()

    assert result["verdict"] == "not_measured"
    assert "in use by process 4242" in only(result)["problems"][0]["evidence"]
    assert not (tmp_path / "record.jsonl").exists()


def test_desktop_does_not_count_as_use(accept: Run, machine: Any):
    machine.run_process(gpu=0, pid=4242, kind="graphics", memory_mib=64)

    assert accept()["verdict"] == "passed"


def test_a_lost_card_hides_no_other(accept: Run, tmp_path: Path):
    with fake(["H200", "H200"]) as machine:
        machine.set(1, **UNDER_LOAD)
        machine.lose(gpu=0)
        result = accept()

    assert [gpu["verdict"] for gpu in result["gpus"]] == ["not_measured", "passed"]
    assert result["verdict"] == "not_measured"
    assert "GPU_IS_LOST" in result["gpus"][0]["problems"][0]["evidence"]


# Requests


def test_only_the_requested_card_is_measured_once(accept: Run, tmp_path: Path):
    with fake(["H200", "H200"]) as machine:
        machine.set(1, **UNDER_LOAD)
        result = accept(gpus=["1", machine.gpus[1].uuid, machine.gpus[1].pci_address.upper()])
        uuid = machine.gpus[1].uuid

    assert [gpu["uuid"] for gpu in result["gpus"]] == [uuid]
    assert [json.loads(line)["uuid"] for line in (tmp_path / "record.jsonl").read_text().splitlines()] == [uuid]


def test_unknown_card_is_refused_with_the_existing_ones(accept: Run, machine: Any):
    result = accept(gpus=["GPU-none"])

    assert result["failed"]
    assert machine.gpus[0].uuid in result["msg"] and "Nothing was measured" in result["msg"]


def test_times_follow_quick_unless_they_are_given(accept: Run, machine: Any, tmp_path: Path):
    accept(window_s=0.5, minutes=0.5)
    accept(quick=False)

    first, second = (json.loads(line)["wanted"] for line in (tmp_path / "record.jsonl").read_text().splitlines())
    assert (first["warm_up_s"], first["window_s"], first["burn_in_s"]) == (5, 0.5, 30)
    assert (second["warm_up_s"], second["window_s"], second["burn_in_s"]) == (30, 10, 0)


def test_every_model_is_measured_with_its_types(accept: Run):
    with fake(models()) as machine:
        result = accept(baseline="ignore", window_s=0.5)
        names = [gpu.model for gpu in machine.gpus]

    found = {
        name: {test.removeprefix("matmul_") for test in gpu["tests"]}
        for name, gpu in zip(names, result["gpus"], strict=True)
    }
    others = {"copy", "d2h", "h2d", "h2d_d2h", "fp32", "fp64"}
    assert found["GTX 1080"] == others
    assert found["T4"] == found["V100"] == others | {"fp16"}
    assert found["A30"] == others | {"fp16", "bf16", "tf32"}
    assert found["H100"] == others | {"fp16", "bf16", "tf32", "fp8"}
    assert all(gpu["tests"]["copy"]["ceiling"] for gpu in result["gpus"])


# Several GPUs


@pytest.fixture
def four() -> Iterator[Any]:
    with fake(["H200"] * 4) as found:
        for gpu in found.gpus:
            found.set(gpu.index, **UNDER_LOAD)
        yield found


def test_all_gpus_are_loaded_together_and_linked(accept: Run, four: Any, tmp_path: Path):
    result = accept()

    assert result["verdict"] == "passed", result
    assert {gpu["together"]["matmul_bf16"]["share"] for gpu in result["gpus"]} == {1.0}
    assert len(result["links"]["pairs"]) == 12
    assert result["links"]["all_reduce"]["ranks"] == 4
    findings = {row["id"]: row["status"] for row in result["findings"]}
    assert (findings["gpu_accept.pairs"], findings["gpu_accept.all_reduce"]) == ("pass", "pass")
    started = [json.loads(line)["uuids"] for line in (tmp_path / "record.jsonl").read_text().splitlines()]
    assert sorted(map(len, started)) == [1, 1, 1, 1, 4]


def test_single_gpu_skips_pairs_and_all_reduce(accept: Run, machine: Any):
    findings = {row["id"]: row for row in accept()["findings"]}

    assert findings["gpu_accept.pairs"]["status"] == findings["gpu_accept.all_reduce"]["status"] == "skip"
    assert findings["gpu_accept.pairs"]["evidence"] == "1 GPU could be measured, and it takes two"


def test_all_reduce_without_nccl_is_skipped(accept: Run, four: Any):
    without = "def all_reduce(line): say('skipped', test='all_reduce', words='this PyTorch was built without NCCL')"
    result = accept(before=without)

    findings = {row["id"]: row for row in result["findings"]}
    assert result["links"]["all_reduce"] is None
    assert findings["gpu_accept.all_reduce"]["status"] == "skip"
    assert "without NCCL" in findings["gpu_accept.all_reduce"]["evidence"]
    assert findings["gpu_accept.pairs"]["status"] == "pass"


@pytest.mark.parametrize("step", ["measure", "memory", "together"])
def test_hanging_program_fails_only_its_gpu(accept: Run, four: Any, monkeypatch: pytest.MonkeyPatch, step: str):
    whole = workers.step_seconds
    monkeypatch.setattr(workers, "step_seconds", lambda request, row: 3.0 if row == step else whole(request, row))
    monkeypatch.setattr(workers, "MEMORY_S", 3.0)
    third = four.gpus[2].uuid
    result = accept(before=f"if uuid == {third!r}: {step} = lambda line: hang()")

    verdicts = {gpu["uuid"]: gpu["verdict"] for gpu in result["gpus"]}
    assert [uuid for uuid, verdict in verdicts.items() if verdict != "passed"] == [third]
    (failed,) = [row for row in result["findings"] if row["status"] == "fail"]
    assert failed["id"] == f"gpu_accept.{third}"
    assert "it hangs" in failed["evidence"]


def test_hanging_all_reduce_blames_no_single_card(accept: Run, four: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workers, "REDUCE_S", 3.0)
    result = accept(before="def all_reduce(line): say('meeting', rank=line['rank']); hang()")

    assert {gpu["verdict"] for gpu in result["gpus"]} == {"passed"}
    (failed,) = [row for row in result["findings"] if row["status"] == "fail"]
    assert failed["id"] == "gpu_accept.all_reduce"
    assert "4 of 4 GPUs began" in failed["evidence"]


def test_card_missing_from_the_all_reduce_is_named(accept: Run, four: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workers, "REDUCE_S", 3.0)
    third = four.gpus[2].uuid
    result = accept(before=f"if uuid == {third!r}: all_reduce = lambda line: hang()")

    assert [gpu["uuid"] for gpu in result["gpus"] if gpu["verdict"] == "hardware"] == [third]


def test_wrong_memory_fails_its_card(accept: Run, machine: Any):
    first = {"pattern": "0xaa", "offset": 4096, "address": "0x7f00", "expected": "0xaa", "found": "0xab", "bits": [0]}
    facts = {"free_bytes": 10, "total_bytes": 12, "tested_bytes": 9, "patterns": ["0xaa"], "seconds": 1, "gb_s": 1}
    bad = f"def memory(line): say('memory', **{facts}, wrong=1, first={first})"

    gpu = only(accept(before=bad))

    assert gpu["verdict"] == "hardware"
    assert "0xaa at byte 4096 (0x7f00): 0xab instead of 0xaa, bits 0" in gpu["problems"][0]["evidence"]


def test_memory_test_can_be_omitted_and_has_limits(accept: Run, machine: Any):
    assert only(accept(memory_share=0))["memory_test"] is None
    assert "give 0 to 0.95" in accept(memory_share=1)["msg"]


def test_card_lost_under_load_fails(accept: Run, four: Any, tmp_path: Path):
    lose = f"""if uuid == {four.gpus[1].uuid!r}:
    def measure(line):
        open({str(tmp_path / "now")!r}, 'w')
        hang()"""
    plain = workers.sample

    def sample(nvml: Any, card: Any) -> Any:
        if (tmp_path / "now").exists():
            four.lose(gpu=1)
            (tmp_path / "now").unlink()
        return plain(nvml, card)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "sample", sample)
        result = accept(before=lose)

    assert [gpu["verdict"] for gpu in result["gpus"]] == ["passed", "hardware", "passed", "passed"]
    assert "no longer answered under load: GPU_IS_LOST" in result["gpus"][1]["problems"][0]["evidence"]
    assert len(result["links"]["pairs"]) == 6
