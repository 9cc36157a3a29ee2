# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""How a training is started in an environment or a container, and what its account says. Pure: words in, findings out.

The program is roles/smoke_test/files/train_digits.py. It is read from standard input, so that nothing has to lie on the host or in an
image, and ends with one line of JSON: its account, with a `reason` where it did not do what it was asked for.
"""

from __future__ import annotations

import json
import re
import typing as t
from dataclasses import dataclass

Account = dict[str, t.Any]
Finding = dict[str, str]

AUTO = "auto"
CPU = "cpu"
CUDA = "cuda"
DEVICES = (AUTO, CPU, CUDA)
WELL = "CUDA_SUCCESS"

ENVIRONMENT = "environment"
IMAGE = "image"

# Statuses of `docker run` itself: the daemon refuses; the command cannot be run, or is not there.
REFUSED = 125
NOT_RUN = (126, 127)

# How an option of `docker run` ends that gives a container every GPU: nvidia.com/gpu=all, --gpus all.
ALL_GPUS = "all"


@dataclass(frozen=True)
class Place:
    """Where to train: with an interpreter of the host, or in a container of an image."""

    kind: str
    name: str
    python: str
    image: str = ""
    device: str = AUTO

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def finding(self) -> str:
        slug = re.sub(r"[^A-Za-z0-9_-]+", "-", self.name).strip("-")
        return f"smoke_test.{self.kind}.{slug or 'unnamed'}"


@dataclass(frozen=True)
class Host:
    """The NVIDIA GPUs of a host: how many the PCI bus shows, what `nvidia-smi -L` says, and what it says where it fails."""

    devices: int
    listed: tuple[str, ...] = ()
    words: str = ""
    # Some GPU is divided: CUDA gives a program one part, of the many.
    divided: bool = False

    @property
    def has_gpu(self) -> bool:
        return bool(self.devices or self.listed)


@dataclass(frozen=True)
class Outcome:
    """What a program left. `status` is None where it was ended at its limit; of its words the last are kept."""

    status: int | None
    stdout: str = ""
    stderr: str = ""


def places(
    environments: t.Iterable[t.Mapping[str, str]], images: t.Iterable[t.Mapping[str, str]], device: str
) -> list[Place]:
    """The places that the module's parameters name; *device* is for those that say auto. An image may go by its own name."""
    rows = [
        *((ENVIRONMENT, one["name"], "", one) for one in environments),
        *((IMAGE, one["name"] or one["image"], one["image"], one) for one in images),
    ]
    return [
        Place(kind, name, one["python"], image, device if one["device"] == AUTO else one["device"])
        for kind, name, image, one in rows
    ]


def twice(chosen: t.Sequence[Place]) -> list[str]:
    """The places whose findings could not be told apart."""
    ids = [place.finding for place in chosen]
    return sorted({place.title for place in chosen if ids.count(place.finding) > 1})


def read_listing(text: str) -> tuple[tuple[str, ...], bool]:
    """UUIDs of `nvidia-smi -L` that a program can compute on, and whether some GPU is divided (MIG): then its parts, not itself."""
    found: list[list[str]] = []
    for line in text.splitlines():
        uuid = re.search(r"\(UUID: ((?:GPU|MIG)-[^)]+)\)", line)
        if uuid and line.startswith("GPU "):
            found.append([uuid.group(1)])
        elif uuid and found:
            found[-1].append(uuid.group(1))
    divided = any(len(uuids) > 1 for uuids in found)
    return tuple(uuid for uuids in found for uuid in uuids[min(1, len(uuids) - 1) :]), divided


def device_for(place: Place, host: Host) -> str:
    """A host that has a GPU is to use it: a training that falls back on the processor is what this is about."""
    if place.device != AUTO:
        return place.device
    return CUDA if host.has_gpu else CPU


def python_arguments(device: str, epochs: int, accuracy: float, seconds: int) -> list[str]:
    """Arguments of an interpreter that gets the program on standard input, minds no variable or folder of its user, and writes no file."""
    wanted = {"device": device, "epochs": epochs, "accuracy": accuracy, "timeout": seconds}
    return ["-I", "-B", "-", *(word for name, value in wanted.items() for word in (f"--{name}", str(value)))]


