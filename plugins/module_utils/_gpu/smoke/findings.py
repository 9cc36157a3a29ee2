# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The findings of a smoke test, from the output of the training program in each place.

The program is roles/smoke_test/files/train_digits.py. It ends with one line of JSON: its report, with a `reason` where it failed.
"""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import problems
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import cuda_words
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke.facts import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke.process import Outcome
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke.request import (
    CPU,
    CUDA,
    ENVIRONMENT,
    IMAGE,
    Place,
)


class Report(t.TypedDict, total=False):
    """The line of the training program; it has the keys of the steps that it came to."""

    reason: str
    words: str  # kept: a key of the report
    install: str
    python: str
    gpus: list[dict[str, str]]
    driver: str
    driver_cuda: str
    torch: str
    cuda: str | None
    device: str
    device_name: str
    accuracy: float
    held_out: int
    epochs: int
    seconds_per_epoch: float
    peak_memory_bytes: int
    peak_gpu_memory_bytes: int


SUCCESS = "CUDA_SUCCESS"

# Exit statuses of `docker run` itself: the daemon refuses; the command cannot be run, or does not exist.
REFUSED = 125
NOT_RUN = (126, 127)

# The end of an option of `docker run` that gives a container every GPU: nvidia.com/gpu=all, --gpus all.
ALL_GPUS = "all"


def report_of(place: Place, outcome: Outcome) -> Report:
    """Return the report that a program printed, or a report of why it printed none."""
    lines = [line for line in outcome.stdout.splitlines() if line.startswith('{"reason": ')]
    if lines:
        try:
            report: Report = json.loads(lines[-1])
            return report
        except ValueError:
            pass  # cut short
    output = " ".join(outcome.stderr.split()) or " ".join(outcome.stdout.split())
    # At its own limit, which is earlier than the kill, the program prints a traceback of where it was.
    if outcome.status is None or "Timeout (" in outcome.stderr:
        where = re.search(r'File "(?!<frozen)([^"]+)", line (\d+)', outcome.stderr)
        return {
            "reason": "timeout",
            "words": f"not done in time, it was at {':'.join(where.groups())}" if where else "not done in time",
        }
    if place.kind == IMAGE and outcome.status == REFUSED:
        return {"reason": "container", "words": _end(output)}
    if place.kind == IMAGE and outcome.status in NOT_RUN:
        return {"reason": "no_interpreter", "words": _end(output)}
    if outcome.status < 0:
        return {"reason": "killed", "words": f"ended by signal {-outcome.status}. {_end(output)}".strip()}
    return {"reason": "no_answer", "words": f"exit status {outcome.status}. {_end(output)}".strip()}


def _end(text: str) -> str:
    return text if len(text) <= 400 else f"... {text[-400:]}"


# --- Findings ---

_OF_CONTAINERS = (
    "check `nvidia-ctk cdi list` and run `systemctl restart nvidia-cdi-refresh`; the role nvidia_container_toolkit makes"
    " these devices. Docker has CDI from 25 on, and up to 27 as a feature to switch on; without it, smoke_test_gpu_options: [--gpus, all]"
)
# By place and the result of cuInit in the CUDA driver, where cuda_words has none for it; "" is for every other result.
_DRIVER: dict[str, dict[str, str]] = {
    ENVIRONMENT: {
        SUCCESS: "remove CUDA_VISIBLE_DEVICES from /etc/environment",
        "CUDA_ERROR_NO_DEVICE": "check `nvidia-smi`, CUDA_VISIBLE_DEVICES, and that smoke_test_user is allowed to open /dev/nvidia*",
        "": "apply the role nvidia_driver, and check `nvidia-smi`",
    },
    IMAGE: {"": _OF_CONTAINERS},
}
# By a part of PyTorch's error when the training fails.
_TRAINING = {
    "cudnn": "install this PyTorch again: its cuDNN does not match it",
    "": "read `journalctl --dmesg --grep NVRM`, and run the program by hand (docs/smoke_test.md)",
}
_REMEDIES: dict[str, dict[str, str]] = {
    ENVIRONMENT: {
        "no_interpreter": "name an interpreter that exists, and that smoke_test_user is allowed to run, in smoke_test_environments",
        "no_answer": "name a Python of 3.9 or newer in smoke_test_environments",
        "killed": "read `journalctl --dmesg` for the kernel's reason: no memory, or a library for another processor",
        "no_torch": "install PyTorch: {install}",
        "broken_torch": "create the environment again: its packages do not fit together",
        "no_scikit_learn": "install scikit-learn: {install}",
        "broken_scikit_learn": "create the environment again: its packages do not fit together",
        "cpu_build": "install a PyTorch with CUDA: {install}. To train on the processor, set device: cpu for this environment",
    },
    IMAGE: {
        "no_docker": "apply the role docker, or remove the images from smoke_test_images",
        "no_image": "pull it: docker pull {image}",
        "container": "read `journalctl --unit docker`",
        "no_interpreter": "set python: for this image in smoke_test_images: the path of its Python",
        "no_answer": "set python: for this image in smoke_test_images: a Python of 3.9 or newer",
        "killed": "read `journalctl --dmesg` for the kernel's reason: no memory, or a library for another processor",
        "no_torch": "build an image that has it: FROM {image}, RUN {install}",
        "broken_torch": "build the image again: its packages do not fit together",
        "no_scikit_learn": "build an image that has it: FROM {image}, RUN {install}",
        "broken_scikit_learn": "build the image again: its packages do not fit together",
        "cpu_build": "take an image whose PyTorch has CUDA. To train on the processor, set device: cpu for this image",
    },
}
_REMEDIES_EVERYWHERE = {
    "timeout": "check what the host is busy with, or set smoke_test_timeout_s higher",
    "memory": "find the processes that hold the memory with `nvidia-smi`, and run again, or set device: cpu",
    "accuracy": "set smoke_test_epochs higher. If the processor (device: cpu) reaches the accuracy with as many, the GPU computes wrongly",
}


def judge(place: Place, report: Report) -> problems.Finding:
    """Return the finding of one place."""
    if not report["reason"]:
        return problems.finding(place.finding, "pass", f"{place.title}: {figures(report)}")
    evidence = f"{place.title}: {report['words'] or report['reason']}"
    # Programs that fill a GPU are no defect of the place.
    status = "warn" if report["reason"] == "memory" else "fail"
    return problems.finding(place.finding, status, evidence, remedy(place, report))


def figures(report: Report) -> str:
    """Return the figures of a training as a sentence."""
    memory = f"{report['peak_memory_bytes'] / 2**20:.0f} MiB"
    if report["device"] == CUDA:
        memory += f" and {report['peak_gpu_memory_bytes'] / 2**20:.0f} MiB of the GPU"
    return (
        f"PyTorch {report['torch']} on {report['device']} ({report['device_name']}) got {report['accuracy']:.3f} of"
        f" {report['held_out']} digits right after {report['epochs']} epochs of {report['seconds_per_epoch']:.3f} s, with {memory}"
    )


def remedy(place: Place, report: Report) -> str:
    """Return the remedy for the reason of a report."""
    reason = report["reason"]
    if reason == "no_gpu" and report["driver"] == SUCCESS and report["gpus"]:
        if _version(report["cuda"]) > _version(report["driver_cuda"]):
            return (
                f"take a PyTorch for CUDA {report['driver_cuda']} or older, which this driver supports, or a newer nvidia_driver_branch:"
                f" this one is for CUDA {report['cuda']}"
            )
        return _TRAINING[""]
    if reason == "no_gpu":
        return driver_remedy(place, report)
    if reason == "training":
        return cuda_words.step(report["words"]) or next(
            text for pattern, text in _TRAINING.items() if pattern in report["words"].lower()
        )
    if reason == "container" and re.search(r"\bcdi\b|nvidia|gpu", report["words"], re.IGNORECASE):
        return _OF_CONTAINERS
    template = {**_REMEDIES_EVERYWHERE, **_REMEDIES[place.kind]}.get(reason, _TRAINING[""])
    return template.format(image=place.image, install=report.get("install", ""))


def driver_remedy(place: Place, report: Report) -> str:
    """Return the remedy where CUDA's driver library is missing, or finds no GPU."""
    remedies = _DRIVER[place.kind]
    return cuda_words.step_for(report["driver"]) or remedies.get(report["driver"], remedies[""])


