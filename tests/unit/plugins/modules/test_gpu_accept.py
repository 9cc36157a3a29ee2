# SPDX-License-Identifier: GPL-3.0-or-later
"""The module beside imitated NVML, with an imitated Python that measures: accounts, baselines, and what it refuses."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.modules import gpu_accept

from harness.imitated_nvml import fake, models
from tests.unit import measuring_program

Run = Callable[..., dict[str, Any]]

# Clocks that the imitated figures go with: an idle card's would give a ceiling that it beats.
UNDER_LOAD = {"clock.1.current": 1700, "power.usage": 690000, "temperature.gpu": 60, "events.current": 4}
XID = "[  100.000000] NVRM: Xid (PCI:0000:%s): 48, pid=7, name=python, DBE (double bit error)\n"


@pytest.fixture
def machine() -> Iterator[Any]:
    with fake(["H200"]) as found:
        found.set(0, **UNDER_LOAD)
        yield found


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the kernel's log says, one text for each time that it is read; the last one stays."""
    texts = ["[    1.000000] Linux version 6.18\n"]

    def run_command(self: AnsibleModule, command: list[str], **options: Any) -> tuple[int, str, str]:
        return 0, texts.pop(0) if len(texts) > 1 else texts[0], ""

    monkeypatch.setattr(AnsibleModule, "run_command", run_command)
    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda self, name, *_rest, **_options: name)
    return texts


@pytest.fixture
def accept(run_module: Run, tmp_path: Path, log: list[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(gpu_accept.runner, "PERIOD_S", 0.005)

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
    assert set(gpu["tests"]) == {"matmul_bf16", "matmul_fp16", "matmul_fp32", "copy", "h2d", "d2h"}
    kept = json.loads((tmp_path / "baselines" / f"{gpu['uuid']}.json").read_text())
    assert kept["tests"]["copy"]["value"] == 4300
    assert result["diff"] == {"before": "", "after": gpu_accept.text_of(kept)}
    assert machine.writes == 0


def test_the_second_run_changes_nothing(accept: Run, machine: Any):
    accept()

    result = accept()

    assert (result["changed"], result["diff"]) == (False, {"before": "", "after": ""})


def test_check_mode_measures_and_writes_no_baseline(accept: Run, machine: Any, tmp_path: Path):
    result = accept(check=True)

    assert (result["verdict"], result["changed"]) == ("passed", True)
    assert not (tmp_path / "baselines").exists()


def test_a_baseline_that_cannot_be_written_does_not_cost_what_was_measured(accept: Run, machine: Any, tmp_path: Path):
    (tmp_path / "baselines").write_text("in the way")

    result = accept()

    assert (result["verdict"], result["changed"], result["diff"]["after"]) == ("passed", False, "")
    assert "there is no baseline of this run ([Errno" in only(result)["notes"][-1]


def test_a_gpu_that_is_not_there_is_refused_in_whole_sentences(accept: Run, machine: Any):
    assert accept(gpus=["GPU-x"])["msg"].endswith("at 0000:41:00.0. Nothing was measured.")


def test_a_card_slower_than_its_baseline_is_told_and_keeps_it(accept: Run, machine: Any, tmp_path: Path):
    accept()

    result = accept(values={"matmul_bf16": 720})

    assert (result["verdict"], result["changed"]) == ("slower", False)
    assert "8% less than 780 on 20" in only(result)["problems"][0]["evidence"]
    assert accept(values={"matmul_bf16": 720}, baseline="renew")["changed"]
    assert accept(values={"matmul_bf16": 720})["verdict"] == "passed"


def test_a_baseline_that_is_ignored_is_neither_read_nor_written(accept: Run, machine: Any, tmp_path: Path):
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines" / f"{machine.gpus[0].uuid}.json").write_text("{half")

    assert accept(baseline="ignore")["changed"] is False


@pytest.mark.parametrize("text", ["{half", "[]", '{"uuid": "GPU-another", "tests": {}}', '{"tests": {}}'])
def test_a_half_written_baseline_is_refused_before_anything_is_measured(
    accept: Run, machine: Any, tmp_path: Path, text: str
):
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines" / f"{machine.gpus[0].uuid}.json").write_text(text)

    result = accept()

    assert result["failed"]
    assert "is damaged" in result["msg"] and "Nothing was measured" in result["msg"]
    assert not (tmp_path / "record.jsonl").exists()


def test_a_card_that_is_held_back_by_heat_is_told(accept: Run, machine: Any):
    machine.set(0, **{"clock.1.current": 1000, "events.current": 0x20, "temperature.gpu": 89})

    result = accept(values={"matmul_bf16": 480, "matmul_fp16": 480})

    assert result["verdict"] == "cooling"
    assert result["changed"] is False


def test_an_xid_that_comes_meanwhile_is_told_and_old_ones_and_those_of_others_are_not(
    accept: Run, machine: Any, log: list[str]
):
    address = machine.gpus[0].pci_address.removeprefix("0000:").partition(".")[0]
    old = log[0] + XID.replace("100.0", "50.0") % address
    log[:] = [old, old + XID % "99:00" + XID % address]

    result = accept()

    assert result["verdict"] == "hardware"
    assert [one["evidence"] for one in only(result)["problems"]] == ["Xid 48: DBE (double bit error)"]


def test_a_kernel_log_that_may_not_be_read_is_noted(accept: Run, machine: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        AnsibleModule, "run_command", lambda self, command, **options: (1, "", "Operation not permitted")
    )

    assert only(accept())["notes"] == ["the kernel's log could not be read: Xids are not judged"]


def test_a_counter_that_rises_meanwhile_is_a_fault(accept: Run, machine: Any, monkeypatch: pytest.MonkeyPatch):
    plain = gpu_accept.runner.measure

    def measure(*arguments: Any, **options: Any) -> Any:
        outcome = plain(*arguments, **options)
        machine.set(0, **{"ecc.0.1.total": 1})
        return outcome

    monkeypatch.setattr(gpu_accept.runner, "measure", measure)

    assert [one["evidence"] for one in only(accept())["problems"]] == ["ecc_errors.volatile.uncorrected rose by 1"]


# Not measured


def failing(reason: str) -> str:
    return f"say(event='failed', reason={reason!r}, words='words of it'); sys.exit(3)"


def test_without_pytorch_nothing_passes_and_the_remedy_is_named(accept: Run, machine: Any):
    result = accept(before=failing("no_torch"))

    gpu = only(result)
    assert (result["verdict"], result["changed"], gpu["tests"]) == ("not_measured", False, {})
    assert "has PyTorch as `python`" in gpu["problems"][0]["next_step"]
    # What can be read without it is.
    assert gpu["power_limit_w"] == 700


def test_an_interpreter_that_is_not_there_is_no_crash(accept: Run, machine: Any):
    gpu = only(accept(python="/nowhere/python"))

    assert gpu["problems"][0]["evidence"] == "/nowhere/python cannot be started: No such file or directory"


def test_a_card_in_use_is_left_alone(accept: Run, machine: Any, tmp_path: Path):
    machine.run_process(gpu=0, pid=4242, kind="compute", memory_mib=512)

    result = accept()

    assert result["verdict"] == "not_measured"
    assert "in use by process 4242" in only(result)["problems"][0]["evidence"]
    assert not (tmp_path / "record.jsonl").exists()


def test_a_desktop_is_no_use(accept: Run, machine: Any):
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


def test_only_the_card_that_is_asked_for_is_measured_and_once(accept: Run, tmp_path: Path):
    with fake(["H200", "H200"]) as machine:
        machine.set(1, **UNDER_LOAD)
        result = accept(gpus=["1", machine.gpus[1].uuid, machine.gpus[1].pci_address.upper()])
        uuid = machine.gpus[1].uuid

    assert [gpu["uuid"] for gpu in result["gpus"]] == [uuid]
    assert [json.loads(line)["uuid"] for line in (tmp_path / "record.jsonl").read_text().splitlines()] == [uuid]


def test_a_card_that_is_not_there_is_refused_with_those_that_are(accept: Run, machine: Any):
    result = accept(gpus=["GPU-none"])

    assert result["failed"]
    assert machine.gpus[0].uuid in result["msg"] and "Nothing was measured" in result["msg"]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"windows": 0}, "`windows` is 0: give 1 or more"),
        ({"window_s": 0.1}, "`window_s` is 0.1: give 0.5 or more"),
        ({"warm_up_s": -1}, "`warm_up_s` is -1: give 0 or more"),
        ({"minutes": -1}, "`minutes` is -1: give 0 or more"),
    ],
)
def test_times_that_cannot_be_meant_are_refused(accept: Run, machine: Any, params: dict[str, Any], words: str):
    assert words in accept(**params)["msg"]


