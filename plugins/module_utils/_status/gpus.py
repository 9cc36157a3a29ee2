# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Show the snapshot of the GPUs. A value of the wrong type is unknown, and left out."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._status import model
from ansible_collections.rigwright.workstation.plugins.module_utils._status.model import Row, Section
from ansible_collections.rigwright.workstation.plugins.module_utils._system import gpu_snapshot
from ansible_collections.rigwright.workstation.plugins.module_utils._system.gpu_snapshot import Gpu, Process, Snapshot

TITLE = "GPUs"

MISSING = "no GPU snapshot: role gpu_usage is not set up"
_MIB = 1 << 20
_GPUS, _PROCESSES = 64, 64
_HOT_C = 90


def of_file(path: str, now: float, title: str = TITLE, by_host: bool = False) -> Section:
    """Return the GPUs of the snapshot in a file, or why there are none to show.

    :param by_host: take the host of the snapshot as the title.
    """
    try:
        snapshot = gpu_snapshot.read(path, strict=False)
    except FileNotFoundError:
        return Section(title, (Row("snapshot", (MISSING,), level=model.DIM),))
    except gpu_snapshot.Unusable as error:
        return Section(title, (Row("snapshot", (str(error),), level=model.WARN),))
    return section(snapshot, now, snapshot["host"] or title if by_host else title)


def section(snapshot: Snapshot, now: float, title: str = TITLE) -> Section:
    """Return the GPUs and who uses them."""
    problem, gpus = snapshot["problem"], snapshot["gpus"][:_GPUS]
    rows = [Row("driver", (problem,), level=model.FAIL)] if problem else []
    busy = 0
    for gpu in gpus:
        processes = processes_of(gpu)
        busy += bool(processes)
        rows.append(of_gpu(gpu, processes))
        rows += [of_process(process, now, rank) for rank, process in ranked(processes)]
    if not gpus and not problem:
        rows.append(Row("no GPU", ("the driver reports none",), level=model.WARN))
    if gpus:
        total = len(gpus)
        rows[0] = rows[0]._replace(brief=f"{total - busy} of {total} GPU{'s' if total > 1 else ''} free")
    return Section(title, tuple(rows), snapshot["time"], model.INTERVALS * snapshot["interval_s"])


def processes_of(gpu: Gpu) -> t.Sequence[Process]:
    """Return the processes of a GPU; those with the most memory first."""
    return sorted(gpu["processes"], key=lambda row: -(row["memory_mib"] or 0))[:_PROCESSES]


def ranked(processes: t.Sequence[Process]) -> t.Iterator[tuple[int, Process]]:
    """Yield processes with their rank: on a small screen, the largest ones of a GPU."""
    for position, process in enumerate(processes):
        yield (model.USUAL if position < 2 else model.DETAIL), process


def of_gpu(gpu: Gpu, processes: t.Sequence[Process]) -> Row:
    used, total = gpu["memory_used_mib"], gpu["memory_total_mib"]
    busy, heat = gpu["utilization_percent"], gpu["temperature_c"]
    power, limit = gpu["power_w"], gpu["power_limit_w"]
    users = sorted({row["user"] or "unknown" for row in processes})
    index = gpu["index"]
    name = (gpu["name"] or "").replace("NVIDIA ", "").replace("GeForce ", "")
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


def of_process(process: Process, now: float, rank: int) -> Row:
    memory, share = process["memory_mib"], process["share_percent"]
    started, idle_s = process["started"], process["idle_s"]
    kind, name = process["kind"] or "unknown", process["name"] or ""
    values = [
        f"{model.gib(memory * _MIB)} GiB" if memory is not None else "",
        process["command"] or "",
        f"{kind} {name}".strip(),
        f"idle {model.duration(idle_s)}" if idle_s and idle_s >= 60 else "",
        model.percent(share / 100) if share is not None else "",
        f"since {model.duration(now - started)}" if started and started <= now else "",
    ]
    user = process["user"] or "unknown"
    return Row(f"  {user}", tuple(filter(None, values)), rank=rank)
