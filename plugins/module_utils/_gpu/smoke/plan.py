# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command lines that start the training program. The program is read from standard input."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke.facts import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke.request import AUTO, CPU, CUDA, Place


def device_for(place: Place, host: Host) -> str:
    """Return the device to demand of a place.

    A place of a host with a GPU has to use it: the smoke test has to find a training that falls back on the processor.
    """
    if place.device != AUTO:
        return place.device
    return CUDA if host.has_gpu else CPU


def python_arguments(device: str, epochs: int, accuracy: float, seconds: int) -> list[str]:
    """Return the arguments of an interpreter that reads the program from standard input.

    It ignores the variables and packages of its user, and writes no file.
    """
    options = {"device": device, "epochs": epochs, "accuracy": accuracy, "timeout": seconds}
    return ["-I", "-B", "-", *(argument for name, value in options.items() for argument in (f"--{name}", str(value)))]


def container_command(
    place: Place, container: str, user: str, gpu_options: t.Sequence[str], arguments: t.Sequence[str]
) -> list[str]:
    """Return the command that runs the program in a container without a network, which docker removes at its end."""
    sandboxing = ("--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
    traceless = ("--rm", "--pull", "never", "--log-driver", "none", "--tmpfs", "/tmp", "--env", "CUDA_CACHE_DISABLE=1")  # noqa: S108
    return [
        *("docker", "run", "--interactive", "--name", container, "--user", user),
        *traceless,
        *sandboxing,
        *gpu_options,
        *("--entrypoint", place.python, place.image, *arguments),
    ]
