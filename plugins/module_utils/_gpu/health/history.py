# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The comparison of a check with the last one. Pure.

A counter alone says little: its errors may be a year old. An Xid stays in the log after its GPU was reset, or its program has ended. And
it leaves the log, which rotates, while its GPU still needs the reset: so the state has every Xid that is not over yet.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import json_text
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.counters import NVLINK5_FIELDS
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import shape, sxid_log
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import verdict as health
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_log as log
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.rows import (
    GpuState,
    KeptMessage,
    Rise,
    Signs,
    State,
    XidRow,
)

Message = t.TypeVar("Message", log.Xid, sxid_log.Sxid)

VERSION = 1
# gpud: after two reboots that did not help (DefaultRebootThreshold), within the three days that it remembers (DefaultRetention).
REBOOTS = 2
REMEMBERED_S = 3 * 24 * 3600

# The paths of the compared counters, by the name of the difference.
_COUNTERS = {
    "pcie_replays": ("counters", "pcie", "replays"),
    "nvlink_replays": ("counters", "nvlink", "replays"),
    "nvlink_recoveries": ("counters", "nvlink", "recoveries"),
    "nvlink_crc_errors": ("counters", "nvlink", "crc_errors"),
    "uncorrected_errors": ("counters", "ecc_errors", "aggregate", "uncorrected"),
    "corrected_errors": ("counters", "ecc_errors", "aggregate", "corrected"),
    "remapped_rows": ("counters", "remapped_rows", "uncorrectable"),
    **{f"nvlink_{name}": ("counters", "nvlink_5", name) for name in NVLINK5_FIELDS},
}
_LIMIT = 8 << 20
# Seconds between the times of one message in the journal and in dmesg.
_SAME_S = 5.0
_SLOWDOWNS = ("hw_thermal_ns", "power_brake_ns")


def parse(text: str) -> State:
    """Parse the state of the last check; empty without one.

    :raises ValueError: it is no state, as when a disk was full while it was written.
    """
    if not text:
        return {}
    state = json_text.parse(text, _LIMIT)
    if not shape.is_state(state) or state.get("version") != VERSION:
        raise ValueError("it is not of this version")
    return t.cast("State", state)


def at_this_clock(state: State, boot: str, now: float, booted: float) -> State:
    """Return a state with its times in the clock of this check. The clock may have been set since, as by NTP after a boot.

    A time in the future is unknown: the state is from another clock, and has no record of the boot.

    :param booted: the time of this boot in the clock of this check.
    """
    if not state:
        return {}
    then = state.get("booted") if boot and state["boot"] == boot else None
    moved = 0.0 if then is None else booted - then

    def moment(time: float | None) -> float | None:
        return None if time is None or time + moved > now else time + moved

    def moments(rows: t.Iterable[KeptMessage]) -> list[KeptMessage]:
        return [{**row, "time": moment(row["time"])} for row in rows]

    gpus: dict[str, GpuState] = {
        key: {**row, "recovered_at": moment(row["recovered_at"]), "xids": moments(row.get("xids", []))}
        for key, row in state["gpus"].items()
    }
    read_at = moment(state.get("read_at", state["time"]))
    sxids = moments(state.get("sxids", []))
    return {**state, "time": state["time"] + moved, "read_at": read_at, "gpus": gpus, "sxids": sxids}


def lasts(message: Message) -> bool:
    """Return whether a message counts until something repairs its device or ends its program."""
    verdict = log.verdict_of(message) if isinstance(message, log.Xid) else message.verdict
    return health.rank(verdict) >= health.rank(data.RESTART_APP)


def with_kept(kept: t.Iterable[Message], messages: t.Sequence[Message]) -> list[Message]:
    """Return the messages of the log, after those of earlier checks of this boot that it no longer has."""
    return [old for old in kept if not any(_is_same(old, new) for new in messages)] + list(messages)


def _is_same(old: Message, new: Message) -> bool:
    near = old.time is None or new.time is None or abs(old.time - new.time) < _SAME_S
    return near and _without_time(old) == _without_time(new)


def _without_time(message: Message) -> KeptMessage:
    return {name: value for name, value in dataclasses.asdict(message).items() if name not in ("time", "stamped")}


def from_rows(kind: type[Message], rows: t.Iterable[KeptMessage]) -> list[Message]:
    """Return the messages that a state keeps. Keys of later versions are left alone."""
    names = {field.name for field in dataclasses.fields(kind)}
    return [kind(**{name: value for name, value in row.items() if name in names}) for row in rows]


def as_rows(messages: t.Iterable[Message]) -> list[KeptMessage]:
    """Return what the state keeps of messages that count: the last of those that differ in nothing but time and text."""
    last = {
        tuple(value for name, value in _without_time(message).items() if name != "text"): message
        for message in messages
        if lasts(message)
    }
    return [dataclasses.asdict(message) for message in last.values()]


