# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The NVIDIA GPUs of a host, as the PCI bus and `nvidia-smi -L` list them."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.rigwright.workstation.plugins.module_utils._core import lines
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import processes
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke.process import ANSWER_S, execute
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import nvidia_smi
from ansible_collections.rigwright.workstation.plugins.module_utils._system import pci

ROOT = "/"


@dataclass(frozen=True)
class Host:
    """The NVIDIA GPUs of a host: their number on the PCI bus, the UUIDs of `nvidia-smi -L`, and its output where it fails."""

    devices: int
    listed: tuple[str, ...] = ()
    words: str = ""  # kept: what programs said
    # Some GPU is divided: CUDA gives a program one part of it.
    divided: bool = False
    # GPUs that the driver has taken, and that nvidia-smi does not list.
    missing: int = 0

    @property
    def has_gpu(self) -> bool:
        return bool(self.devices or self.listed)


_LISTING = {
    "gpu": r"GPU .*\(UUID: (?P<uuid>[^)\s]+)\).*",
    "part": r"\s+MIG .*\(UUID: (?P<uuid>MIG-[^)]+)\).*",
    "damaged": r"WARNING: infoROM is corrupted at gpu .*",
    "nothing": r"No devices (were )?found\.?",
}


def read_listing(text: str) -> tuple[tuple[str, ...], bool]:
    """Parse the UUIDs in the output of `nvidia-smi -L`, and return them with whether MIG divides some GPU.

    A divided GPU is listed by its parts: no program can compute on the whole.
    """
    found: list[list[str]] = []
    for name, match in lines.parse("nvidia-smi -L", text, _LISTING):
        if name == "gpu":
            found.append([match["uuid"]])
        elif name == "part" and found:
            found[-1].append(match["uuid"])
    divided = any(len(uuids) > 1 for uuids in found)
    return tuple(uuid for uuids in found for uuid in uuids[min(1, len(uuids) - 1) :]), divided


def read_host() -> Host:
    """Read the GPUs of this host."""
    devices = len(pci.nvidia_devices(Tree(ROOT), pci.DISPLAY))
    try:
        outcome = execute(["nvidia-smi", "-L"], ANSWER_S)
    except OSError as error:
        return Host(devices, words=f"nvidia-smi: {error.strerror}")
    if outcome.status not in nvidia_smi.DONE:
        return Host(devices, words=" ".join(f"{outcome.stdout} {outcome.stderr}".split()))
    listed, divided = read_listing(outcome.stdout)
    missing = missing_of(Tree(ROOT), outcome.stdout)
    output = " ".join(outcome.stdout.split()) if missing else ""
    return Host(devices, listed, output, divided, missing)


def missing_of(tree: Tree, text: str) -> int:
    """Return how many GPUs the driver has taken that `nvidia-smi -L` does not list. In a container the bus has those of others."""
    taken = [address for address in pci.nvidia_devices(tree, pci.DISPLAY) if pci.driver_of(tree, address) == "nvidia"]
    listed = sum(line.startswith("GPU ") and "UUID:" in line for line in text.splitlines())
    return max(len(taken) - listed, 0) if processes.sees_all(tree) else 0
