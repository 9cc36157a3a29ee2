# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of the training program, and their findings."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke import facts, findings, process, request
from ansible_collections.rigwright.workstation.plugins.plugin_utils._finding import parse

PROGRAM = runpy.run_path(str(Path(__file__).parents[6] / "roles/smoke_test/files/train_digits.py"))

ONE, TWO = (f"GPU-00000000-0000-0000-0000-00000000000{number}" for number in (1, 2))
PART = "MIG-11111111-2222-3333-4444-555555555555"
TORCH = request.Place(request.ENVIRONMENT, "torch", "/opt/conda/envs/torch/bin/python")
LAB = request.Place(request.IMAGE, "lab/pytorch:2.9", "python3", "lab/pytorch:2.9")
WITH_GPU = facts.Host(1, (ONE,))
ALL = ("--device", "nvidia.com/gpu=all")

# As the program said it on an H100.
WELL: Any = {
    "reason": "",
    "words": "",
    "install": "",
    "gpus": [{"uuid": ONE, "name": "NVIDIA H100 80GB HBM3"}],
    "driver": "CUDA_SUCCESS",
    "driver_cuda": "13.0",
    "torch": "2.11.0+cu130",
    "cuda": "13.0",
    "device": "cuda",
    "device_name": "NVIDIA H100 80GB HBM3",
    "epochs": 20,
    "seconds_per_epoch": 0.0653,
    "held_out": 359,
    "accuracy": 0.9861,
    "peak_gpu_memory_bytes": 72312832,
    "peak_memory_bytes": 1458905088,
}


def report(reason: str = "", text: str = "", **changes: Any) -> findings.Report:
    return WELL | {"reason": reason, "words": text} | changes


# --- Reports ---


def outcome(status: int | None, stdout: str = "", stderr: str = "") -> process.Outcome:
    return process.Outcome(status, stdout, stderr)


def test_report_is_the_last_line_of_json():
    output = f'A banner of the image\n{{"reason": "cut\n{json.dumps(WELL)}\n'
    assert findings.report_of(LAB, outcome(0, output)) == WELL


@pytest.mark.parametrize(
    ("place", "ended", "reason", "text"),
    [
        (TORCH, outcome(None), "timeout", "not done in time"),
        (
            TORCH,
            outcome(
                1,
                stderr='Timeout (0:05:00)!\nThread 0x7f (most recent call first):\n  File "<frozen importlib>", line 4 in x\n'
                '  File "/usr/lib/python3/dist-packages/torch/__init__.py", line 405 in <module>\n',
            ),
            "timeout",
            "not done in time, it was at /usr/lib/python3/dist-packages/torch/__init__.py:405",
        ),
        (TORCH, outcome(-11), "killed", "ended by signal 11."),
        (TORCH, outcome(0), "no_answer", "exit status 0."),
        (TORCH, outcome(1, stderr="SyntaxError: invalid\n  syntax"), "no_answer", "SyntaxError: invalid syntax"),
        (TORCH, outcome(1, stdout='{"reason": "cut'), "no_answer", '{"reason": "cut'),
        (LAB, outcome(125, stderr="docker: unresolvable CDI devices"), "container", "docker: unresolvable CDI devices"),
        (LAB, outcome(127, stderr="exec: python3: not found"), "no_interpreter", "exec: python3: not found"),
        (LAB, outcome(126, stderr="permission denied"), "no_interpreter", "permission denied"),
    ],
)
def test_missing_report_has_a_reason(place, ended, reason, text):
    found = findings.report_of(place, ended)
    assert found["reason"] == reason
    assert text in found["words"]


def test_end_of_a_long_output_is_kept():
    found = findings.report_of(TORCH, outcome(1, stderr="x" * 10_000 + " at last"))
    assert found["words"].endswith("at last")
    assert len(found["words"]) < 500


# --- Findings of a place ---


def test_evidence_has_the_figures():
    assert findings.judge(TORCH, WELL)["evidence"] == (
        "environment torch: PyTorch 2.11.0+cu130 on cuda (NVIDIA H100 80GB HBM3) got 0.986 of 359 digits right"
        " after 20 epochs of 0.065 s, with 1391 MiB and 69 MiB of the GPU"
    )


OWN = {"timeout", "killed", "no_answer", "no_interpreter"}


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        *((TORCH, reason) for reason in sorted(OWN | PROGRAM["STATUSES"].keys() - {""})),
        *(
            (LAB, reason)
            for reason in sorted(OWN | {"no_docker", "no_image", "container"} | PROGRAM["STATUSES"].keys() - {""})
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else value.kind,
)
def test_every_reason_has_its_remedy(place, reason):
    finding = findings.judge(place, report(reason, "what was said", install="apt-get install python3-torch"))
    assert parse(finding) == finding
    assert finding["status"] == ("warn" if reason == "memory" else "fail")
    assert "what was said" in finding["evidence"]
    assert "{" not in finding["remedy"]
    # No reason is left to what is said of one that nobody knows, but for a training that breaks off.
    unknown = findings.remedy(place, report("of somebody else"))
    assert (finding["remedy"] == unknown) is (reason in ("training", "no_gpu"))


