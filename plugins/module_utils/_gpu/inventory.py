# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inventory of a host's GPUs, their driver, services and containers. Where NVML does not answer, GPUs come from the PCI bus."""

from __future__ import annotations

import dataclasses
import os
import re
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import processes
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.card_facts import Facts
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.details import read_card
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.reader import named
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import facts as gpu_host


class Row(Facts):
    """A GPU, and the driver of the kernel that has it."""

    kernel_driver: str | None


class Pair(t.TypedDict):
    """The connection of two GPUs."""

    gpus: list[int]
    level: str | None
    p2p_read: str | None
    p2p_nvlink: str | None


class MpsDaemon(t.TypedDict):
    """A control daemon of MPS."""

    pid: int
    user: str | None
    pipe_directory: str | None


class Services(t.TypedDict):
    """The daemons for GPUs."""

    services: dict[str, bool]
    mps_daemons: list[MpsDaemon]


class CdiSpec(t.TypedDict):
    """A CDI spec. `matches`: it is of the driver that is loaded."""

    path: str
    age_seconds: int
    driver: str
    matches: bool | None


class Toolkit(t.TypedDict):
    """The container toolkit."""

    installed: bool
    cdi_specs: list[CdiSpec]


class Inventory(Services):
    """The result of gpu_info."""

    gpus: list[Row]
    topology: list[Pair]
    driver: dict[str, object]
    secure_boot: str
    container_toolkit: Toolkit
    sees_all_processes: bool


# nvmlGpuTopologyLevel_t, with the names of `nvidia-smi topo -h`.
LEVELS = {
    0: "same_board",
    10: "one_pcie_switch",
    20: "several_pcie_switches",
    30: "host_bridge",
    40: "numa_node",
    50: "system",
}
# nvmlGpuP2PStatus_t and nvmlGpuP2PCapsIndex_t. (The binding's constant for reading is the tuple (0,) by a slip.)
P2P_STATES = {
    0: "ok",
    1: "chipset_not_supported",
    2: "gpu_not_supported",
    3: "topology_not_supported",
    4: "disabled_by_regkey",
    5: "not_supported",
    6: "unknown",
}
P2P_READ, P2P_NVLINK = 0, 2
# The first 15 letters of their programs: the kernel keeps no more.
DAEMONS = {"persistenced": "nvidia-persiste", "fabricmanager": "nv-fabricmanage", "dcgm": "nv-hostengine"}
_MPS = "nvidia-cuda-mps"
_MPS_CONTROL = "nvidia-cuda-mps-control"
# Where docker and podman look for CDI specs.
CDI_DIRECTORIES = ("/etc/cdi", "/var/run/cdi")
_CDI_DRIVER = re.compile(r"lib(?:cuda|nvidia-ml)\.so\.(\d+\.\d+(?:\.\d+)?)")


def gather(tree: Tree) -> Inventory:
    """Return the result of gpu_info, also where NVML fails."""
    listed = {row["address"]: row for row in gpu_host.read_gpus(tree)}
    driver = {**gpu_host.read_driver(tree), "nvml": None, "cuda": None, "problem": None}
    gpus: list[Facts] = []
    topology: list[Pair] = []
    try:
        with Nvml() as nvml:
            driver["nvml"] = nvml.ask("nvmlSystemGetNVMLVersion")
            driver["cuda"] = _cuda(nvml.ask("nvmlSystemGetCudaDriverVersion"))
            driver["loaded"] = driver["loaded"] or nvml.driver_version()
            gpus = [read_card(nvml, card, tree) for card in place_lost(nvml.cards(), listed)]
            topology = read_topology(nvml)
    except NvmlError as error:
        driver["problem"] = error.as_result()
    system = gpu_host.read_system(tree)
    return {
        "gpus": complete(gpus, listed),
        "topology": topology,
        "driver": driver,
        "secure_boot": gpu_host.read_secure_boot(tree, system["distribution"])["state"],
        **read_services(tree),
        "container_toolkit": read_container_toolkit(tree, driver["loaded"], time.time()),
        "sees_all_processes": processes.sees_all(tree),
    }


def _cuda(number: int | None) -> str | None:
    """Return a version of CUDA: 13000 is 13.0."""
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"


