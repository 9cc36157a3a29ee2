# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVML's return codes as stable names, each with the next step."""

from __future__ import annotations

import typing as t


class Answer(t.NamedTuple):
    """A return code. *absent*: the value does not exist, which is a fact (null) and no failure."""

    name: str
    next_step: str
    absent: bool = False


# Names and numbers: nvmlReturn_enum of nvml.h, CUDA 13 (nvidia-ml-py 13.615), without NVML_ERROR_.
ANSWERS: dict[int, Answer] = {
    1: Answer("UNINITIALIZED", "this is a mistake of the collection: NVML was asked before it was opened; report it"),
    2: Answer(
        "INVALID_ARGUMENT", "the driver does not know this value: compare it with the values of the card in `gpu_info`"
    ),
    3: Answer(
        "NOT_SUPPORTED", "this card or its driver has no such feature: leave the setting out for it", absent=True
    ),
    4: Answer("NO_PERMISSION", "run it as root (become: true); in a container, the host has to do it"),
    5: Answer("ALREADY_INITIALIZED", "this is a mistake of the collection: NVML was opened twice; report it"),
    6: Answer("NOT_FOUND", "name something that exists: `gpu_info` lists GPUs and instances", absent=True),
    7: Answer("INSUFFICIENT_SIZE", "there were more entries than expected, as while processes start: run it again"),
    8: Answer("INSUFFICIENT_POWER", "connect the card's external power cables, then boot"),
    9: Answer(
        "DRIVER_NOT_LOADED",
        "load the driver (modprobe nvidia), or install it with the role nvidia_driver; a reboot is due when one was just installed",
    ),
    10: Answer(
        "TIMEOUT", "the GPU did not answer in time: run it again; if that fails too, read gpu_health and the kernel log"
    ),
    11: Answer("IRQ_ISSUE", "the kernel has a problem with the GPU's interrupts: read the kernel log, then reboot"),
    12: Answer(
        "LIBRARY_NOT_FOUND",
        "install the driver's libraries (libnvidia-ml.so.1), as with the role nvidia_driver; in a container, mount the host's",
    ),
    13: Answer(
        "FUNCTION_NOT_FOUND", "this driver is too old for it: upgrade the driver, or leave the setting out", absent=True
    ),
    14: Answer("CORRUPTED_INFOROM", "the card's InfoROM is damaged: have the card replaced (gpu_health has details)"),
    15: Answer(
        "GPU_IS_LOST",
        "the GPU has fallen off the bus: reboot; if that does not help, power the host off, and reseat or replace the card",
    ),
    16: Answer("RESET_REQUIRED", "end what uses the GPU and reset it (nvidia-smi --gpu-reset -i <uuid>), or reboot"),
    17: Answer("OPERATING_SYSTEM", "the operating system forbids it: check the device cgroup and /dev/nvidia*"),
    18: Answer(
        "LIB_RM_VERSION_MISMATCH",
        "the driver was upgraded while the old one is loaded: reboot, or end what uses the GPUs and load the module again",
    ),
    19: Answer(
        "IN_USE",
        "end what uses the GPU or the instance (gpu_info lists processes; services such as DCGM count), then run it again",
    ),
    20: Answer("MEMORY", "there is not enough memory: free some on the host or the GPU, and run it again"),
    21: Answer("NO_DATA", "there is no value yet: ask again later", absent=True),
    22: Answer(
        "VGPU_ECC_NOT_SUPPORTED", "ECC is not available while vGPUs run: leave it out, or end them", absent=True
    ),
    23: Answer(
        "INSUFFICIENT_RESOURCES", "it does not fit next to the instances of the GPU: remove instances, or request less"
    ),
    24: Answer("FREQ_NOT_SUPPORTED", "name a clock that the card supports: `gpu_info` has the highest ones"),
    25: Answer(
        "ARGUMENT_VERSION_MISMATCH",
        "driver and nvidia-ml-py disagree on a structure: upgrade the older one",
        absent=True,
    ),
    26: Answer("DEPRECATED", "the driver no longer does this: leave it out", absent=True),
    27: Answer("NOT_READY", "the GPU is still starting: run it again in a minute"),
    28: Answer("GPU_NOT_FOUND", "no GPU answers: check gpu_host_info for the GPUs on the PCI bus, and the kernel log"),
    29: Answer(
        "INVALID_STATE", "the GPU's present state does not allow it: gpu_info has its current and pending modes"
    ),
    30: Answer("RESET_TYPE_NOT_SUPPORTED", "this card cannot be reset in this way: reboot"),
    999: Answer("UNKNOWN", "the driver gives no reason: read the kernel log (NVRM, Xid), then gpu_health"),
}

# Not a code of NVML: its Python binding is missing.
NO_BINDING = -1
_BINDING = Answer(
    "BINDING_NOT_FOUND",
    "install nvidia-ml-py for the Python that runs the module; the roles gpu_sharing and gpu_health install it in /opt/rigwright/python",
)

CODES: dict[str, int] = {answer.name: code for code, answer in ANSWERS.items()}


def answer_of(code: int) -> Answer:
    """Return the name and next step of a code. An unknown code, such as one of a later driver, has its number as its name."""
    if code == NO_BINDING:
        return _BINDING
    return ANSWERS.get(code, Answer(f"CODE_{code}", ANSWERS[CODES["UNKNOWN"]].next_step))


class ErrorRow(t.TypedDict, total=False):
    """An error of NVML in a result; empty where something else failed."""

    nvml_error: str
    function: str
    next_step: str


class NvmlError(Exception):
    """A function of NVML failed. ``name`` is stable; ``next_step`` is for people."""

    def __init__(self, code: int, function: str) -> None:
        answer = answer_of(code)
        self.code = code
        self.name = answer.name
        self.function = function
        self.next_step = answer.next_step
        self.absent = answer.absent
        super().__init__(f"{function}: {answer.name}: {answer.next_step}")

    def as_result(self) -> ErrorRow:
        """Return the keys of a module's result."""
        return {"nvml_error": self.name, "function": self.function, "next_step": self.next_step}


class Refusal(Exception):
    """A request that is refused before anything is written. The text names the parameter, the possible values, and the remedy."""
