# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program `gpu-who`: who uses the GPUs now, and who used them. For everybody; it never asks the driver."""

from __future__ import annotations

import argparse
import calendar
import csv
import io
import json
import os
import re
import sys
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import days, idle, sums
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.sample import Snapshot
from ansible_collections.rigwright.workstation.plugins.module_utils._system import gpu_snapshot

NOW = "now"
PERIODS = {"day": 1, "week": 7, "month": 30}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_KWH = 3.6e6
_HOUR = 3600.0
UNKNOWN = "(unknown)"

NOW_FIELDS = ("gpu", "user", "kind", "name", "command", "pid", "memory_mib", "share_percent", "idle_s", "started")
SUM_FIELDS = ("user", "kind", "gpu_hours", "busy_gpu_hours", "gib_hours", "kwh", "unknown_gpu_hours")


class Row(t.TypedDict):
    """The sums of a user and kind in a period."""

    user: str
    kind: str
    gpu_hours: float
    busy_gpu_hours: float
    gib_hours: float
    kwh: float
    unknown_gpu_hours: float


class Totals(t.TypedDict):
    """The sums of all GPUs in a period."""

    days: int
    observed_gpu_hours: float
    kwh: float
    idle_kwh: float
    unknown_kwh: float


def arguments_of(arguments: t.Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="gpu-who",
        description="Show who uses the GPUs of this machine, or who used them. It reads what the sampler"
        " (rigwright-gpu-usage.service) has written, and never asks the driver.",
        epilog="Days are those of UTC. GPU hours: a user holds memory of a GPU; busy: their kernels run on it."
        " kWh: the energy of a GPU, shared by who computed. unknown: hours in which the GPU did not report who computed."
        " A user that nobody can name is (unknown).",
    )
    parser.add_argument("period", nargs="?", default=NOW, choices=[NOW, *PERIODS], help="default: now")
    parser.add_argument("--until", metavar="YYYY-MM-DD", help="the last day of the period; default: today")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--csv", action="store_true", help="print comma-separated values")
    found = parser.parse_args(arguments)
    if found.until and (found.period == NOW or not _DAY.fullmatch(found.until)):
        parser.error("--until takes a day such as 2026-11-25, with day, week or month")
    return found


def days_of(period: str, last: str) -> list[str]:
    """Return the days of a period, of which one is the last.

    :raises ValueError: the calendar has no such day.
    """
    noon = calendar.timegm(time.strptime(last, "%Y-%m-%d")) + sums.DAY_S / 2
    return [sums.day_of(noon - sums.DAY_S * back) for back in reversed(range(PERIODS[period]))]


def summed(tree: Tree, names: t.Sequence[str]) -> tuple[list[Row], Totals, list[str]]:
    """Return a row for each user and kind, the totals of all GPUs, and messages about days that cannot be read."""
    rows: dict[tuple[str, str], sums.Use] = {}
    number, total, problems = 0, sums.Total(""), []
    for name in names:
        try:
            day = days.read_day(tree, name)
        except (ValueError, OSError) as error:
            problems.append(f"{days.path_of(name)} {error}: its day is left out")
            continue
        number += bool(day.rows or day.gpus)
        for gpu in day.gpus.values():
            total.observed_s += gpu.observed_s
            total.joules += gpu.joules
            total.unknown_joules += gpu.unknown_joules
        for (user, kind, _gpu), use in day.rows.items():
            rows.setdefault((user, kind), sums.Use()).add(use)
    found = [_row(user, kind, use) for (user, kind), use in rows.items()]
    found.sort(key=lambda row: (-row["gpu_hours"], row["user"], row["kind"]))
    explained = sum(use.joules for use in rows.values()) + total.unknown_joules
    totals: Totals = {
        "days": number,
        "observed_gpu_hours": round(total.observed_s / _HOUR, 4),
        "kwh": round(total.joules / _KWH, 4),
        "idle_kwh": round(max(0.0, total.joules - explained) / _KWH, 4),
        "unknown_kwh": round(total.unknown_joules / _KWH, 4),
    }
    return found, totals, problems


def _row(user: str, kind: str, use: sums.Use) -> Row:
    return {
        "user": user,
        "kind": kind,
        "gpu_hours": round(use.held_s / _HOUR, 4),
        "busy_gpu_hours": round(use.busy_s / _HOUR, 4),
        "gib_hours": round(use.gib_s / _HOUR, 4),
        "kwh": round(use.joules / _KWH, 4),
        "unknown_gpu_hours": round(use.unknown_s / _HOUR, 4),
    }


def processes_of(found: Snapshot) -> list[dict[str, object]]:
    """Return a row for each process of a snapshot."""
    return [{"gpu": gpu["index"], **row} for gpu in found["gpus"] for row in gpu["processes"]]


