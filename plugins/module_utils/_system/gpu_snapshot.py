# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The snapshot of the GPUs that the sampler of gpu_usage writes: format 1. Another user writes it, so readers trust nothing in it.

`gpu-who` and the sampler refuse a snapshot with a wrong value (strict). A display shows the rest of it, and the value is unknown.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import json_text
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import UnsafePath, read_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import clip, shown

FORMAT = 1
HOME = "/run/rigwright-gpu-usage"
PATH = f"{HOME}/snapshot.json"
LIMIT = 1 << 20
# A snapshot is stale after as many intervals.
STALE = 3
_TEXT = 200
_DEFAULT_INTERVAL_S, _LONGEST_INTERVAL_S = 15, 3600


class Process(t.TypedDict):
    """A process that uses a GPU. A value of another type is None for a display."""

    pid: int | None
    user: str | None
    uid: int | None
    kind: str | None
    name: str | None
    command: str | None
    memory_mib: int | None
    share_percent: float | None
    started: float | None
    idle_s: float | None


class Gpu(t.TypedDict):
    """A GPU and the processes that use it; None likewise."""

    index: int | None
    uuid: str | None
    name: str | None
    memory_total_mib: int | None
    memory_used_mib: int | None
    utilization_percent: float | None
    temperature_c: float | None
    power_w: float | None
    power_limit_w: float | None
    processes: list[Process]


class Snapshot(t.TypedDict):
    """A snapshot; time, interval and GPUs are always there."""

    time: float
    interval_s: float
    host: str | None
    driver: str | None
    problem: str | None
    gpus: list[Gpu]


class Unusable(ValueError):
    """The snapshot cannot be used. The text says why."""


class _Kind(t.NamedTuple):
    """The type of a value: `int` for a whole number, `float` for any. *least* is its least value, *optional* allows null."""

    type: type
    least: float = 0
    optional: bool = False

    def read(self, value: t.Any) -> t.Any:
        """Return a value, and None for one of another type."""
        if self.type is str:
            return clip(shown(value), _TEXT) if isinstance(value, str) else None
        if self.type is list:
            return value if isinstance(value, list) else None
        is_number = json_text.number(value, self.least) is not None and (self.type is float or isinstance(value, int))
        return value if is_number else None


_LIST, _STR, _WHOLE, _NUMBER = _Kind(list), _Kind(str), _Kind(int), _Kind(float)
_OPTIONAL = _Kind(float, optional=True)
_FIELDS = {
    "time": _NUMBER,
    "interval_s": _Kind(float, least=1),
    "host": _STR,
    "driver": _STR,
    "problem": _STR,
    "gpus": _LIST,
}
_GPU_FIELDS = {
    "index": _WHOLE,
    "uuid": _STR,
    "name": _STR,
    "memory_total_mib": _WHOLE,
    "memory_used_mib": _WHOLE,
    "utilization_percent": _OPTIONAL,
    "temperature_c": _Kind(float, least=-300, optional=True),
    "power_w": _OPTIONAL,
    "power_limit_w": _OPTIONAL,
    "processes": _LIST,
}
_PROCESS_FIELDS = {
    "pid": _WHOLE,
    "user": _STR,
    # -1 for a process of another namespace.
    "uid": _Kind(int, least=-1),
    "kind": _STR,
    "name": _STR,
    "command": _STR,
    "memory_mib": _WHOLE,
    "share_percent": _OPTIONAL,
    "started": _NUMBER,
    "idle_s": _NUMBER,
}


def as_text(header: JsonObject, gpus: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """Return the file of a snapshot. What would make it larger than its limit is left out, the smallest processes first."""
    most = max((len(gpu["processes"]) for gpu in gpus), default=0)
    while True:
        shown = [{**_only(gpu, _GPU_FIELDS), "processes": _largest(gpu["processes"], most)} for gpu in gpus]
        text = json.dumps({"format": FORMAT, **header, "gpus": shown}, sort_keys=True) + "\n"
        if len(text) < LIMIT or not most:
            return text
        most //= 2


def _largest(processes: t.Sequence[JsonObject], most: int) -> list[JsonObject]:
    rows = sorted(processes, key=lambda row: -row["memory_mib"])[:most]
    return sorted((_only(row, _PROCESS_FIELDS) for row in rows), key=lambda row: row["pid"])


def _only(row: t.Mapping[str, t.Any], fields: t.Iterable[str]) -> JsonObject:
    return {name: row[name] for name in fields}


def read(path: str, strict: bool = True) -> Snapshot:
    """Read the file of a snapshot.

    :raises FileNotFoundError: there is none.
    :raises Unusable: it cannot be read, or as `parse` says.
    """
    try:
        return parse(read_file(path, None, LIMIT), strict)
    except FileNotFoundError:
        raise
    except UnsafePath as error:
        raise Unusable(f"the GPU snapshot {error.strerror}: it was left unread") from None
    except OSError as error:
        raise Unusable(f"the GPU snapshot cannot be read: {error.strerror}") from None


def parse(content: bytes | str, strict: bool = True) -> Snapshot:
    """Return a snapshot with the fields of its format.

    :param strict: refuse a value of the wrong type; otherwise it is None, and a row that is no object is left out.
    :raises Unusable: it is damaged or of another format, or has neither time nor GPUs.
    """
    try:
        found = json_text.parse(content, LIMIT)
    except ValueError as error:
        raise Unusable(f"the GPU snapshot is no JSON: half written, or of another program ({error})") from None
    if not isinstance(found, dict):
        raise Unusable("the GPU snapshot is no object")
    if found.get("format") != FORMAT or isinstance(found["format"], bool):
        raise Unusable(
            f"the GPU snapshot has format {clip(ascii(found.get('format')), 20)}, and this program reads {FORMAT}:"
            " apply gpu_usage and status again"
        )
    snapshot = _typed(found, _FIELDS, "the GPU snapshot", strict)
    if snapshot["time"] is None or snapshot["gpus"] is None:
        raise Unusable("the GPU snapshot has no time, or no list of GPUs")
    snapshot["interval_s"] = min(snapshot["interval_s"] or _DEFAULT_INTERVAL_S, _LONGEST_INTERVAL_S)
    snapshot["gpus"] = _rows(snapshot["gpus"], _GPU_FIELDS, "a GPU", strict)
    for gpu in snapshot["gpus"]:
        gpu["processes"] = _rows(gpu["processes"] or [], _PROCESS_FIELDS, "a process", strict)
    return t.cast("Snapshot", snapshot)


def _rows(rows: t.Iterable[t.Any], fields: t.Mapping[str, _Kind], subject: str, strict: bool) -> list[JsonObject]:
    return [
        _typed(row, fields, f"{subject} of the GPU snapshot", strict) for row in rows if strict or isinstance(row, dict)
    ]


def _typed(row: t.Any, fields: t.Mapping[str, _Kind], subject: str, strict: bool) -> JsonObject:
    if not isinstance(row, dict):
        raise Unusable(f"{subject} is no object")
    found = {name: kind.read(row.get(name)) for name, kind in fields.items()}
    wrong = [
        name
        for name, kind in fields.items()
        if found[name] is None and not (kind.optional and name in row and row[name] is None)
    ]
    if strict and wrong:
        raise Unusable(f"{subject} has no {', no '.join(wrong)} of the right type")
    return found


def is_stale(snapshot: t.Mapping[str, t.Any], now: float) -> bool:
    """Return whether a snapshot no longer shows what is. One of the future is as old as nobody knows: the clock was set back."""
    return bool(abs(now - snapshot["time"]) > STALE * snapshot["interval_s"])
