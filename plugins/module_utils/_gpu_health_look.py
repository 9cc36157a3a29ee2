# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""A look at all GPUs of a host: NVML, the kernel's log, the PCI bus and the last look, and a verdict for each. Changes nothing.

The module gpu_health and the check that the role gpu_health has on a host are both this. What cannot be read is told in ``unread``.
"""

from __future__ import annotations

import dataclasses
import os
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils import _gpu_health as health
from ansible_collections.rigwright.workstation.plugins.module_utils import _gpu_health_history as history
from ansible_collections.rigwright.workstation.plugins.module_utils import _gpu_processes as processes
from ansible_collections.rigwright.workstation.plugins.module_utils import _gpu_state as gpu_state
from ansible_collections.rigwright.workstation.plugins.module_utils import _pci as pci
from ansible_collections.rigwright.workstation.plugins.module_utils import _xid_log as log
from ansible_collections.rigwright.workstation.plugins.module_utils._nvml import Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._nvml_errors import NvmlError, Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._tree import Tree

Facts = dict[str, t.Any]
Run = t.Callable[[t.Sequence[str]], tuple[int, str, str]]

# Of the kernel, of this boot. A firewall may have written a million lines there, so only the driver's are asked for, and of them the words.
_KERNEL = ("journalctl", "--dmesg", "--boot", "--quiet", "--no-pager")
ANY_LINE = (*_KERNEL, "--lines=1", "--output=cat")
ALL_LINES = (*_KERNEL, "--output=json", "--output-fields=MESSAGE")
DRIVERS_LINES = (*ALL_LINES, "--grep=NVRM")
DMESG = ("dmesg",)
BOOT_ID, UPTIME = "/proc/sys/kernel/random/boot_id", "/proc/uptime"
# A directory of its own: config_files keeps /var/lib/rigwright for itself.
HOME = "/var/lib/rigwright_gpu_health"
STATE, REPORT = f"{HOME}/state.json", f"{HOME}/report.json"

# These say that NVML could not be asked, and nothing of the GPUs.
_NOT_ASKED = frozenset({"BINDING_NOT_FOUND", "NO_PERMISSION", "OPERATING_SYSTEM"})
# And these nothing at all on a host that has no GPU.
_NO_DRIVER = frozenset({"LIBRARY_NOT_FOUND", "DRIVER_NOT_LOADED", "GPU_NOT_FOUND"})
_WINDOW = re.compile(r"(\d+)([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
BOOT = "boot"


@dataclasses.dataclass(frozen=True)
class Host:
    """What a look goes through."""

    run: Run
    now: float
    tree: Tree = dataclasses.field(default_factory=Tree)
    nvml: t.Callable[[], Nvml] = Nvml


def window_seconds(window: str) -> int | None:
    """None for the whole boot.

    :raises Refusal: it is neither.
    """
    found = _WINDOW.fullmatch(window)
    if window != BOOT and not found:
        raise Refusal(
            f"`window` is {window!r}: it is `boot`, or a number with s, m, h or d, as `24h`. Nothing was read."
        )
    return int(found[1]) * _UNITS[found[2]] if found else None


def limits_of(given: t.Mapping[str, t.Any] | None) -> health.Limits:
    """The limits, with those that are given in place of the collection's own.

    :raises Refusal: one is unknown, or below 0.
    """
    known = {field.name for field in dataclasses.fields(health.Limits)}
    asked = {name: value for name, value in (given or {}).items() if value is not None}
    unknown = sorted(asked.keys() - known)
    if unknown:
        raise Refusal(f"`limits` has {', '.join(unknown)}: there are {', '.join(sorted(known))}. Nothing was read.")
    low = sorted(name for name, value in asked.items() if value <= 0)
    if low:
        raise Refusal(
            f"`limits` has {', '.join(low)} at 0 or below: a GPU that is well would be told. Nothing was read."
        )
    return health.Limits(**asked)


def look(
    host: Host, window: int | None = None, limits: health.Limits | None = None, kept: str = ""
) -> tuple[Facts, history.State]:
    """The verdicts, and what the next look has to know.

    :param window: seconds; older Xids are left out. None takes all of this boot.
    :param kept: the text of the state that the last look left.
    """
    unread: list[str] = []
    try:
        before = history.parse(kept)
    except ValueError as error:
        unread.append(f"the last look: {error}; it is left out, and the next one compares with this")
        before = {}
    xids = read_log(host, unread)
    if window is not None:
        xids = log.since(xids, host.now - window)
    cards, problem = read_cards(host, unread)
    if processes.sees_all(host.tree):
        _place(cards, xids)
    boot = host.tree.text(BOOT_ID).strip()
    alive = _alive(host.tree)
    seconds = host.now - before.get("time", host.now)
    gpus, remembered = [], {}
    for card in cards:
        own = [xid for xid in xids if xid.pci_address == log.normal_address(card["pci_address"] or "")]
        then = before.get("gpus", {}).get(key_of(card), {})
        if then and then["uuid"] and card["uuid"] not in (None, then["uuid"]):
            # Another card in the same slot: what the old one did is not its doing.
            then = {}
        # A lost card does not say any more who it is; the last look knew.
        card = {**card, **{name: card[name] or then.get(name) for name in ("uuid", "name")}}
        if before.get("boot") != boot:
            # What the driver had asked for ended with that boot, and no Xid of this one was meant.
            then = {**then, "recovery_action": None, "recovered_at": None} if then else {}
        recovered = history.recovered_at(then, card, own, host.now)
        open_ones, over = history.split(own, recovered, alive, card.get("processes"))
        boots = history.boots_with(then, open_ones, boot, host.now)
        since = history.compare(then, card, seconds)
        judged = {**card, "since_last_look": since, "returned_xids": history.returned(boots, boot)}
        gpus.append(
            {
                **{name: card.get(name) for name in ("index", "uuid", "pci_address", "name")},
                **health.judge(judged, open_ones, {"problem": problem, "limits": limits}),
                "xids": [xid.told() for xid in open_ones],
                "xids_over": over,
                "since_last_look": since,
                # What runs on it, and for whom, is nobody's concern who asks for its health.
                "card": {name: value for name, value in card.items() if name != "processes"},
            }
        )
        remembered[key_of(card)] = history.remember(card, recovered, boots)
        unread += [
            f"GPU {card['index']}: {row['function']} says {row['nvml_error']}" for row in card.get("unreadable", [])
        ]
    reasons = [dataclasses.asdict(health.of_error(problem))] if problem else []
    result = {
        "verdict": health.gravest(row["verdict"] for row in [*gpus, *reasons]),
        "reasons": reasons,
        "gpus": gpus,
        "unread": unread,
        "time": host.now,
        "since": before.get("time"),
    }
    return result, {"version": history.VERSION, "time": host.now, "boot": boot, "gpus": remembered}


def key_of(card: Facts) -> str:
    """By what a GPU is known from one look to the next. A lost one has no UUID, and its slot stays."""
    return card["pci_address"] or card["uuid"] or f"index {card['index']}"


# --- Reading ---------------------------------------------------------------------------------------------------------


def read_log(host: Host, unread: list[str]) -> list[log.Xid]:
    """Xids of this boot: from the journal, or from the kernel itself where the journal has nothing of it."""
    words = []
    rc, out, err = host.run(ANY_LINE)
    if rc == 0 and out.strip():
        rc, out, err = host.run(DRIVERS_LINES)
        if rc != 0 and err.strip():
            # A journalctl without patterns. One that only found nothing has no words.
            rc, out, err = host.run(ALL_LINES)
        if rc == 0 or not err.strip():
            return log.parse(out)
    words.append(_one_line(err) or "journalctl has nothing of the kernel")
    rc, out, err = host.run(DMESG)
    if rc == 0 and out.strip():
        uptime = host.tree.text(UPTIME).split()
        return log.parse(out, host.now - float(uptime[0]) if uptime else None)
    words.append(_one_line(err) or "dmesg has nothing")
    unread.append(f"the kernel's log: {'; '.join(words)}. Read it as root, or as a member of the group systemd-journal")
    return []


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]


def read_cards(host: Host, unread: list[str]) -> tuple[list[Facts], Facts | None]:
    """All GPUs that NVML or the PCI bus shows, and why NVML as a whole does not answer."""
    on_bus = pci.nvidia_devices(host.tree, pci.DISPLAY)
    cards: list[Facts] = []
    problem: Facts | None = None
    try:
        with host.nvml() as nvml:
            cards = [gpu_state.read_card(nvml, card, host.tree) for card in nvml.cards()]
    except NvmlError as error:
        if error.name in _NOT_ASKED:
            unread.append(f"NVML: {error.name}: {error.next_step}")
        elif on_bus or error.name not in _NO_DRIVER:
            problem = error.told()
        return [_only_on_bus(address, None) for address in on_bus], problem
    shown = {card["pci_address"] for card in cards}
    missing = [address for address in on_bus if address not in shown and _is_drivers(host.tree, address)]
    lost = [card for card in cards if not card["pci_address"]]
    if len(lost) == len(missing):
        # A lost GPU may not tell its address any more: it is the one that is missing.
        for card, address in zip(lost, missing):
            card["pci_address"] = address
    elif processes.sees_all(host.tree):
        # In a container the bus shows every card of the host, and NVML those that were lent.
        cards += [_only_on_bus(address, False) for address in missing]
    return cards, None


def _is_drivers(tree: Tree, address: str) -> bool:
    """Not one that was handed on to a virtual machine, or that nobody has."""
    return os.path.basename(tree.link(f"{pci.DEVICES}/{address}/driver")) == "nvidia"


def _only_on_bus(address: str, shown: bool | None) -> Facts:
    return {"index": None, "uuid": None, "name": None, "pci_address": address, "shown_by_nvml": shown}


def _place(cards: list[Facts], xids: t.Iterable[log.Xid]) -> None:
    """Every slot that the log names is a GPU, also when nothing shows it any more; to a container the kernel tells of others' as well."""
    known = {log.normal_address(card["pci_address"] or "") for card in cards}
    for address in dict.fromkeys(xid.pci_address for xid in xids):
        if address not in known:
            cards.append(_only_on_bus(f"{address}.0", None))


def _alive(tree: Tree) -> frozenset[int] | None:
    if not processes.sees_all(tree):
        return None
    return frozenset(int(name) for name in tree.names("/proc") if name.isdecimal())
