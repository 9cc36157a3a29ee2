# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""A look at all GPUs of a host: NVML, the kernel's log, the PCI bus and the last look, and a verdict for each. Changes nothing.

The module gpu_health and the check that the role gpu_health has on a host are both this. What cannot be read is told in ``unread``.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import processes
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import (
    cards,
    history,
    links,
    sxid_log,
    windows,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import verdict as health
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_log as log
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

Facts = dict[str, t.Any]
Run = t.Callable[[t.Sequence[str]], tuple[int, str, str]]

# Of the kernel, of this boot. A firewall may have written a million lines there, so only the driver's are asked for, and of them the words.
_KERNEL = ("journalctl", "--dmesg", "--boot", "--quiet", "--no-pager")
ANY_LINE = (*_KERNEL, "--lines=1", "--output=cat")
ALL_LINES = (*_KERNEL, "--output=json", "--output-fields=MESSAGE")
DRIVERS_LINES = (*ALL_LINES, "--grep=NVRM|SXid")
DMESG = ("dmesg",)
BOOT_ID, UPTIME = "/proc/sys/kernel/random/boot_id", "/proc/uptime"
# A directory of its own: config_files keeps /var/lib/rigwright for itself.
HOME = "/var/lib/rigwright_gpu_health"
STATE, REPORT = f"{HOME}/state.json", f"{HOME}/report.json"

_WINDOW = re.compile(r"(\d+)([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
BOOT = "boot"


class Request(t.NamedTuple):
    """What a host may say of its GPUs."""

    # None: not looked at.
    expected_count: int | None = None
    # UUIDs, or addresses, of GPUs that are known to be away.
    acknowledged: t.Sequence[str] = ()
    # Reasons that do not count.
    ignored: t.Sequence[str] = ()


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
    host: Host,
    window: int | None = None,
    limits: health.Limits | None = None,
    kept: str = "",
    request: Request | None = None,
) -> tuple[Facts, history.State]:
    """The verdicts, and what the next look has to know.

    :param window: seconds; older Xids are left out. None takes all of this boot.
    :param kept: the text of the state that the last look left.
    """
    request = request or Request()
    unread: list[str] = []
    try:
        before = history.parse(kept)
    except ValueError as error:
        unread.append(f"the last look: {error}; it is left out, and the next one compares with this")
        before = {}
    said = read_log(host, unread)
    earliest = None if window is None else host.now - window
    xids = log.since(said.xids, earliest)
    found = cards.read(host.tree, host.nvml, unread)
    known = before.get("gpus", {})
    cards.add_without_driver(found, host.tree, said.unsupported, known)
    if processes.sees_all(host.tree):
        cards.add_named(found.cards, xids)
    cards.add_missing(found, host.tree, known, request.acknowledged)
    uptime = host.tree.text(UPTIME).split()
    look_at = _Look(
        host.now,
        host.tree.text(BOOT_ID).strip(),
        before.get("boot"),
        host.now - before.get("time", host.now),
        _alive(host.tree),
        found,
        {"problem": found.problem, "limits": limits, "ignored": request.ignored},
        float(uptime[0]) if uptime else None,
    )
    gpus, remembered = [], {}
    for card in found.cards:
        address = log.normal_address(card["pci_address"] or "")
        own = [[xid for xid in some if xid.pci_address == address] for some in (xids, said.xids)]
        told, kept_row = _judge(look_at, card, known.get(cards.key_of(card), {}), *own)
        gpus.append(told)
        remembered[cards.key_of(card)] = kept_row
        unread += [
            f"GPU {card['index']}: {row['function']} says {row['nvml_error']}" for row in card.get("unreadable", [])
        ]
    reasons = [health.of_error(found.problem)] if found.problem else []
    reasons += _counted(gpus, request.expected_count)
    reasons = [health.ignored(row) if row.what in request.ignored else row for row in reasons]
    switches = _switches(said.sxids, earliest, request.ignored)
    result = {
        "verdict": health.gravest(
            row["verdict"] for row in [*gpus, *switches, *(dataclasses.asdict(row) for row in reasons)]
        ),
        "reasons": [dataclasses.asdict(row) for row in reasons],
        "gpus": gpus,
        "nvswitches": switches,
        "expected_count": request.expected_count,
        "unread": unread,
        "time": host.now,
        "since": before.get("time"),
    }
    return result, {"version": history.VERSION, "time": host.now, "boot": look_at.boot, "gpus": remembered}


class _Look(t.NamedTuple):
    """What is the same for all GPUs of a look."""

    now: float
    boot: str
    boot_before: str | None
    seconds: float
    alive: frozenset[int] | None
    found: cards.Found
    of_host: Facts
    uptime_s: float | None


def _judge(
    look_at: _Look, card: Facts, then: Facts, xids: list[log.Xid], all_xids: list[log.Xid]
) -> tuple[Facts, Facts]:
    """One GPU as the result tells it, and what is remembered of it.

    :param xids: its Xids within the window; *all_xids* those of the boot.
    """
    now, boot = look_at.now, look_at.boot
    if then and then["uuid"] and card["uuid"] not in (None, then["uuid"]):
        # Another card in the same slot: what the old one did is not its doing.
        then = {}
    # A lost card does not say any more who it is; the last look knew.
    card = {**card, **{name: card[name] or then.get(name) for name in ("uuid", "name")}}
    absent = card.pop("absent", None)
    away = windows.absent_in(
        then.get("absent_in", {}), boot, now, absent in (cards.MISSING, cards.NO_DRIVER), history.REMEMBERED_S
    )
    events = windows.events_with(then.get("events", {}), all_xids, boot, now)
    pages, samples = windows.double_bit_pages(card), then.get("pages", [])
    if look_at.boot_before != boot:
        # What the driver had asked for ended with that boot, and no Xid of this one was meant.
        then = {**then, "recovery_action": None, "recovered_at": None} if then else {}
    recovered = history.recovered_at(then, card, xids, now)
    open_ones, over = history.split(xids, recovered, look_at.alive, card.get("processes"))
    boots = history.boots_with(then, open_ones, boot, now)
    since = history.compare(then, card, look_at.seconds)
    judged = {
        **card,
        "since_last_look": since,
        "returned_xids": history.returned(boots, boot),
        "absence": absent and {"what": absent, "boots": len(away)},
        "repeated_xids": windows.repeats(events),
        "double_bit_pages_in_a_week": windows.pages_in_a_week(samples, pages, now),
        "expected_nvlinks": links.expected_links(card, look_at.found.cards),
        "uptime_s": look_at.uptime_s,
    }
    told = {
        **{name: card.get(name) for name in ("index", "uuid", "pci_address", "name")},
        **health.judge(judged, open_ones, look_at.of_host),
        "xids": [xid.as_result() for xid in open_ones],
        "xids_over": over,
        "since_last_look": since,
        # What runs on it, and for whom, is nobody's concern who asks for its health.
        "card": {name: value for name, value in card.items() if name != "processes"},
    }
    kept = history.remember(
        card,
        recovered,
        boots,
        # A slot that only the log names is none that the next look expects.
        seen=absent != cards.MISSING or bool(card["uuid"]) or then.get("seen", False),
        absent_in=away,
        events=events,
        pages=windows.sampled(samples, pages, now),
    )
    return told, kept


def _counted(gpus: t.Sequence[Facts], expected: int | None) -> list[health.Reason]:
    away = {cards.MISSING, cards.NO_DRIVER, "not_shown"}
    there = sum(not away & {row["what"] for row in gpu["reasons"]} for gpu in gpus)
    if not expected or there == expected:
        return []
    verdict = data.REBOOT if there < expected else data.MONITOR
    step = "" if there < expected else "set expected_count to what the host has"
    return [
        health.reason("gpu_count", f"{there} GPUs of {expected} are there", f"{health.GPUD}/gpu-counts", verdict, step)
    ]


def _switches(sxids: t.Iterable[sxid_log.Sxid], earliest: float | None, ignored: t.Collection[str]) -> list[Facts]:
    """A row for each NVSwitch of which the log has something."""
    rows: dict[str, Facts] = {}
    recent = [sxid for sxid in sxids if earliest is None or sxid.time is None or sxid.time >= earliest]
    for (switch, address, code), same in sxid_log.by_switch(recent).items():
        worst = max(same, key=lambda sxid: health.rank(sxid.verdict))
        often = "once" if len(same) == 1 else f"{len(same)} times"
        told = health.reason(f"sxid_{code}", f"{often}: {worst.text}", sxid_log.GUIDE, worst.verdict, worst.next_step)
        told = health.ignored(told) if told.what in ignored else told
        row = rows.setdefault(address, {"name": switch, "pci_address": address, "reasons": []})
        row["reasons"].append(dataclasses.asdict(told))
    return [{**row, "verdict": health.gravest(reason["verdict"] for reason in row["reasons"])} for row in rows.values()]


# --- Reading ---------------------------------------------------------------------------------------------------------


def read_log(host: Host, unread: list[str]) -> log.Log:
    """What this boot's log has: from the journal, or from the kernel itself where the journal has nothing of it."""
    words = []
    rc, out, err = host.run(ANY_LINE)
    if rc == 0 and out.strip():
        rc, out, err = host.run(DRIVERS_LINES)
        if rc != 0 and err.strip():
            # A journalctl without patterns. One that only found nothing has no words.
            rc, out, err = host.run(ALL_LINES)
        if rc == 0 or not err.strip():
            return log.read(out)
    words.append(_one_line(err) or "journalctl has nothing of the kernel")
    rc, out, err = host.run(DMESG)
    if rc == 0 and out.strip():
        uptime = host.tree.text(UPTIME).split()
        return log.read(out, host.now - float(uptime[0]) if uptime else None)
    words.append(_one_line(err) or "dmesg has nothing")
    unread.append(f"the kernel's log: {'; '.join(words)}. Read it as root, or as a member of the group systemd-journal")
    return log.Log()


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]


def _alive(tree: Tree) -> frozenset[int] | None:
    if not processes.sees_all(tree):
        return None
    return frozenset(int(name) for name in tree.names("/proc") if name.isdecimal())