def counters_of(card: Signs) -> dict[str, float | None]:
    """Return the counters that are compared. None is unknown."""
    found = {name: health.at(card, *path) for name, path in _COUNTERS.items()}
    heat, brake = (health.at(card, "counters", "throttled", name) for name in _SLOWDOWNS)
    found["hardware_slowdown_s"] = None if heat is None or brake is None else (heat + brake) / 1e9
    return found


def active_links(card: Signs) -> list[int]:
    """Return the numbers of the active NVLinks."""
    return [row["link"] for row in health.at(card, "nvlink", "links") or [] if row["active"]]


def compare(before: GpuState, card: Signs, seconds: float) -> Rise | None:
    """Return the rise of each counter since the last check; None without one.

    A counter that is lower than before began again with the driver: all of it is new.
    """
    if not before or seconds <= 0:
        return None
    then = before["counters"]
    more: Rise = {"seconds": seconds}
    for name, now in counters_of(card).items():
        earlier = then.get(name)
        more[name] = None if now is None or earlier is None else now - earlier if now >= earlier else now
    # NVML reports the links of a GPU with MIG as down.
    has_links = health.at(card, "nvlink", "links") is not None and not health.at(card, "modes", "mig", "current")
    more["nvlinks_gone"] = sorted(set(before["links"]) - set(active_links(card))) if has_links else None
    return more


def recovered_at(before: GpuState, card: Signs, xids: t.Iterable[log.Xid], read_at: float | None) -> float | None:
    """Return a time before which everything was over when the driver withdrew its recovery action: by an Xid 154, or between two checks.

    :param read_at: when the last check read the recovery action. The reset was later: an Xid between them may be from after it.
    """
    moments = [before.get("recovered_at")]
    if before.get("recovery_action") not in (None, "none") and health.at(card, "counters", "recovery_action") == "none":
        moments.append(read_at)
    moments += [xid.time for xid in xids if xid.action == 0]
    return max((moment for moment in moments if moment is not None), default=None)


def split(
    xids: t.Iterable[log.Xid],
    recovered: float | None,
    alive: t.Collection[int] | None,
    users: t.Collection[t.Any] | None = None,
) -> tuple[list[log.Xid], list[XidRow]]:
    """Split Xids into those that still count, and those that are over, each with the reason.

    :param recovered: the time at which the GPU was healthy again. After a reboot the log is a new one.
    :param alive: ids of all processes of the host; None where they cannot be seen.
    :param users: the processes that use the GPU now; None where it does not report them.
    """
    open_ones: list[log.Xid] = []
    over: list[XidRow] = []
    for xid in xids:
        verdict = log.verdict_of(xid)
        why = ""
        if recovered is not None and xid.time is not None and xid.time <= recovered:
            why = (
                "the driver took back what it had asked for"
                if health.rank(verdict) <= health.rank(data.RESET_GPU)
                else ""
            )
        if verdict == data.RESTART_APP and xid.pid is not None and alive is not None and xid.pid not in alive:
            why = "its process has ended"
        if verdict == data.RESTART_APP and xid.pid is None and alive is not None and users is not None and not users:
            why = "no program uses the GPU any more"
        if why:
            row = xid.as_result()
            row["over"] = why
            over.append(row)
        else:
            open_ones.append(xid)
    return open_ones, over


def boots_with(before: GpuState, xids: t.Iterable[log.Xid], boot: str, now: float) -> dict[str, dict[str, float]]:
    """Return the boots of each Xid that needs a reset or a reboot, with the last time of it."""
    kept = {
        code: {name: time for name, time in boots.items() if now - time <= REMEMBERED_S}
        for code, boots in before.get("boots", {}).items()
    }
    for xid in xids:
        if log.verdict_of(xid) in (data.RESET_GPU, data.REBOOT) and xid.code != log.RECOVERY_ACTION_CHANGED:
            kept.setdefault(str(xid.code), {})[boot] = now
    return {code: boots for code, boots in kept.items() if boots}


def returned(boots: t.Mapping[str, t.Mapping[str, float]], boot: str) -> list[int]:
    """Return the Xids of this boot that two reboots did not end."""
    return sorted(int(code) for code, times in boots.items() if boot in times and len(times) > REBOOTS)


def remember(card: Signs, recovered: float | None, boots: dict[str, dict[str, float]], windows: GpuState) -> GpuState:
    """Return the state of this GPU for the next check.

    :param windows: the counts of _gpu.health.windows, and the Xids.
    """
    return {
        "uuid": card.get("uuid"),
        "name": card.get("name"),
        "counters": counters_of(card),
        "links": active_links(card),
        "recovery_action": health.at(card, "counters", "recovery_action"),
        "recovered_at": recovered,
        "boots": boots,
        **windows,
    }
