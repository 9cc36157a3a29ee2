"""Measure the cost of sharing this machine's GPU.

    python3 -m harness.bench.gpu_sharing --part 0 --seconds 120 --out part0.json   one window in each mode, as a first test
    python3 -m harness.bench.gpu_sharing --part 1 --seconds 470 --out part1.json   loads alone and pairs of the same load
    python3 -m harness.bench.gpu_sharing --part 2 --seconds 470 --out part2.json   limits of memory, faults, pairs of different loads
    python3 -m harness.bench.gpu_sharing --table part1.json part2.json             the results as Markdown
    python3 -m harness.bench.gpu_sharing --part 1 --cpu --seconds 60 --out x.json  try the bench without a GPU

Needs PyTorch with CUDA, one idle GPU in compute mode Default without MIG, and for MPS NVIDIA's nvidia-cuda-mps-control. No setting of the
GPU is changed. The daemons are private and are quit at the end; the file is written after every window, so a run that is cut short
leaves what it has.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from harness.bench import results
from harness.bench.gpu_sharing import cuda, drive, faults, figures

Record = dict[str, Any]
Case = drive.Case

SERVERS = ("two servers",)
# In the order of importance: the last cases are left out when time is short.
PARTS: dict[str, tuple[Case, ...]] = {
    "0": (Case(("S",), ("time-sliced",), 1), Case(("S", "S"), (*drive.THREE, *SERVERS), 1)),
    "1": (
        *(Case((load,), ("time-sliced",), 2) for load in ("R32", "S", "G", "R256")),
        Case(("R32", "R32"), (*drive.THREE, *SERVERS)),
        Case(("S", "S")),
        Case(("G", "G")),
        Case(("R256", "R256")),
        Case(("S",) * 4),
        *(Case((load,), ("time-sliced",), 1) for load in ("R32", "S", "G", "R256")),
        Case(("R32",), ("mps", "mps 50/50"), 1),
        Case(("R32",) * 4, ("time-sliced", "mps"), 2),
    ),
    "2": (
        *(Case((load,), ("time-sliced",), 2) for load in ("R256", "B", "G", "S", "Q")),
        Case(("R256", "B")),
        Case(("G", "S")),
        Case(("G", "Q"), (*drive.THREE, "mps 70/30", "mps priority")),
        *(Case((load,), ("time-sliced",), 1) for load in ("R256", "B", "G", "S", "Q")),
        *(Case((load,), ("mps 50/50",), 1) for load in ("G", "S", "Q")),
        Case(("L",), ("time-sliced",), 2),
        Case(("L", "L")),
    ),
}
# Short parts, which run after the workers have ended: their faults could reach workers. Time for them is reserved.
SHORT = {"0": ("partitions",), "2": ("memory", "faults", "partitions")}
SHORT_S = {"memory": 16.0, "partitions": 4.0, "faults": faults.CASE_S * len(faults.CASES)}
START_S = 25.0
CLOSE_S = 10.0


class Report:
    """The file of results, which is written again after each result."""

    def __init__(self, path: Path, meta: Record) -> None:
        self.path = path
        self.found: Record = {"meta": meta, "visits": [], "memory": [], "faults": [], "partitions": None, "log": []}
        self.begun = time.monotonic()

    def write(self) -> None:
        """Replace the file."""
        self.found["meta"]["seconds"] = round(time.monotonic() - self.begun, 1)
        results.write(self.path, self.found)

    def add(self, kind: str, record: Record) -> None:
        """Add a result, and print it."""
        self.found[kind].append(record)
        self.write()
        self.show(self.line(kind, record))

    def log(self, message: str) -> None:
        """Add a message to the log, and print it."""
        self.found["log"].append(message)
        self.show(message)

    def show(self, message: str) -> None:
        """Print a message with the time since the start."""
        print(f"{time.monotonic() - self.begun:6.1f} {message}", flush=True)

    @staticmethod
    def line(kind: str, record: Record) -> str:
        """Return a result as one line."""
        if kind == "visits":
            rates = " ".join(f"{worker['load']}={worker['rate'] or 0:.2f}/s" for worker in record["workers"])
            return f"{record['case']} | {record['mode']} | {rates} {record.get('failed', '')}"
        short = {
            key: value for key, value in record.items() if key in ("taken_gib", "error", "failed", "victim", "offender")
        }
        return f"{kind}: {record['case']} {record.get('fault', '')} {json.dumps(short)[:400]}"


def estimate(part: str) -> list[tuple[str, float]]:
    """Return the steps of a part with their seconds."""
    rows = [("start of the workers", START_S)]
    rows += [
        (f"{case.name}: {', '.join(case.modes)}, {case.repeats} windows each", case.seconds()) for case in PARTS[part]
    ]
    rows += [(name, SHORT_S[name]) for name in SHORT.get(part, ())]
    return [*rows, ("close", CLOSE_S)]


def measure(wanted: argparse.Namespace) -> int:
    """Measure a part, and write the file."""
    begun = time.monotonic()
    deadline = begun + wanted.seconds - CLOSE_S
    report = Report(wanted.out, {})
    kept = 0.0 if wanted.cpu else sum(SHORT_S[name] for name in SHORT.get(wanted.part, ()))
    bench = drive.Bench(deadline - kept, lambda record: report.add("visits", record), report.log, gpu=not wanted.cpu)
    report.found["meta"] = describe(wanted, bench)
    report.write()

    def stop(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, stop)
    short = faults.Faults(bench.empty, deadline, report.add)
    try:
        if not wanted.only:
            bench.start(PARTS[wanted.part])
            report.found["meta"]["multiprocessors"] = bench.full
            report.found["meta"]["clients"] = bench.attached()
            report.log(f"workers are ready, {bench.remaining_s():.0f} s remain for them")
            bench.run(PARTS[wanted.part])
        if not wanted.cpu:
            bench.end_workers()
            run_short_parts(wanted, short, report, bench)
    finally:
        short.close()
        bench.close()
        report.found["summary"] = figures.summarise(report.found["visits"])
        report.write()
    print(figures.table(report.found["summary"]))
    return 0


def run_short_parts(wanted: argparse.Namespace, short: faults.Faults, report: Report, bench: drive.Bench) -> None:
    """Run the short parts after the loads."""
    for name in [wanted.only] if wanted.only else SHORT.get(wanted.part, ()):
        if name == "memory":
            short.limit_memory()
        elif name == "faults":
            short.contain()
        else:
            report.found["partitions"] = short.probe_partitions(bench.card.get("uuid") or "")
            report.log(f"partitions: {json.dumps(report.found['partitions'])[:600]}")
            report.write()


def describe(wanted: argparse.Namespace, bench: drive.Bench) -> Record:
    """Return the facts of the machine and of the run."""
    return {
        "part": wanted.part,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "card": bench.card,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "window_s": drive.WINDOW_S,
        "gpu": not wanted.cpu,
        "attribute": cuda.MPS_ENABLED,
    }


def show(paths: list[Path]) -> int:
    """Print the tables of files."""
    for path in paths:
        found = json.loads(path.read_text())
        print(f"\n{path.name}: {json.dumps(found['meta'].get('card'))}\n")
        print(figures.table(figures.summarise(found["visits"])))
    return 0


def main(arguments: list[str]) -> int:
    """Run the command line."""
    description, _separator, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        "harness.bench.gpu_sharing",
        description=description,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--part", choices=sorted(PARTS), default="1", help="which cases (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=470, help="time limit in all (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, default=Path("gpu_sharing.json"), help="file for the results (default: %(default)s)"
    )
    parser.add_argument(
        "--only", choices=["memory", "partitions", "faults"], help="one of the short parts, and no loads"
    )
    parser.add_argument("--cpu", action="store_true", help="no GPU: every load is a little arithmetic, no daemons")
    parser.add_argument("--dry-run", action="store_true", help="list the cases and the seconds that they take, roughly")
    parser.add_argument("--table", nargs="+", type=Path, metavar="FILE", help="print the results as Markdown")
    wanted = parser.parse_args(arguments)
    if wanted.table:
        return show(wanted.table)
    if wanted.dry_run:
        rows = estimate(wanted.part)
        for name, seconds in rows:
            print(f"{seconds:6.0f} s  {name}")
        print(f"{sum(seconds for _name, seconds in rows):6.0f} s  in all")
        return 0
    return measure(wanted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
