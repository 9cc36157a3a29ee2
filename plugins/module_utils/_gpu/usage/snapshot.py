# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The snapshot that displays and `gpu-who` read: format 1, written by the sampler, text of another user for its readers. Pure."""

from __future__ import annotations

import json
import typing as t

FORMAT = 1
HOME = "/run/rigwright-gpu-usage"
PATH = f"{HOME}/snapshot.json"
LIMIT = 1 << 20
# A snapshot is stale after as many intervals.
STALE = 3

Facts = dict[str, t.Any]
_NUMBER = (int, float)
_OPTIONAL = (int, float, type(None))
_FIELDS: dict[str, t.Any] = {
    "time": _NUMBER,
    "interval_s": _NUMBER,
    "host": str,
    "driver": str,
    "problem": str,
    "gpus": list,
}
_GPU_FIELDS: dict[str, t.Any] = {
    "index": int,
    "uuid": str,
    "name": str,
    "memory_total_mib": int,
    "memory_used_mib": int,
    "utilization_percent": _OPTIONAL,
    "temperature_c": _OPTIONAL,
    "power_w": _OPTIONAL,
    "power_limit_w": _OPTIONAL,
    "processes": list,
}
_PROCESS_FIELDS: dict[str, t.Any] = {
    "pid": int,
    "user": str,
    "uid": int,
    "kind": str,
    "name": str,
    "command": str,
    "memory_mib": int,
    "share_percent": _OPTIONAL,
    "started": _NUMBER,
    "idle_s": _NUMBER,
}


def as_text(header: t.Mapping[str, t.Any], gpus: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """Return the file of a snapshot. What would make it larger than its limit is left out, the smallest processes first."""
    most = max((len(gpu["processes"]) for gpu in gpus), default=0)
    while True:
        shown = [{**_only(gpu, _GPU_FIELDS), "processes": _largest(gpu["processes"], most)} for gpu in gpus]
        text = json.dumps({"format": FORMAT, **header, "gpus": shown}, sort_keys=True) + "\n"
        if len(text) < LIMIT or not most:
            return text
        most //= 2


def _largest(processes: t.Sequence[t.Mapping[str, t.Any]], most: int) -> list[Facts]:
    rows = sorted(processes, key=lambda row: -row["memory_mib"])[:most]
    return sorted((_only(row, _PROCESS_FIELDS) for row in rows), key=lambda row: row["pid"])


def _only(row: t.Mapping[str, t.Any], fields: t.Iterable[str]) -> Facts:
    return {name: row[name] for name in fields}


def from_text(text: str) -> Facts:
    """Read a snapshot.

    :raises ValueError: it is damaged or of another format; the text says which.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ValueError(f"the snapshot cannot be read ({error})") from None
    if not isinstance(content, dict):
        raise ValueError("the snapshot is no object")
    if content.get("format") != FORMAT:
        raise ValueError(f"the snapshot has format {content.get('format')!r}, and this program reads {FORMAT}")
    found = _typed(content, _FIELDS, "the snapshot")
    found["gpus"] = [_typed(gpu, _GPU_FIELDS, "a GPU of the snapshot") for gpu in found["gpus"]]
    for gpu in found["gpus"]:
        gpu["processes"] = [_typed(row, _PROCESS_FIELDS, "a process of the snapshot") for row in gpu["processes"]]
    return found


def _typed(row: t.Any, fields: t.Mapping[str, t.Any], subject: str) -> Facts:
    if not isinstance(row, dict):
        raise ValueError(f"{subject} is no object")
    wrong = [
        name
        for name, kinds in fields.items()
        if name not in row or not isinstance(row[name], kinds) or isinstance(row[name], bool)
    ]
    if wrong:
        raise ValueError(f"{subject} has no {', no '.join(wrong)} of the right type")
    return {name: row[name] for name in fields}


def age_s(snapshot: t.Mapping[str, t.Any], now: float) -> float:
    """Return the age of a snapshot. One of the future, after the clock was set back, has none."""
    return max(0.0, now - float(snapshot["time"]))


def is_stale(snapshot: t.Mapping[str, t.Any], now: float) -> bool:
    """Return whether a snapshot no longer shows what is."""
    return age_s(snapshot, now) > STALE * float(snapshot["interval_s"])
