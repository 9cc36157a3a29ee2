# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the snapshot of the GPUs that the role gpu_usage writes: a file of another user, so nothing in it is trusted.

Format 1, `/run/rigwright-gpu-usage/snapshot.json`. Another format is refused with a message; unknown fields are left out, and a value
of the wrong type is unknown.
"""

from __future__ import annotations

import json
import math
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import UnsafePath, read_file
from ansible_collections.rigwright.workstation.plugins.module_utils._status import model
from ansible_collections.rigwright.workstation.plugins.module_utils._status.model import Row, Section

PATH = "/run/rigwright-gpu-usage/snapshot.json"
FORMAT = 1
LIMIT = 1 << 20
TITLE = "GPUs"

MISSING = "no GPU snapshot: role gpu_usage is not set up"
_MIB = 1 << 20
_GPUS, _PROCESSES, _TEXT = 64, 64, 200
_DEFAULT_INTERVAL_S = 15.0
_HOT_C = 90


class Unusable(Exception):
    """The message says why a snapshot cannot be shown."""


class Snapshot(t.NamedTuple):
    """A snapshot of one host."""

    host: str
    time: float
    interval_s: float
    problem: str
    gpus: tuple[t.Mapping[str, t.Any], ...]


def read(path: str) -> Snapshot:
    """Read a snapshot.

    :raises Unusable: it is missing, half written, of another format, or no regular file.
    """
    try:
        return parse(read_file(path, None, LIMIT))
    except FileNotFoundError:
        raise Unusable(MISSING) from None
    except UnsafePath as error:
        raise Unusable(f"the GPU snapshot {error.strerror}: it was left unread") from None
    except OSError as error:
        raise Unusable(f"the GPU snapshot cannot be read: {error.strerror}") from None


def parse(content: bytes) -> Snapshot:
    """Parse the content of a snapshot.

    :raises Unusable: it is no JSON, or of another format.
    """
    try:
        found = json.loads(content.decode("utf-8", errors="replace"))
    except (ValueError, RecursionError):
        raise Unusable("the GPU snapshot is no JSON: half written, or of another program") from None
    if not isinstance(found, dict):
        raise Unusable("the GPU snapshot is no JSON object")
    if found.get("format") != FORMAT or isinstance(found["format"], bool):
        shown = clip(str(found.get("format", "none")), 20)
        raise Unusable(
            f"the GPU snapshot has format {shown}, and this program reads {FORMAT}: apply gpu_usage and status again"
        )
    time, gpus = number(found.get("time")), found.get("gpus")
    if time is None or not isinstance(gpus, list):
        raise Unusable("the GPU snapshot has no time, or no list of GPUs")
    interval_s = number(found.get("interval_s"))
    return Snapshot(
        text(found.get("host")),
        time,
        min(interval_s, 3600.0) if interval_s and interval_s > 0 else _DEFAULT_INTERVAL_S,
        text(found.get("problem")),
        tuple(gpu for gpu in gpus[:_GPUS] if isinstance(gpu, dict)),
    )


def number(value: t.Any) -> float | None:
    """Return a finite number, and None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def text(value: t.Any) -> str:
    return clip(value, _TEXT) if isinstance(value, str) else ""


def clip(value: str, length: int) -> str:
    return value if len(value) <= length else value[: length - 1] + "~"


def section(snapshot: Snapshot, now: float, title: str = TITLE) -> Section:
    """Return the GPUs and who uses them."""
    rows = [Row("driver", (snapshot.problem,), level=model.FAIL)] if snapshot.problem else []
    busy = 0
    for gpu in snapshot.gpus:
        processes = processes_of(gpu)
        busy += bool(processes)
        rows.append(of_gpu(gpu, processes))
        rows += [of_process(process, now, rank) for rank, process in ranked(processes)]
    if not snapshot.gpus and not snapshot.problem:
        rows.append(Row("no GPU", ("the driver reports none",), level=model.WARN))
    if snapshot.gpus:
        total = len(snapshot.gpus)
        rows[0] = rows[0]._replace(brief=f"{total - busy} of {total} GPU{'s' if total > 1 else ''} free")
    return Section(title, tuple(rows), snapshot.time, model.INTERVALS * snapshot.interval_s)


def unusable(error: Unusable, title: str = TITLE) -> Section:
    is_missing = str(error) == MISSING
    return Section(title, (Row("snapshot", (str(error),), level=model.DIM if is_missing else model.WARN),))


def processes_of(gpu: t.Mapping[str, t.Any]) -> t.Sequence[t.Mapping[str, t.Any]]:
    """Return the processes of a GPU; those with the most memory first."""
    found = gpu.get("processes")
    rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
    return sorted(rows, key=lambda row: -(number(row.get("memory_mib")) or 0))[:_PROCESSES]


def ranked(processes: t.Sequence[t.Mapping[str, t.Any]]) -> t.Iterator[tuple[int, t.Mapping[str, t.Any]]]:
    """Yield processes with their rank: on a small screen, the largest ones of a GPU."""
    for position, process in enumerate(processes):
        yield (model.USUAL if position < 2 else model.DETAIL), process


def of_gpu(gpu: t.Mapping[str, t.Any], processes: t.Sequence[t.Mapping[str, t.Any]]) -> Row:
    used, total = number(gpu.get("memory_used_mib")), number(gpu.get("memory_total_mib"))
    busy, heat = number(gpu.get("utilization_percent")), number(gpu.get("temperature_c"))
    power, limit = number(gpu.get("power_w")), number(gpu.get("power_limit_w"))
    users = sorted({text(row.get("user")) or "unknown" for row in processes})
    index = number(gpu.get("index"))
    name = text(gpu.get("name")).replace("NVIDIA ", "").replace("GeForce ", "")
    values = [
        model.percent(busy / 100) if busy is not None else "",
        f"{model.gib((used or 0) * _MIB)}/{model.gib(total * _MIB)} GiB" if total else "",
        ",".join(users) or "free",
        f"{heat:.0f} C" if heat is not None else "",
        f"{power:.0f}{f'/{limit:.0f}' if limit else ''} W" if power is not None else "",
    ]
    return Row(
        f"{'?' if index is None else f'{index:.0f}'} {name}".strip(),
        tuple(filter(None, values)),
        share=min(max((used or 0) / total, 0.0), 1.0) if total and total > 0 else None,
        level=model.WARN if heat is not None and heat >= _HOT_C else model.OK,
    )


def of_process(process: t.Mapping[str, t.Any], now: float, rank: int) -> Row:
    memory, share = number(process.get("memory_mib")), number(process.get("share_percent"))
    started, idle_s = number(process.get("started")), number(process.get("idle_s"))
    kind, name = text(process.get("kind")) or "unknown", text(process.get("name"))
    values = [
        f"{model.gib(memory * _MIB)} GiB" if memory is not None else "",
        text(process.get("command")),
        f"{kind} {name}".strip(),
        f"idle {model.duration(idle_s)}" if idle_s and idle_s >= 60 else "",
        model.percent(share / 100) if share is not None else "",
        f"since {model.duration(now - started)}" if started and started <= now else "",
    ]
    user = text(process.get("user")) or "unknown"
    return Row(f"  {user}", tuple(filter(None, values)), rank=rank)