def compare(
    host: Host, reports: t.Sequence[tuple[Place, Report]], gpu_options: t.Sequence[str], wanted: bool
) -> problems.Finding:
    """Compare the GPUs that the host sees with those that each place sees, and return one finding.

    A place without a report of its GPUs is left out: it has a finding of its own.

    :param wanted: the host has to have a GPU.
    """
    name = "smoke_test.gpus"
    if not host.has_gpu and wanted:
        evidence = f"no NVIDIA GPU on the PCI bus, and smoke_test_device is cuda. {host.words}".strip()
        check = "check the card: lspci -d 10de:, the firmware's settings, its power"
        return problems.finding(name, "fail", evidence, check)
    if not host.has_gpu:
        return problems.finding(name, "skip", "no NVIDIA GPU here")
    if not host.listed:
        evidence = f"NVIDIA GPUs on the PCI bus: {host.devices}, and nvidia-smi lists none. {host.words}".strip()
        return problems.finding(name, "fail", evidence, "apply the role nvidia_driver, or reboot")
    if host.missing:
        evidence = (
            f"nvidia-smi does not list {host.missing} of the GPUs that the driver has taken. {host.words}".strip()
        )
        check = "read `journalctl --dmesg --grep NVRM`, and the findings of gpu_health"
        return problems.finding(name, "fail", evidence, check)
    compared = [(place, report) for place, report in reports if "gpus" in report and place.device != CPU]
    different = [(place, report) for place, report in compared if not _same(host, place, report, gpu_options)]
    if not compared:
        return problems.finding(name, "skip", f"no place was to use {', '.join(host.listed)}")
    if not different:
        titles = ", ".join(["the host", *(place.title for place, _report in compared)])
        return problems.finding(name, "pass", f"{titles} see {', '.join(host.listed)}")
    lines = [f"the host sees {', '.join(host.listed)}"]
    for place, report in different:
        lines.append(f"{place.title} {', '.join(_uuids(report)) or 'none'} ({report['driver']})")
    remedies = [driver_remedy(place, report) for place, report in different]
    return problems.finding(name, "fail", "; ".join(lines), "; ".join(dict.fromkeys(remedies)))


def _uuids(report: Report) -> list[str]:
    return [gpu["uuid"] for gpu in report["gpus"]]


def _same(host: Host, place: Place, report: Report, gpu_options: t.Sequence[str]) -> bool:
    uuids, listed = set(_uuids(report)), set(host.listed)
    named = place.kind == IMAGE and not any(option.endswith(ALL_GPUS) for option in gpu_options)
    if host.divided or named:
        return bool(uuids) and uuids <= listed
    return uuids == listed


def _version(text: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text or "")[:2])
