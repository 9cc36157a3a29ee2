# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What CUDA says where a program fails, in the words of PyTorch, and what to do about it. Pure.

The words are those of cudaGetErrorString, which do not change with the version.
"""

from __future__ import annotations

_STEPS = (
    (
        "no kernel image",
        "take a newer PyTorch, whose CUDA has kernels for this GPU; for a card older than Turing take wheels of cu126",
    ),
    *(
        (sign, "install a newer driver (role nvidia_driver), or a PyTorch for an older CUDA")
        for sign in ("driver version is insufficient", "driver on your system is too old")
    ),
    (
        "system not yet initialized",
        "start nvidia-fabricmanager in the version of the driver: the GPUs of this machine are connected by NVSwitches",
    ),
    (
        "unsupported display driver / cuda driver combination",
        "reboot: the loaded driver and its libraries are of two versions",
    ),
    ("forward compatibility was attempted", "remove CUDA's compatibility libraries: this GPU takes none"),
    (
        "busy or unavailable",
        "end the program that has the GPU for itself, or set the compute mode to default (gpu_mode); with MIG, make an instance",
    ),
    *(
        (sign, "look at the findings of gpu_health: reset the GPU or reboot, and replace a card on which it comes back")
        for sign in ("uncorrectable ecc error", "gpu is lost", "hardware stack error")
    ),
)


def step(message: str) -> str:
    """Return the next step for an error; empty where the message has none that is known."""
    return next((text for sign, text in _STEPS if sign in message.lower()), "")