def now_text(found: Snapshot, now: float) -> str:
    """Return what is used now, as text."""
    lines = []
    if gpu_snapshot.is_stale(found, now):
        age = now - found["time"]
        since = f"the sampler has written nothing for {idle.duration(age)}" if age > 0 else "its time is in the future"
        lines.append(f"STALE: {since}. `systemctl status rigwright-gpu-usage` has the reason.")
    if found["problem"]:
        lines.append(f"PROBLEM: {found['problem']}")
    for gpu in found["gpus"]:
        busy = "" if gpu["utilization_percent"] is None else f"  {gpu['utilization_percent']} % busy"
        used, total = gpu["memory_used_mib"] / 1024, gpu["memory_total_mib"] / 1024
        lines.append(f"GPU {gpu['index']}  {gpu['name']}  {used:.1f} of {total:.1f} GiB{busy}")
        rows = [
            [
                row["user"] or UNKNOWN,
                " ".join(filter(None, [row["kind"], row["name"]])),
                row["command"],
                str(row["pid"]),
                f"{row['memory_mib'] / 1024:.1f} GiB",
                "" if row["share_percent"] is None else f"{row['share_percent']} %",
                f"idle {idle.duration(row['idle_s'])}" if row["idle_s"] >= 60 else "",
            ]
            for row in gpu["processes"]
        ]
        lines += [f"  {line}" for line in table(rows, right=(3, 4, 5))] or ["  free"]
    return "\n".join(lines or ["no GPU"]) + "\n"


def sums_text(rows: t.Sequence[Row], totals: Totals, names: t.Sequence[str]) -> str:
    """Return the sums of a period as text."""
    heads = ["user", "kind", "GPU hours", "busy", "GiB hours", "kWh"]
    unknown = any(row["unknown_gpu_hours"] for row in rows)
    shown = [
        [
            row["user"] or UNKNOWN,
            row["kind"],
            *(f"{hours:.1f}" for hours in (row["gpu_hours"], row["busy_gpu_hours"], row["gib_hours"])),
            f"{row['kwh']:.2f}",
            *([f"{row['unknown_gpu_hours']:.1f}"] if unknown else []),
        ]
        for row in rows
    ]
    period = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    lines = [f"{period} (UTC), {totals['observed_gpu_hours']:.1f} GPU hours observed on {totals['days']} days"]
    heads += ["unknown"] if unknown else []
    lines += table([heads, *shown], right=(2, 3, 4, 5, 6)) if rows else ["nobody used a GPU"]
    energy = f"All GPUs: {totals['kwh']:.2f} kWh, of which {totals['idle_kwh']:.2f} while nobody computed"
    if unknown:
        energy += f", and {totals['unknown_kwh']:.2f} while the GPU did not report who computed (MIG, MPS)"
    return "\n".join([*lines, energy]) + "\n"


def table(rows: t.Sequence[t.Sequence[str]], right: t.Collection[int] = ()) -> list[str]:
    """Return rows in columns."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]


def csv_text(fields: t.Sequence[str], rows: t.Iterable[t.Mapping[str, object]]) -> str:
    """Return rows as comma-separated values. A text that a spreadsheet would take for a formula begins with an apostrophe."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fields, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(row[name]) for name in fields} for row in rows)
    return buffer.getvalue()


def _cell(value: t.Any) -> t.Any:
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def show_now(tree: Tree, chosen: argparse.Namespace, now: float) -> str:
    """Return what is used now, in the chosen form.

    :raises ValueError: the snapshot is damaged, or of another format.
    :raises OSError: there is none.
    """
    # Read strictly: each value has the type of its field.
    found = t.cast("Snapshot", gpu_snapshot.read(tree.at(gpu_snapshot.PATH)))
    if chosen.json:
        return json.dumps({**found, "stale": gpu_snapshot.is_stale(found, now)}, indent=1, sort_keys=True) + "\n"
    return csv_text(NOW_FIELDS, processes_of(found)) if chosen.csv else now_text(found, now)


def show_sums(tree: Tree, chosen: argparse.Namespace, now: float) -> tuple[str, list[str]]:
    """Return the sums of a period in the chosen form, and messages."""
    names = days_of(chosen.period, chosen.until or sums.day_of(now))
    rows, totals, problems = summed(tree, names)
    if chosen.json:
        content = {"from": names[0], "to": names[-1], "rows": rows, **totals, "problems": problems}
        return json.dumps(content, indent=1, sort_keys=True) + "\n", problems
    return (csv_text(SUM_FIELDS, rows) if chosen.csv else sums_text(rows, totals, names)), problems


def main(tree: Tree | None = None, arguments: t.Sequence[str] | None = None) -> int:
    """Print who uses the GPUs. The status is 1 where something could not be read, and 2 for a wrong command line."""
    tree = tree or Tree()
    chosen = arguments_of(sys.argv[1:] if arguments is None else arguments)
    problems: list[str] = []
    try:
        if chosen.period == NOW:
            text = show_now(tree, chosen, time.time())
        else:
            text, problems = show_sums(tree, chosen, time.time())
        # A name may have characters that the locale lacks.
        t.cast("io.TextIOWrapper", sys.stdout).reconfigure(errors="replace")
        sys.stdout.write(text)
        sys.stdout.flush()
    except FileNotFoundError:
        problems = ["the sampler has written no snapshot: `systemctl status rigwright-gpu-usage` has the reason"]
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError) as error:
        problems = [f"{error}"]
    for problem in problems:
        sys.stderr.write(f"gpu-who: {problem}\n")
    return 1 if problems else 0
