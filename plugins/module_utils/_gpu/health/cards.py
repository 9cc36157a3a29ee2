# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""The GPUs of a host: those that NVML shows, that the PCI bus shows, that the kernel's log names, and that were there before."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import processes
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import state as gpu_state
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_log as log
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml, pci_address
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError
from ansible_collections.rigwright.workstation.plugins.module_utils._system import pci

Facts = dict[str, t.Any]

MISSING, NO_DRIVER, UNSUPPORTED = "missing", "no_driver", "unsupported"
# These say that NVML could not be asked, and nothing of the GPUs.
_NOT_ASKED = frozenset({"BINDING_NOT_FOUND", "NO_PERMISSION", "OPERATING_SYSTEM"})
# And these nothing at all on a host that has no GPU.
_NO_GPU = frozenset({"LIBRARY_NOT_FOUND", "DRIVER_NOT_LOADED", "GPU_NOT_FOUND"})
_LOADED = "/sys/module/nvidia"


class Found(t.NamedTuple):
    """What was found before the log and the last look are asked."""

    cards: list[Facts]
    # Why NVML as a whole does not answer.
    problem: Facts | None
    answered: bool
    on_bus: list[str]


def read(tree: Tree, nvml: t.Callable[[], Nvml], unread: list[str]) -> Found:
    """All GPUs that NVML or the PCI bus shows."""
    on_bus = pci.nvidia_devices(tree, pci.DISPLAY)
    try:
        with nvml() as opened:
            cards: list[Facts] = [gpu_state.read_card(opened, card, tree) for card in opened.cards()]
    except NvmlError as error:
        problem = None
        if error.name in _NOT_ASKED:
            unread.append(f"NVML: {error.name}: {error.next_step}")
        elif on_bus or error.name not in _NO_GPU:
            problem = error.as_result()
        return Found([only_on_bus(address, None) for address in on_bus], problem, False, on_bus)
    shown = {card["pci_address"] for card in cards}
    missing = [address for address in on_bus if address not in shown and _driver(tree, address) == "nvidia"]
    lost = [card for card in cards if not card["pci_address"]]
    if len(lost) == len(missing):
        # A lost GPU may not tell its address any more: it is the one that is missing.
        for card, address in zip(lost, missing):
            card["pci_address"] = address
    elif processes.sees_all(tree):
        # In a container the bus shows every card of the host, and NVML those that were lent.
        cards += [only_on_bus(address, False) for address in missing]
    return Found(cards, None, True, on_bus)


def add_without_driver(found: Found, tree: Tree, unsupported: t.Collection[str], known: t.Collection[str] = ()) -> None:
    """GPUs that no driver has while nvidia is loaded. One for a virtual machine has vfio-pci, or an override that waits for it.

    To a container the bus shows those of others as well: there, they are those that it had before.

    :param unsupported: addresses that the driver called unsupported, as `_gpu.health.xid_log.Log` has them.
    """
    if not (found.answered or tree.exists(_LOADED)):
        return
    sees_all = processes.sees_all(tree)
    by_address = {card["pci_address"]: card for card in found.cards}
    for address in found.on_bus:
        override = tree.text(f"{pci.DEVICES}/{address}/driver_override").strip()
        is_meant = override not in ("", "(null)", "nvidia")
        if _driver(tree, address) or is_meant or not (sees_all or address in known):
            continue
        if address not in by_address:
            by_address[address] = only_on_bus(address, None)
            found.cards.append(by_address[address])
        is_unsupported = log.normal_address(address) in unsupported or "" in unsupported
        by_address[address]["absent"] = UNSUPPORTED if is_unsupported else NO_DRIVER


def add_named(cards: list[Facts], xids: t.Iterable[log.Xid]) -> None:
    """Every slot that the log names is a GPU, also when nothing shows it any more; to a container the kernel tells of others' as well."""
    known = {log.normal_address(card["pci_address"] or "") for card in cards}
    for address in dict.fromkeys(xid.pci_address for xid in xids):
        if address not in known:
            cards.append(only_on_bus(f"{address}.0", None))


def add_missing(found: Found, tree: Tree, known: t.Mapping[str, Facts], acknowledged: t.Collection[str]) -> None:
    """GPUs that were there at an earlier look, or that the log names, and that neither the bus nor NVML shows.

    :param known: what is remembered, by `key_of`.
    :param acknowledged: UUIDs, or addresses of those that never told one, of GPUs that are known to be away.
    """
    if not tree.names(pci.DEVICES) and not (found.answered and processes.sees_all(tree)):
        # Nobody can say what is not there: a container may have no bus, and fewer GPUs than before.
        return
    shown = {card["uuid"] for card in found.cards if card["uuid"]}
    by_key = {key_of(card): card for card in found.cards}
    away = []
    for key, row in known.items():
        if key in found.on_bus or row["uuid"] in shown or (row["uuid"] or key) in acknowledged:
            continue
        if key in by_key and _is_shown(by_key[key]):
            continue
        # A GPU that was lost may have had no more than an index there.
        if row.get("seen", bool(row["uuid"])) and pci_address(key):
            away.append(key)
    lost = [card for card in found.cards if not card["pci_address"]]
    if len(lost) == len(away):
        # As above: it is lost, which NVML tells.
        for card, key in zip(lost, away):
            card["pci_address"] = key
        away = []
    for key in away:
        if key not in by_key:
            by_key[key] = only_on_bus(key, None)
            found.cards.append(by_key[key])
    for key, card in by_key.items():
        if key in away or not (_is_shown(card) or key in found.on_bus or key in known):
            card["absent"] = MISSING


def _is_shown(card: Facts) -> bool:
    return "shown_by_nvml" not in card


def key_of(card: Facts) -> str:
    """By what a GPU is known from one look to the next. A lost one has no UUID, and its slot stays."""
    return card["pci_address"] or card["uuid"] or f"index {card['index']}"


def only_on_bus(address: str, shown: bool | None) -> Facts:
    return {"index": None, "uuid": None, "name": None, "pci_address": address, "shown_by_nvml": shown}


def _driver(tree: Tree, address: str) -> str:
    """Empty for a device that no driver has. One for a virtual machine has vfio-pci."""
    return os.path.basename(tree.link(f"{pci.DEVICES}/{address}/driver"))
