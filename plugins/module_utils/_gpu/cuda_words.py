# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What CUDA says where a program fails, in the words of PyTorch or by the names of its driver, and what to do about it. Pure.

The words are those of cudaGetErrorString, and the names those of cuGetErrorName; both do not change with the version.
"""

from __future__ import annotations

import typing as t


class _Step(t.NamedTuple):
    """A next step, with parts of the texts that it is for, and the beginnings of names."""

    texts: tuple[str, ...]
    names: tuple[str, ...]
    text: str


_STEPS = (
    _Step(
        ("no kernel image",),
        (),
        "take a newer PyTorch, whose CUDA has kernels for this GPU; for a card older than Turing take wheels of cu126",
    ),
    _Step(
        (
            "driver version is insufficient",
            "driver on your system is too old",
            "compiled with an unsupported toolchain",
        ),
        (),
        "install a newer driver (role nvidia_driver), or a PyTorch for an older CUDA",
    ),
    _Step(
        ("system not yet initialized",),
        ("CUDA_ERROR_SYSTEM_NOT_READY",),
        "start nvidia-fabricmanager in the version of the driver: the GPUs of this machine are connected by NVSwitches",
    ),
    _Step(
        ("unsupported display driver / cuda driver combination",),
        ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",),
        "reboot: the loaded driver and its libraries are of two versions",
    ),
    _Step(
        ("forward compatibility was attempted",),
        ("CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",),
        "remove CUDA's compatibility libraries: this GPU takes none",
    ),
    _Step(
        ("mps client", "mps server"),
        ("CUDA_ERROR_MPS_",),
        "check the daemon of MPS at CUDA_MPS_PIPE_DIRECTORY (role gpu_sharing), or run without that variable: "
        "without it, a daemon at /tmp/nvidia-mps is asked if there is one",
    ),
    _Step(
        ("cuda unknown error",),
        ("CUDA_ERROR_UNKNOWN",),
        "after a suspend end all programs that use a GPU, and load its module again: `modprobe --remove nvidia_uvm`, `modprobe nvidia_uvm`;"
        " otherwise look for /dev/nvidia-uvm, or reboot",
    ),
    _Step(
        ("busy or unavailable",),
        (),
        "end the program that has the GPU for itself, or set the compute mode to default (gpu_mode); with MIG, make an instance",
    ),
    _Step(
        ("uncorrectable ecc error", "gpu is lost", "hardware stack error"),
        (),
        "look at the findings of gpu_health: reset the GPU or reboot, and replace a card on which it comes back",
    ),
)


def step(message: str) -> str:
    """Return the next step for an error; empty where the message has none that is known."""
    return next((row.text for row in _STEPS if any(part in message.lower() for part in row.texts)), "")


def step_for(name: str) -> str:
    """Return the next step for an error of the driver, by its name; empty for one that is not known."""
    return next((row.text for row in _STEPS if row.names and name.startswith(row.names)), "")