@pytest.mark.parametrize(
    ("place", "facts", "text"),
    [
        (
            TORCH,
            report("no_torch", install="apt-get install python3-torch"),
            "install PyTorch: apt-get install python3-torch",
        ),
        (
            LAB,
            report("no_scikit_learn", install="python3 -m pip install scikit-learn"),
            "RUN python3 -m pip install scikit-learn",
        ),
        (TORCH, report("no_gpu", cuda="13.0", driver_cuda="12.4"), "take a PyTorch for CUDA 12.4 or older"),
        (TORCH, report("no_gpu", gpus=[], driver="CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"), "reboot"),
        (LAB, report("no_gpu", gpus=[], driver="CUDA_ERROR_SYSTEM_NOT_READY"), "nvidia-fabricmanager"),
        (
            TORCH,
            report("no_gpu", gpus=[], driver="CUDA_ERROR_NO_DEVICE"),
            "smoke_test_user is allowed to open /dev/nvidia*",
        ),
        (TORCH, report("no_gpu", gpus=[], driver="libcuda.so.1: cannot open"), "apply the role nvidia_driver"),
        (LAB, report("no_gpu", gpus=[], driver="libcuda.so.1: cannot open"), "nvidia-ctk cdi list"),
        (LAB, report("container", "unresolvable CDI devices nvidia.com/gpu=all"), "nvidia-ctk cdi list"),
        (LAB, report("container", "no space left on device"), "journalctl --unit docker"),
        (TORCH, report("training", "CUDA error: no kernel image is available"), "take a newer PyTorch"),
        (TORCH, report("memory", "CUDA out of memory."), "the processes that hold the memory"),
        (LAB, report("no_image"), "docker pull lab/pytorch:2.9"),
    ],
)
def test_remedy_depends_on_the_report(place, facts, text):
    assert text in findings.remedy(place, facts)


# --- The GPUs that places see ---


def compare(
    host: facts.Host, *reports: tuple[request.Place, findings.Report], options: Any = ALL, wanted: bool = False
):
    finding = findings.compare(host, reports, options, wanted)
    assert parse(finding) == finding
    return finding


def sees(*uuids: str, **changes: Any) -> findings.Report:
    return report(gpus=[{"uuid": uuid, "name": "x"} for uuid in uuids], **changes)


def test_places_that_see_the_hosts_gpus_pass():
    finding = compare(facts.Host(2, (ONE, TWO)), (TORCH, sees(TWO, ONE)), (LAB, sees(ONE, TWO)))
    assert finding["status"] == "pass"
    assert finding["evidence"] == f"the host, environment torch, image lab/pytorch:2.9 see {ONE}, {TWO}"


@pytest.mark.parametrize(
    ("place", "facts", "remedy"),
    [
        (TORCH, sees(), "CUDA_VISIBLE_DEVICES"),
        (TORCH, sees(TWO), "CUDA_VISIBLE_DEVICES"),
        (LAB, sees(driver="CUDA_ERROR_NO_DEVICE"), "nvidia-cdi-refresh"),
        (LAB, sees(TWO), "nvidia-cdi-refresh"),
        (LAB, sees(ONE, TWO), "nvidia-cdi-refresh"),
    ],
)
def test_place_that_sees_other_gpus_fails(place, facts, remedy):
    finding = compare(WITH_GPU, (TORCH, sees(ONE)), (place, facts))
    assert finding["status"] == "fail"
    assert f"the host sees {ONE}; {place.title} " in finding["evidence"]
    assert remedy in finding["remedy"]


@pytest.mark.parametrize(
    ("host", "options", "visible", "status"),
    [
        (facts.Host(2, (ONE, TWO)), ["--device", "nvidia.com/gpu=0"], sees(ONE), "pass"),
        (facts.Host(2, (ONE, TWO)), ["--device", "nvidia.com/gpu=0"], sees(), "fail"),
        (facts.Host(2, (ONE, TWO)), ["--gpus=all"], sees(ONE), "fail"),
        (facts.Host(1, (PART, TWO), divided=True), ALL, sees(PART), "pass"),
        (facts.Host(1, (PART, TWO), divided=True), ALL, sees(ONE), "fail"),
    ],
)
def test_part_of_the_gpus_is_enough_where_it_was_given(host, options, visible, status):
    assert compare(host, (LAB, visible), options=options)["status"] == status


def test_host_without_a_gpu_is_skipped():
    assert compare(facts.Host(0), (TORCH, sees()))["status"] == "skip"


def test_host_without_a_required_gpu_fails():
    assert compare(facts.Host(0), (TORCH, sees()), wanted=True)["status"] == "fail"


def test_card_that_nvidia_smi_does_not_list_fails():
    finding = compare(facts.Host(1, words="nvidia-smi: No such file or directory"), (TORCH, sees()))
    assert finding["status"] == "fail"
    assert "NVIDIA GPUs on the PCI bus: 1" in finding["evidence"]
    assert "nvidia-smi: No such file" in finding["evidence"]


def test_silent_places_and_processors_are_not_compared():
    on_processor = request.Place(request.ENVIRONMENT, "small", "python", device="cpu")
    silent: Any = {"reason": "no_image", "words": "docker has no image"}
    assert compare(WITH_GPU, (on_processor, sees()), (LAB, silent))["status"] == "skip"
