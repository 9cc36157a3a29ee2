# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPUs of a host: from NVML, the PCI bus, the kernel's log, and the last check."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import processes
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import state as gpu_state
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_log as log
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.rows import GpuState, Signs
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml, pci_address
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import ErrorRow, NvmlError
from ansible_collections.rigwright.workstation.plugins.module_utils._system import pci
from ansible_collections.rigwright.workstation.plugins.module_utils._system.modprobe import kept_by

MISSING, NO_DRIVER, UNSUPPORTED, NO_ROOM = "missing", "no_driver", "unsupported", "no_room"
# NVML cannot be used. These errors say nothing about the GPUs.
_NOT_ASKED = frozenset({"BINDING_NOT_FOUND", "NO_PERMISSION", "OPERATING_SYSTEM"})
# On a host without a GPU these errors mean nothing.
_NO_GPU = frozenset({"LIBRARY_NOT_FOUND", "DRIVER_NOT_LOADED", "GPU_NOT_FOUND"})
_LOADED = "/sys/module/nvidia"


class Found(t.NamedTuple):
    """The GPUs of NVML and of the PCI bus."""

    cards: list[Signs]
    # The error, where NVML as a whole does not answer.
    problem: ErrorRow | None
    answered: bool
    on_bus: list[str]


def read(tree: Tree, nvml: t.Callable[[], Nvml], unread: list[str]) -> Found:
    """Read all GPUs that NVML or the PCI bus shows.

    :param unread: gets a message where NVML cannot be used.
    """
    on_bus = pci.nvidia_devices(tree, pci.DISPLAY)
    try:
        with nvml() as opened:
            cards = [t.cast("Signs", gpu_state.read_card(opened, card, tree)) for card in opened.cards()]
    except NvmlError as error:
        problem = None
        if error.name in _NOT_ASKED:
            unread.append(f"NVML: {error.name}: {error.next_step}")
        elif on_bus or error.name not in _NO_GPU:
            problem = error.as_result()
        return Found([only_on_bus(address, None) for address in on_bus], problem, False, on_bus)
    shown = {card["pci_address"] for card in cards}
    missing = [address for address in on_bus if address not in shown and pci.driver_of(tree, address) == "nvidia"]
    lost = [card for card in cards if not card["pci_address"]]
    if len(lost) == len(missing):
        # A lost GPU may no longer report its address: it is the missing one.
        for card, address in zip(lost, missing):
            card["pci_address"] = address
    elif processes.sees_all(tree):
        # In a container the bus shows every card of the host, and NVML only those of the container.
        cards += [only_on_bus(address, False) for address in missing]
    return Found(cards, None, True, on_bus)


def add_without_driver(found: Found, tree: Tree, kernel_log: log.Log, remembered: t.Mapping[str, GpuState]) -> None:
    """Add GPUs that have no driver while nvidia is loaded. A GPU that is kept for a virtual machine is none of them.

    In a container the bus shows foreign GPUs as well. There, only GPUs of the last check count.

    :param kernel_log: names GPUs that the driver does not support, and those without addresses.
    :param remembered: the state of the last check, by `key_of`. What has a UUID there has worked.
    """
    if not (found.answered or tree.exists(_LOADED)):
        return
    sees_all = processes.sees_all(tree)
    by_address = {card["pci_address"]: card for card in found.cards}
    for address in found.on_bus:
        named = log.normal_address(address)
        card = by_address.get(address)
        if card and named in kernel_log.unsupported and card.get("shown_by_nvml") is False:
            card["shown_by_nvml"], card["absent"] = None, UNSUPPORTED
        worked = bool(remembered.get(address, {}).get("uuid"))
        has_driver = pci.driver_of(tree, address) or kept_by(tree, address, was_used=worked)
        if has_driver or not (sees_all or address in remembered):
            continue
        if card is None:
            card = only_on_bus(address, None)
            found.cards.append(card)
        is_unsupported = kernel_log.unsupported & {named, ""}
        # A card that has worked had room, and BAR0 is small: something else than the firmware's setting is wrong.
        bar = kernel_log.no_room.get(named)
        has_no_room = bool(bar) and not worked
        card["absent"] = NO_ROOM if has_no_room else UNSUPPORTED if is_unsupported else NO_DRIVER
        card["bar"] = bar


def add_named(cards: list[Signs], xids: t.Iterable[log.Xid]) -> None:
    """Add a GPU for every slot that the log names, also when nothing else shows it. In a container the log names foreign GPUs, too."""
    addresses = {log.normal_address(card["pci_address"] or "") for card in cards}
    for address in dict.fromkeys(xid.pci_address for xid in xids):
        if address not in addresses:
            cards.append(only_on_bus(f"{address}.0", None))


def add_missing(
    found: Found, tree: Tree, remembered: t.Mapping[str, GpuState], acknowledged: t.Collection[str]
) -> None:
    """Add GPUs of an earlier check, or of the log, that neither the bus nor NVML shows.

    :param remembered: the state of the last check, by `key_of`.
    :param acknowledged: UUIDs of GPUs that were taken out, or addresses of those that never reported a UUID.
    """
    if not tree.names(pci.DEVICES) and not (found.answered and processes.sees_all(tree)):
        # A container may have no bus, and fewer GPUs than before: none counts as missing.
        return
    shown = {card["uuid"] for card in found.cards if card["uuid"]}
    by_key = {key_of(card): card for card in found.cards}
    away = []
    for key, row in remembered.items():
        if key in found.on_bus or row["uuid"] in shown or (row["uuid"] or key) in acknowledged:
            continue
        if key in by_key and _is_shown(by_key[key]):
            continue
        # A lost GPU may have had an index only.
        if row.get("seen", bool(row["uuid"])) and pci_address(key):
            away.append(key)
    lost = [card for card in found.cards if not card["pci_address"]]
    if len(lost) == len(away):
        # It is lost, and NVML has reported that.
        for card, key in zip(lost, away):
            card["pci_address"] = key
        away = []
    for key in away:
        if key not in by_key:
            by_key[key] = only_on_bus(key, None)
            found.cards.append(by_key[key])
    for key, card in by_key.items():
        if key in away or not (_is_shown(card) or key in found.on_bus or key in remembered):
            card["absent"] = MISSING


def _is_shown(card: Signs) -> bool:
    return "shown_by_nvml" not in card


def key_of(card: Signs) -> str:
    """Return the key of a GPU in the state. It is the slot, since a lost GPU has no UUID."""
    return card["pci_address"] or card["uuid"] or f"index {card['index']}"


def only_on_bus(address: str, shown: bool | None) -> Signs:
    """Return the facts of a GPU that NVML does not show.

    :param shown: False where NVML should show it; None where that is not known.
    """
    names = {"index": None, "uuid": None, "name": None, "pci_address": address, "shown_by_nvml": shown}
    return t.cast("Signs", names)