def test_a_user_who_is_not_there_is_refused(accept: Run, machine: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    assert "There is no user nobody-here: set `user`" in accept(user="nobody-here")["msg"]


def test_times_follow_quick_unless_they_are_given(accept: Run, machine: Any, tmp_path: Path):
    accept(window_s=0.5, minutes=0.5)
    accept(quick=False)

    first, second = (json.loads(line)["wanted"] for line in (tmp_path / "record.jsonl").read_text().splitlines())
    assert (first["warm_up_s"], first["window_s"], first["burn_in_s"]) == (5, 0.5, 30)
    assert (second["warm_up_s"], second["window_s"], second["burn_in_s"]) == (30, 10, 0)


def test_a_driver_that_was_upgraded_under_it_is_told_by_name(accept: Run, machine: Any):
    machine.upgrade_library("590.48.01")

    result = accept()

    assert (result["failed"], result["nvml_error"]) == (True, "LIB_RM_VERSION_MISMATCH")
    assert "reboot" in result["next_step"]


def test_every_model_is_measured_by_what_it_has_and_none_breaks_it(accept: Run):
    with fake(models()) as machine:
        result = accept(baseline="ignore", window_s=0.5)
        names = [gpu.model for gpu in machine.gpus]

    found = {name: sorted(gpu["tests"]) for name, gpu in zip(names, result["gpus"], strict=True)}
    others = ["copy", "d2h", "h2d", "matmul_fp32"]
    assert found["GTX 1080"] == others
    assert found["T4"] == found["V100"] == [*others[:3], "matmul_fp16", "matmul_fp32"]
    assert found["H100"] == [*others[:3], "matmul_bf16", "matmul_fp16", "matmul_fp32"]
    assert all(gpu["tests"]["copy"]["ceiling"] for gpu in result["gpus"])
