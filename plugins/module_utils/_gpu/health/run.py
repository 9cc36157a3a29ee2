# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The health check of all GPUs of a host: from NVML, the kernel's log, the PCI bus and the last check to a verdict on each.

The module gpu_health and the program of the role gpu_health both run it. It changes nothing. ``unread`` lists what it could not read.
"""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import processes
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import (
    cards,
    facts,
    history,
    links,
    sxid_log,
    windows,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import verdict as health
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_log as log
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.request import Request
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.rows import (
    GpuRow,
    GpuState,
    Result,
    Signs,
    State,
    SwitchRow,
)


def check(
    host: facts.Host,
    window: int | None = None,
    limits: health.Limits | None = None,
    kept: str = "",
    request: Request | None = None,
) -> tuple[Result, State]:
    """Check all GPUs; return the result of the module, and the state that the next check needs.

    :param window: seconds; older Xids are left out. None takes all of this boot.
    :param kept: the text of the state that the last check has written.
    """
    request = request or Request()
    unread: list[str] = []
    boot, booted = facts.boot_id(host.tree), host.now - host.monotonic()
    try:
        last = history.parse(kept)
    except ValueError as error:
        unread.append(f"the last check: {error}; it is left out, and the next one compares with this")
        last = {}
    before = history.at_this_clock(last, boot, host.now, booted)
    kernel_log = facts.read_log(host, unread, booted)
    if boot and before.get("boot") == boot:
        kernel_log.unsupported |= set(before.get("unsupported", []))
        kernel_log.no_room = {**before.get("no_room", {}), **kernel_log.no_room}
        kernel_log.sxids = history.with_kept(
            history.from_rows(sxid_log.Sxid, before.get("sxids", [])), kernel_log.sxids
        )
    earliest = None if window is None else host.now - window
    xids = log.since(kernel_log.xids, earliest)
    found = cards.read(host.tree, host.nvml, unread)
    read_at = booted + host.monotonic()
    remembered = before.get("gpus", {})
    cards.add_without_driver(found, host.tree, kernel_log, remembered)
    if processes.sees_all(host.tree):
        cards.add_named(found.cards, xids)
    cards.add_missing(found, host.tree, remembered, request.acknowledged)
    context = _Context(
        host.now,
        boot,
        before.get("boot"),
        host.now - before.get("time", host.now),
        before.get("read_at"),
        facts.read_pids(host.tree),
        found,
        {"problem": found.problem, "limits": limits, "ignored": request.ignored},
        facts.uptime_s(host.tree),
        earliest,
    )
    gpus: list[GpuRow] = []
    states: dict[str, GpuState] = {}
    for card in found.cards:
        address = log.normal_address(card["pci_address"] or "")
        own = [xid for xid in kernel_log.xids if xid.pci_address == address]
        gpu, state = _judge(context, card, remembered.get(cards.key_of(card), {}), own)
        gpus.append(gpu)
        states[cards.key_of(card)] = state
        unread += [
            f"GPU {card['index']}: {row['function']} says {row['nvml_error']}" for row in card.get("unreadable", [])
        ]
    reasons = [health.of_error(found.problem)] if found.problem else []
    reasons += _judge_count(gpus, request.expected_count)
    reasons = [health.ignored(row) if row.what in request.ignored else row for row in reasons]
    switches = _judge_switches(kernel_log.sxids, earliest, request.ignored)
    rows = [health.row_of(row) for row in reasons]
    result: Result = {
        "verdict": health.gravest(row["verdict"] for row in [*gpus, *switches, *rows]),
        "reasons": rows,
        "gpus": gpus,
        "nvswitches": switches,
        "expected_count": request.expected_count,
        "unread": unread,
        "time": host.now,
        "since": last.get("time"),
    }
    return result, {
        "version": history.VERSION,
        "time": host.now,
        "read_at": read_at,
        "boot": boot,
        "booted": booted,
        "gpus": states,
        "sxids": history.as_rows(kernel_log.sxids),
        "unsupported": sorted(kernel_log.unsupported),
        "no_room": kernel_log.no_room,
    }


class _Context(t.NamedTuple):
    """The facts that all GPUs of a check share."""

    now: float
    boot: str
    boot_before: str | None
    seconds: float
    read_before: float | None
    alive: frozenset[int] | None
    found: cards.Found
    of_host: health.OfHost
    uptime_s: float | None
    earliest: float | None


def _judge(context: _Context, card: Signs, then: GpuState, all_xids: list[log.Xid]) -> tuple[GpuRow, GpuState]:
    """Judge one GPU; return its row of the result, and the state that the next check needs.

    :param then: its state after the last check.
    :param all_xids: its Xids in the log of this boot.
    """
    now, boot = context.now, context.boot
    if then and then["uuid"] and card["uuid"] not in (None, then["uuid"]):
        # Another card is in the same slot, and has no history.
        then = {}
    # A lost card no longer has its UUID and name; the last check has.
    card = card.copy()
    card["uuid"], card["name"] = card["uuid"] or then.get("uuid"), card["name"] or then.get("name")
    absent, bar = card.pop("absent", None), card.pop("bar", None)
    away = windows.absent_in(
        then.get("absent_in", {}), boot, now, absent in (cards.MISSING, cards.NO_DRIVER), history.REMEMBERED_S
    )
    events = windows.events_with(then.get("events", {}), all_xids, boot, now)
    pages, samples = windows.double_bit_pages(card), then.get("pages", [])
    if context.boot_before != boot:
        # A recovery action ends with its boot, and says nothing of the Xids of this boot. Nor do those of the last.
        then = then.copy()
        if then:
            then["recovery_action"], then["recovered_at"], then["xids"] = None, None, []
    whole = history.with_kept(history.from_rows(log.Xid, then.get("xids", []) if boot else []), all_xids)
    recovered = history.recovered_at(then, card, whole, context.read_before)
    lasting, _over = history.split(whole, recovered, context.alive, card.get("processes"))
    open_ones, over = history.split(log.since(whole, context.earliest), recovered, context.alive, card.get("processes"))
    boots = history.boots_with(then, open_ones, boot, now)
    since = history.compare(then, card, context.seconds)
    judged = card.copy()
    judged["since_last_check"] = since
    judged["returned_xids"] = history.returned(boots, boot)
    judged["absence"] = {"what": absent, "boots": len(away), "bar": bar} if absent else None
    judged["repeated_xids"] = windows.repeats(events)
    judged["double_bit_pages_in_a_week"] = windows.pages_in_a_week(samples, pages, now)
    judged["expected_nvlinks"] = links.expected_links(card, context.found.cards)
    judged["uptime_s"] = context.uptime_s
    row: GpuRow = {
        "index": card["index"],
        "uuid": card["uuid"],
        "pci_address": card["pci_address"],
        "name": card["name"],
        **health.judge(judged, open_ones, context.of_host),
        "xids": [xid.as_result() for xid in open_ones],
        "xids_over": over,
        "since_last_check": since,
        # The health of a GPU is public; its processes and their users are not.
        "card": {name: value for name, value in card.items() if name != "processes"},
    }
    state = history.remember(
        card,
        recovered,
        boots,
        {
            # The next check does not expect a GPU in a slot that only the log names.
            "seen": absent != cards.MISSING or bool(card["uuid"]) or then.get("seen", False),
            "absent_in": away,
            "events": events,
            "pages": windows.sampled(samples, pages, now),
            "xids": history.as_rows(lasting),
        },
    )
    return row, state


def _judge_count(gpus: t.Sequence[GpuRow], expected: int | None) -> list[health.Reason]:
    away = {cards.MISSING, cards.NO_DRIVER, "not_shown"}
    count = sum(not away & {row["what"] for row in gpu["reasons"]} for gpu in gpus)
    if not expected or count == expected:
        return []
    verdict = data.REBOOT if count < expected else data.MONITOR
    step = "" if count < expected else "set expected_count to the number of GPUs of the host"
    return [
        health.reason("gpu_count", f"{count} GPUs of {expected} are there", f"{health.GPUD}/gpu-counts", verdict, step)
    ]


def _judge_switches(
    sxids: t.Iterable[sxid_log.Sxid], earliest: float | None, ignored: t.Collection[str]
) -> list[SwitchRow]:
    """Return a row for each NVSwitch with SXids in the log."""
    rows: dict[str, SwitchRow] = {}
    recent = [sxid for sxid in sxids if earliest is None or sxid.time is None or sxid.time >= earliest]
    for (switch, address, code), same in sxid_log.by_switch(recent).items():
        worst = max(same, key=lambda sxid: health.rank(sxid.verdict))
        often = "once" if len(same) == 1 else f"{len(same)} times"
        sxid_reason = health.reason(
            f"sxid_{code}", f"{often}: {worst.text}", sxid_log.GUIDE, worst.verdict, worst.next_step
        )
        sxid_reason = health.ignored(sxid_reason) if sxid_reason.what in ignored else sxid_reason
        row = rows.setdefault(address, {"name": switch, "pci_address": address, "verdict": data.PASS, "reasons": []})
        row["reasons"].append(health.row_of(sxid_reason))
        row["verdict"] = health.gravest([row["verdict"], sxid_reason.verdict])
    return list(rows.values())
