# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command lines that start the training program, and its need of memory. The program is read from standard input."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import memory, nets
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.request import Request
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke.facts import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke.request import AUTO, CPU, CUDA, Place

# Of train_digits.py.
BATCH = 64


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
    options["memory"] = need().low if device == CUDA else 0
    return ["-I", "-B", "-", *(argument for name, value in options.items() for argument in (f"--{name}", str(value)))]


def need() -> memory.Memory:
    """Return the memory of a GPU for the training, whose network is that of train_digits.py, as gpu_fit estimates it."""
    layers = nets.Counter(8, channels=1)
    for channels, stride in ((16, 1), (32, 2)):
        layers.convolution(channels, 3, stride, bias=True)
        layers.saved += layers.size()
    layers.linear(layers.size(), 64)
    layers.linear(64, 10)
    return memory.estimate(Request("digits", "train", BATCH, "fp32", net=layers.net()))


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
