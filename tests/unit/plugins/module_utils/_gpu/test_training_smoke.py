# SPDX-License-Identifier: GPL-3.0-or-later
"""What is run in each place, and what an account comes to."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import training_smoke as smoke
from ansible_collections.rigwright.workstation.plugins.plugin_utils._finding import parse

PROGRAM = runpy.run_path(str(Path(__file__).parents[5] / "roles/smoke_test/files/train_digits.py"))

ONE, TWO = (f"GPU-00000000-0000-0000-0000-00000000000{number}" for number in (1, 2))
PART = "MIG-11111111-2222-3333-4444-555555555555"
TORCH = smoke.Place(smoke.ENVIRONMENT, "torch", "/opt/conda/envs/torch/bin/python")
LAB = smoke.Place(smoke.IMAGE, "lab/pytorch:2.9", "python3", "lab/pytorch:2.9")
WITH_GPU = smoke.Host(1, (ONE,))
ALL = ("--device", "nvidia.com/gpu=all")

# As the program said it on an H100.
WELL = {
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


def account(reason: str = "", words: str = "", **changes: Any) -> smoke.Account:
    return {**WELL, "reason": reason, "words": words, **changes}


# --- The host ---


def test_gpus_are_read_as_nvidia_smi_lists_them():
    text = f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {ONE})\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: {TWO})\n"
    assert smoke.read_listing(text) == ((ONE, TWO), False)


def test_of_a_divided_gpu_its_parts_count():
    text = (
        f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {ONE})\n  MIG 1g.10gb     Device  0: (UUID: {PART})\n"
        f"GPU 1: NVIDIA H100 80GB HBM3 (UUID: {TWO})\n"
    )
    assert smoke.read_listing(text) == ((PART, TWO), True)


@pytest.mark.parametrize(
    ("asked", "host", "device"),
    [
        ("auto", WITH_GPU, "cuda"),
        ("auto", smoke.Host(1, words="nvidia-smi: No such file or directory"), "cuda"),
        ("auto", smoke.Host(0), "cpu"),
        ("cpu", WITH_GPU, "cpu"),
        ("cuda", smoke.Host(0), "cuda"),
    ],
)
def test_a_host_with_a_gpu_is_to_use_it(asked, host, device):
    assert smoke.device_for(smoke.Place(smoke.ENVIRONMENT, "torch", "python", device=asked), host) == device


# --- Places ---


def test_places_have_names_devices_and_findings():
    found = smoke.places(
        [{"name": "torch", "python": "/opt/conda/envs/torch/bin/python", "device": "auto"}],
        [
            {"image": "lab/pytorch:2.9", "name": "", "python": "python3", "device": "cpu"},
            {"image": "sha256:abc", "name": "digits", "python": "python3", "device": "auto"},
        ],
        "cuda",
    )
    assert [(place.title, place.image, place.device, place.finding) for place in found] == [
        ("environment torch", "", "cuda", "smoke_test.environment.torch"),
        ("image lab/pytorch:2.9", "lab/pytorch:2.9", "cpu", "smoke_test.image.lab-pytorch-2-9"),
        ("image digits", "sha256:abc", "cuda", "smoke_test.image.digits"),
    ]


def test_two_that_look_alike_are_named():
    other = smoke.Place(smoke.IMAGE, "lab/pytorch-2.9", "python3", "lab/pytorch-2.9")
    assert smoke.twice([TORCH, LAB, other]) == ["image lab/pytorch-2.9", "image lab/pytorch:2.9"]
    assert smoke.twice([TORCH, LAB]) == []


def test_the_interpreter_minds_nothing_of_its_user():
    arguments = smoke.python_arguments("cuda", 20, 0.95, 300)
    assert arguments == [
        "-I",
        "-B",
        "-",
        "--device",
        "cuda",
        "--epochs",
        "20",
        "--accuracy",
        "0.95",
        "--timeout",
        "300",
    ]
    # The program knows them all.
    known = {option for option in arguments if option.startswith("--")}
    assert known <= set(re.findall(r"--\w+", Path(PROGRAM["__file__"]).read_text()))


def test_a_container_is_confined_and_leaves_nothing():
    command = smoke.container_command(LAB, "once", "65534:65534", ALL, ["-", "--epochs", "1"])
    assert command[-6:] == ["--entrypoint", "python3", "lab/pytorch:2.9", "-", "--epochs", "1"]
    line = " ".join(command)
    for words in ("--rm", "--network none", "--user 65534:65534", "--cap-drop ALL", "--pull never", " ".join(ALL)):
        assert words in line


# --- Accounts ---


def outcome(status: int | None, stdout: str = "", stderr: str = "") -> smoke.Outcome:
    return smoke.Outcome(status, stdout, stderr)


def test_the_account_is_the_last_line_of_it():
    said = f'A banner of the image\n{{"reason": "cut\n{json.dumps(WELL)}\n'
    assert smoke.account_of(LAB, outcome(0, said)) == WELL


@pytest.mark.parametrize(
    ("place", "left", "reason", "words"),
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
def test_silence_has_a_reason(place, left, reason, words):
    found = smoke.account_of(place, left)
    assert found["reason"] == reason
    assert words in found["words"]


def test_of_many_words_the_last_are_told():
    found = smoke.account_of(TORCH, outcome(1, stderr="x" * 10_000 + " at last"))
    assert found["words"].endswith("at last")
    assert len(found["words"]) < 500


# --- Findings of a place ---


def test_figures_are_told():
    assert smoke.judge(TORCH, WELL)["evidence"] == (
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
    finding = smoke.judge(place, account(reason, "what was said", install="apt-get install python3-torch"))
    assert parse(finding) == finding
    assert finding["status"] == "fail"
    assert "what was said" in finding["evidence"]
    assert "{" not in finding["remedy"]
    # No reason is left to what is said of one that nobody knows, but for a training that breaks off.
    unknown = smoke.remedy(place, account("of somebody else"))
    assert (finding["remedy"] == unknown) is (reason in ("training", "no_gpu"))


@pytest.mark.parametrize(
    ("place", "told", "words"),
    [
        (
            TORCH,
            account("no_torch", install="apt-get install python3-torch"),
            "install PyTorch: apt-get install python3-torch",
        ),
        (
            LAB,
            account("no_scikit_learn", install="python3 -m pip install scikit-learn"),
            "RUN python3 -m pip install scikit-learn",
        ),
        (TORCH, account("no_gpu", cuda="13.0", driver_cuda="12.4"), "take a PyTorch for CUDA 12.4 or older"),
        (TORCH, account("no_gpu", gpus=[], driver="CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"), "reboot"),
        (LAB, account("no_gpu", gpus=[], driver="CUDA_ERROR_SYSTEM_NOT_READY"), "nvidia-fabricmanager"),
        (TORCH, account("no_gpu", gpus=[], driver="CUDA_ERROR_NO_DEVICE"), "smoke_test_user may open /dev/nvidia*"),
        (TORCH, account("no_gpu", gpus=[], driver="libcuda.so.1: cannot open"), "apply the role nvidia_driver"),
        (LAB, account("no_gpu", gpus=[], driver="libcuda.so.1: cannot open"), "nvidia-ctk cdi list"),
        (LAB, account("container", "unresolvable CDI devices nvidia.com/gpu=all"), "nvidia-ctk cdi list"),
        (LAB, account("container", "no space left on device"), "journalctl --unit docker"),
        (TORCH, account("training", "CUDA error: no kernel image is available"), "take a newer PyTorch"),
        (TORCH, account("training", "CUDA out of memory."), "who has the memory"),
        (LAB, account("no_image"), "docker pull lab/pytorch:2.9"),
    ],
)
def test_remedies_go_by_what_was_said(place, told, words):
    assert words in smoke.remedy(place, told)


# --- The GPUs that places see ---


def compare(host: smoke.Host, *accounts: tuple[smoke.Place, smoke.Account], options: Any = ALL, wanted: bool = False):
    finding = smoke.compare(host, accounts, options, wanted)
    assert parse(finding) == finding
    return finding


def sees(*uuids: str, **changes: Any) -> smoke.Account:
    return account(gpus=[{"uuid": uuid, "name": "x"} for uuid in uuids], **changes)


def test_places_that_see_what_the_host_sees_pass():
    finding = compare(smoke.Host(2, (ONE, TWO)), (TORCH, sees(TWO, ONE)), (LAB, sees(ONE, TWO)))
    assert finding["status"] == "pass"
    assert finding["evidence"] == f"the host, environment torch, image lab/pytorch:2.9 see {ONE}, {TWO}"


@pytest.mark.parametrize(
    ("place", "seen", "remedy"),
    [
        (TORCH, sees(), "CUDA_VISIBLE_DEVICES"),
        (TORCH, sees(TWO), "CUDA_VISIBLE_DEVICES"),
        (LAB, sees(driver="CUDA_ERROR_NO_DEVICE"), "nvidia-cdi-refresh"),
        (LAB, sees(TWO), "nvidia-cdi-refresh"),
        (LAB, sees(ONE, TWO), "nvidia-cdi-refresh"),
    ],
)
def test_a_place_that_sees_others_fails(place, seen, remedy):
    finding = compare(WITH_GPU, (TORCH, sees(ONE)), (place, seen))
    assert finding["status"] == "fail"
    assert f"the host sees {ONE}; {place.title} " in finding["evidence"]
    assert remedy in finding["remedy"]


@pytest.mark.parametrize(
    ("host", "options", "seen", "status"),
    [
        (smoke.Host(2, (ONE, TWO)), ["--device", "nvidia.com/gpu=0"], sees(ONE), "pass"),
        (smoke.Host(2, (ONE, TWO)), ["--device", "nvidia.com/gpu=0"], sees(), "fail"),
        (smoke.Host(2, (ONE, TWO)), ["--gpus=all"], sees(ONE), "fail"),
        (smoke.Host(1, (PART, TWO), divided=True), ALL, sees(PART), "pass"),
        (smoke.Host(1, (PART, TWO), divided=True), ALL, sees(ONE), "fail"),
    ],
)
def test_a_part_will_do_where_a_part_was_given(host, options, seen, status):
    assert compare(host, (LAB, seen), options=options)["status"] == status


def test_without_a_gpu_there_is_nothing_to_compare():
    assert compare(smoke.Host(0), (TORCH, sees()))["status"] == "skip"


def test_without_a_gpu_there_is_a_failure_where_one_is_wanted():
    assert compare(smoke.Host(0), (TORCH, sees()), wanted=True)["status"] == "fail"


def test_a_card_that_nvidia_smi_does_not_know_fails():
    finding = compare(smoke.Host(1, words="nvidia-smi: No such file or directory"), (TORCH, sees()))
    assert finding["status"] == "fail"
    assert "NVIDIA GPUs on the PCI bus: 1" in finding["evidence"]
    assert "nvidia-smi: No such file" in finding["evidence"]


def test_places_that_say_nothing_or_use_the_processor_are_not_compared():
    on_processor = smoke.Place(smoke.ENVIRONMENT, "small", "python", device="cpu")
    silent = {"reason": "no_image", "words": "docker has no image"}
    assert compare(WITH_GPU, (on_processor, sees()), (LAB, silent))["status"] == "skip"