def place_lost(cards: t.Sequence[Card], listed: t.Iterable[str]) -> list[Card]:
    """Give a lost GPU its PCI address, where exactly one listed address has no GPU. NVML no longer reports it."""
    lost = [card for card in cards if not card.pci_address]
    free = sorted(set(listed) - {card.pci_address for card in cards})
    if len(lost) != 1 or len(free) != 1:
        return list(cards)
    return [card if card.pci_address else dataclasses.replace(card, pci_address=free[0]) for card in cards]


def complete(gpus: list[Facts], listed: t.Mapping[str, gpu_host.Facts]) -> list[Row]:
    """Return the GPUs of NVML with their PCI facts, and after them the GPUs that only the PCI bus shows."""
    shown = {row["pci_address"] for row in gpus}
    hidden: list[Facts] = [
        {**read_card(None, Card(None, -1, pci_address=address)), "index": None}
        for address in sorted(listed)
        if address not in shown
    ]
    return [_with_pci(row, listed.get(row["pci_address"] or "")) for row in [*gpus, *hidden]]


def _with_pci(row: Facts, device: gpu_host.Facts | None) -> Row:
    """Add the PCI facts of a device. Values of the driver win over the catalogue by PCI id."""
    if device is None:
        return {**row, "kernel_driver": None}

    def filled(value: str | None, catalogued: str | None) -> str | None:
        return catalogued if value is None else value

    return {
        **row,
        "name": filled(row["name"], device["name"] or None),
        "compute_capability": filled(row["compute_capability"], device["compute_capability"] or None),
        "architecture": filled(row["architecture"], device["generation"].lower() if device["known"] else None),
        "pci_device_id": filled(row["pci_device_id"], f"10de:{device['device_id']}"),
        "kernel_driver": device["kernel_driver"] or None,
    }


def read_topology(nvml: Nvml) -> list[Pair]:
    """Read the connection of each pair of GPUs."""
    cards = [card for card in nvml.cards() if not card.problem]
    rows: list[Pair] = []
    for position, card in enumerate(cards):
        for other in cards[position + 1 :]:
            try:
                level = nvml.ask("nvmlDeviceGetTopologyCommonAncestor", card.handle, other.handle)
                read, link = (
                    nvml.ask("nvmlDeviceGetP2PStatus", card.handle, other.handle, index)
                    for index in (P2P_READ, P2P_NVLINK)
                )
            except NvmlError:
                # A GPU that was lost meanwhile has its own problem.
                level = read = link = None
            rows.append(
                {
                    "gpus": [card.index, other.index],
                    "level": named(level, LEVELS),
                    "p2p_read": named(read, P2P_STATES),
                    "p2p_nvlink": named(link, P2P_STATES),
                }
            )
    return rows


def read_services(tree: Tree) -> Services:
    """Find the daemons for GPUs among the running processes."""
    names = {int(pid): tree.text(f"/proc/{pid}/comm").strip() for pid in tree.names("/proc") if pid.isdecimal()}
    running = set(names.values())
    daemons: list[MpsDaemon] = []
    for pid in sorted(pid for pid, name in names.items() if name == _MPS):
        process = processes.describe(tree, pid)
        if process["command"] and _MPS_CONTROL in process["command"].split()[0]:
            environment = tree.bytes(f"/proc/{pid}/environ").decode(errors="replace").split("\0")
            prefix = "CUDA_MPS_PIPE_DIRECTORY="
            pipe = next((row[len(prefix) :] for row in environment if row.startswith(prefix)), None)
            daemons.append({"pid": pid, "user": process["user"], "pipe_directory": pipe})
    return {
        "services": {name: program in running for name, program in DAEMONS.items()},
        "mps_daemons": daemons,
    }


def read_container_toolkit(tree: Tree, driver: str, now: float) -> Toolkit:
    """Read the CDI specs with their driver and age.

    A spec names the driver's files by their version: a spec for another driver names files that no longer exist.
    """
    specs: list[CdiSpec] = []
    for directory in CDI_DIRECTORIES:
        for name in tree.names(directory):
            path = f"{directory}/{name}"
            match = _CDI_DRIVER.search(tree.text(path)) if name.endswith((".yaml", ".json")) else None
            if match:
                specs.append(
                    {
                        "path": path,
                        "age_seconds": int(now - os.stat(tree.at(tree.resolve(path))).st_mtime),
                        "driver": match.group(1),
                        "matches": match.group(1) == driver if driver else None,
                    }
                )
    return {"installed": tree.exists("/usr/bin/nvidia-ctk"), "cdi_specs": specs}