def container_command(
    place: Place, container: str, user: str, gpu_options: t.Sequence[str], arguments: t.Sequence[str]
) -> list[str]:
    """Run the program in a container that has nothing but the image, and leaves nothing."""
    confinement = ("--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
    traceless = ("--rm", "--pull", "never", "--log-driver", "none", "--tmpfs", "/tmp", "--env", "CUDA_CACHE_DISABLE=1")  # noqa: S108
    return [
        *("docker", "run", "--interactive", "--name", container, "--user", user),
        *traceless,
        *confinement,
        *gpu_options,
        *("--entrypoint", place.python, place.image, *arguments),
    ]


def account_of(place: Place, outcome: Outcome) -> Account:
    """What the program says of itself, or why it does not."""
    lines = [line for line in outcome.stdout.splitlines() if line.startswith('{"reason": ')]
    if lines:
        try:
            account: Account = json.loads(lines[-1])
            return account
        except ValueError:
            pass  # cut short
    words = " ".join(outcome.stderr.split()) or " ".join(outcome.stdout.split())
    # The program ends itself a little before it is ended, and says where it was.
    if outcome.status is None or "Timeout (" in outcome.stderr:
        where = re.search(r'File "(?!<frozen)([^"]+)", line (\d+)', outcome.stderr)
        return {
            "reason": "timeout",
            "words": f"not done in time, it was at {':'.join(where.groups())}" if where else "not done in time",
        }
    if place.kind == IMAGE and outcome.status == REFUSED:
        return {"reason": "container", "words": _end(words)}
    if place.kind == IMAGE and outcome.status in NOT_RUN:
        return {"reason": "no_interpreter", "words": _end(words)}
    if outcome.status < 0:
        return {"reason": "killed", "words": f"ended by signal {-outcome.status}. {_end(words)}".strip()}
    return {"reason": "no_answer", "words": f"exit status {outcome.status}. {_end(words)}".strip()}


def _end(words: str) -> str:
    return words if len(words) <= 400 else f"... {words[-400:]}"


# --- Findings ---

_OF_CONTAINERS = (
    "see what `nvidia-ctk cdi list` has and run `systemctl restart nvidia-cdi-refresh`; the role nvidia_container_toolkit makes"
    " these devices. Docker has CDI from 25 on, and up to 27 as a feature to switch on; without it, smoke_test_gpu_options: [--gpus, all]"
)
# What the CUDA driver says of itself (cuInit), by place; "" is for every other word.
_DRIVER: dict[str, dict[str, str]] = {
    ENVIRONMENT: {
        WELL: "look for CUDA_VISIBLE_DEVICES in /etc/environment",
        "CUDA_ERROR_NO_DEVICE": "look at `nvidia-smi`, at CUDA_VISIBLE_DEVICES, and whether smoke_test_user may open /dev/nvidia*",
        "": "apply the role nvidia_driver, and look at `nvidia-smi`",
    },
    IMAGE: {"": _OF_CONTAINERS},
}
_DRIVER_EVERYWHERE = {
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "reboot: the loaded driver and its libraries are of two versions",
    "CUDA_ERROR_SYSTEM_NOT_READY": "look at `systemctl status nvidia-fabricmanager`: it has to run, in the driver's version",
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": "remove CUDA's compatibility libraries: this GPU takes none",
}
# What PyTorch says when a training breaks off.
_TRAINING = {
    "no kernel image": "take a newer PyTorch: this one was not built for this GPU",
    "out of memory": "look at `nvidia-smi` for who has the memory, and run again",
    "cudnn": "install this PyTorch anew: it does not get on with its cuDNN",
    "": "look at `journalctl --dmesg --grep NVRM`, and run the program by hand (docs/smoke_test.md)",
}
_REMEDIES: dict[str, dict[str, str]] = {
    ENVIRONMENT: {
        "no_interpreter": "name an interpreter that is there, and that smoke_test_user may run, in smoke_test_environments",
        "no_answer": "name a Python of 3.9 or newer in smoke_test_environments",
        "killed": "look at `journalctl --dmesg` for the kernel's reason: no memory, or a library for another processor",
        "no_torch": "install PyTorch: {install}",
        "broken_torch": "make the environment anew: its packages do not go together",
        "no_scikit_learn": "install scikit-learn: {install}",
        "broken_scikit_learn": "make the environment anew: its packages do not go together",
        "cpu_build": "have a PyTorch with CUDA: {install}. If the processor is meant to do it, say device: cpu for this environment",
    },
    IMAGE: {
        "no_docker": "apply the role docker, or take the images out of smoke_test_images",
        "no_image": "get it: docker pull {image}",
        "container": "look at `journalctl --unit docker`",
        "no_interpreter": "say python: for this image in smoke_test_images: where its Python is",
        "no_answer": "say python: for this image in smoke_test_images: a Python of 3.9 or newer",
        "killed": "look at `journalctl --dmesg` for the kernel's reason: no memory, or a library for another processor",
        "no_torch": "build an image that has it: FROM {image}, RUN {install}",
        "broken_torch": "build the image anew: its packages do not go together",
        "no_scikit_learn": "build an image that has it: FROM {image}, RUN {install}",
        "broken_scikit_learn": "build the image anew: its packages do not go together",
        "cpu_build": "take an image whose PyTorch has CUDA. If the processor is meant to do it, say device: cpu for this image",
    },
}
_REMEDIES_EVERYWHERE = {
    "timeout": "see what the host is busy with, or set smoke_test_timeout_s higher",
    "accuracy": "set smoke_test_epochs higher. If the processor (device: cpu) gets there with as many, the GPU computes wrongly",
}


def judge(place: Place, account: Account) -> Finding:
    """The finding of one place."""
    if not account["reason"]:
        return {
            "id": place.finding,
            "status": "pass",
            "evidence": f"{place.title}: {achievement(account)}",
            "remedy": "",
        }
    words = account["words"] or account["reason"]
    return {
        "id": place.finding,
        "status": "fail",
        "evidence": f"{place.title}: {words}",
        "remedy": remedy(place, account),
    }


def achievement(account: Account) -> str:
    """The figures of a training, in words."""
    memory = f"{account['peak_memory_bytes'] / 2**20:.0f} MiB"
    if account["device"] == CUDA:
        memory += f" and {account['peak_gpu_memory_bytes'] / 2**20:.0f} MiB of the GPU"
    return (
        f"PyTorch {account['torch']} on {account['device']} ({account['device_name']}) got {account['accuracy']:.3f} of"
        f" {account['held_out']} digits right after {account['epochs']} epochs of {account['seconds_per_epoch']:.3f} s, with {memory}"
    )


def remedy(place: Place, account: Account) -> str:
    """What to do about the reason of an account."""
    reason = account["reason"]
    if reason == "no_gpu" and account["driver"] == WELL and account["gpus"]:
        if _version(account["cuda"]) > _version(account["driver_cuda"]):
            return (
                f"take a PyTorch for CUDA {account['driver_cuda']} or older, which this driver supports, or a newer nvidia_driver_branch:"
                f" this one is for CUDA {account['cuda']}"
            )
        return _TRAINING[""]
    if reason == "no_gpu":
        return driver_remedy(place, account)
    if reason == "training":
        return next(words for pattern, words in _TRAINING.items() if pattern in account["words"].lower())
    if reason == "container" and re.search(r"\bcdi\b|nvidia|gpu", account["words"], re.IGNORECASE):
        return _OF_CONTAINERS
    template = {**_REMEDIES_EVERYWHERE, **_REMEDIES[place.kind]}.get(reason, _TRAINING[""])
    return template.format(image=place.image, install=account.get("install", ""))


def driver_remedy(place: Place, account: Account) -> str:
    """What to do where CUDA's driver library is not there, or finds no GPU."""
    known = {**_DRIVER[place.kind], **_DRIVER_EVERYWHERE}
    return known.get(account["driver"], known[""])


def compare(
    host: Host, accounts: t.Sequence[tuple[Place, Account]], gpu_options: t.Sequence[str], wanted: bool
) -> Finding:
    """Whether every place sees the GPUs that the host sees. Places that did not answer have a finding of their own."""
    id_ = "smoke_test.gpus"
    if not host.has_gpu and wanted:
        evidence = f"no NVIDIA GPU on the PCI bus, and smoke_test_device is cuda. {host.words}".strip()
        remedy = "look for the card: lspci -d 10de:, the firmware's settings, its power"
        return {"id": id_, "status": "fail", "evidence": evidence, "remedy": remedy}
    if not host.has_gpu:
        return {"id": id_, "status": "skip", "evidence": "no NVIDIA GPU here", "remedy": ""}
    if not host.listed:
        evidence = f"NVIDIA GPUs on the PCI bus: {host.devices}, and nvidia-smi lists none. {host.words}".strip()
        return {"id": id_, "status": "fail", "evidence": evidence, "remedy": "apply the role nvidia_driver, or reboot"}
    seen = [(place, account) for place, account in accounts if "gpus" in account and place.device != CPU]
    apart = [(place, account) for place, account in seen if not _same(host, place, account, gpu_options)]
    if not seen:
        return {
            "id": id_,
            "status": "skip",
            "evidence": f"nothing was asked for {', '.join(host.listed)}",
            "remedy": "",
        }
    if not apart:
        who = ", ".join(["the host", *(place.title for place, _account in seen)])
        return {"id": id_, "status": "pass", "evidence": f"{who} see {', '.join(host.listed)}", "remedy": ""}
    lines = [f"the host sees {', '.join(host.listed)}"]
    for place, account in apart:
        lines.append(f"{place.title} {', '.join(_uuids(account)) or 'none'} ({account['driver']})")
    remedies = [driver_remedy(place, account) for place, account in apart]
    return {
        "id": id_,
        "status": "fail",
        "evidence": "; ".join(lines),
        "remedy": "; ".join(dict.fromkeys(remedies)),
    }


def _uuids(account: Account) -> list[str]:
    return [gpu["uuid"] for gpu in account["gpus"]]


def _same(host: Host, place: Place, account: Account, gpu_options: t.Sequence[str]) -> bool:
    seen, listed = set(_uuids(account)), set(host.listed)
    named = place.kind == IMAGE and not any(option.endswith(ALL_GPUS) for option in gpu_options)
    if host.divided or named:
        return bool(seen) and seen <= listed
    return seen == listed


def _version(text: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text or "")[:2])
