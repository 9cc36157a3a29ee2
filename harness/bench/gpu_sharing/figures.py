"""Figures and tables from stamps and rates. Pure."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Stamps = Sequence[Sequence[float]]
Record = dict[str, Any]

# The allowed difference of the multiprocessors from the requested share: MPS assigns them in pairs and rounds.
MULTIPROCESSOR_SLACK = 4


def rate_between(stamps: Stamps, first: float, last: float) -> float | None:
    """Return the steps a second between two moments; None where the stamps do not cover both.

    Steps outside do not count, so neither the start nor the end of a load is included.
    """
    if len(stamps) < 2 or stamps[0][0] > first or stamps[-1][0] < last:
        return None
    return (steps_at(stamps, last) - steps_at(stamps, first)) / (last - first)


def steps_at(stamps: Stamps, moment: float) -> float:
    """Return the steps done at a moment, interpolated between two stamps."""
    for (before, done), (after, more) in itertools.pairwise(stamps):
        if before <= moment <= after and after > before:
            return done + (more - done) * (moment - before) / (after - before)
    return stamps[-1][1]


def percentile(values: Iterable[float], share: float) -> float | None:
    """Return the smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def disproof(proof: Mapping[str, Any], mps: bool, share: float, full: int | None) -> str:
    """Return why a worker is not in the mode of its case; empty where it is.

    :param full: the multiprocessors of the card.
    """
    if full is None:
        return "the card's multiprocessors are not known"
    if proof.get("mps") is None:
        return "the driver does not report whether MPS is used (device attribute 133)"
    if bool(proof["mps"]) != mps:
        return "runs outside MPS" if mps else "runs under MPS"
    visible, wanted = proof.get("multiprocessors"), share * full
    if visible is None or abs(visible - wanted) > (MULTIPROCESSOR_SLACK if share < 1 else 0):
        return f"sees {visible} multiprocessors, not {wanted:.0f}"
    return ""


def alone(visits: Iterable[Record]) -> dict[str, float]:
    """Return the rate of each load alone, without MPS: the median of its windows."""
    rates: dict[str, list[float]] = {}
    for visit in visits:
        if visit["case"].startswith("alone") and visit["mode"] == "time-sliced" and not visit.get("failed"):
            rates.setdefault(visit["workers"][0]["load"], []).append(visit["workers"][0]["rate"])
    return {load: statistics.median(found) for load, found in rates.items()}


def judge(visit: Record, solo: Mapping[str, float], solo_power: Mapping[str, float | None]) -> Record:
    """Return the figures of one window: slowdowns, throughput (STP), ANTT, fairness, time and energy against a queue."""
    slowdowns = [
        solo[worker["load"]] / worker["rate"] if worker["load"] in solo and worker["rate"] else None
        for worker in visit["workers"]
    ]
    found: Record = {"slowdowns": slowdowns}
    if None in slowdowns:
        return found
    numbers = [slowdown for slowdown in slowdowns if slowdown is not None]
    progress = [1 / slowdown for slowdown in numbers]
    found["stp"] = sum(progress)
    found["antt"] = statistics.fmean(numbers)
    found["fairness"] = min(progress) / max(progress)
    found["time_against_queue"] = 1 / found["stp"]
    powers = [solo_power.get(worker["load"]) for worker in visit["workers"]]
    power = visit.get("gpu", {}).get("power_w")
    if power and all(powers):
        # Work of one second alone takes 1/stp seconds here; in a queue, its own second.
        found["energy_against_queue"] = power / found["stp"] / statistics.fmean(watts for watts in powers if watts)
    return found


def powers_alone(visits: Iterable[Record]) -> dict[str, float | None]:
    """Return the power of each load alone: the median of its windows."""
    found: dict[str, list[float]] = {}
    for visit in visits:
        power = visit.get("gpu", {}).get("power_w")
        if visit["case"].startswith("alone") and visit["mode"] == "time-sliced" and power:
            found.setdefault(visit["workers"][0]["load"], []).append(power)
    return {load: statistics.median(values) for load, values in found.items()}


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Return median and range: 1.60 (1.58-1.63)."""
    if not values:
        return "-"
    middle, low, high = (f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
    return middle if low == high else f"{middle} ({low}-{high})"


def summarise(visits: Sequence[Record]) -> list[Record]:
    """Return a row for each case and mode from the proven windows, with the failures of the others."""
    solo, power = alone(visits), powers_alone(visits)
    groups: dict[tuple[str, str], list[Record]] = {}
    for visit in visits:
        groups.setdefault((visit["case"], visit["mode"]), []).append(visit)
    rows = []
    for (case, mode), group in groups.items():
        good = [visit for visit in group if not visit.get("failed")]
        judged = [judge(visit, solo, power) for visit in good]
        full = [figures for figures in judged if "stp" in figures]
        row: Record = {"case": case, "mode": mode, "windows": len(good)}
        row["failed"] = sorted({visit["failed"] for visit in group if visit.get("failed")})
        if good:
            row["loads"] = [worker["load"] for worker in good[0]["workers"]]
            row["rates"] = [[visit["workers"][n]["rate"] for visit in good] for n in range(len(row["loads"]))]
            row["slowdowns"] = [[figures["slowdowns"][n] for figures in full] for n in range(len(row["loads"]))]
            for name in ("stp", "antt", "fairness", "time_against_queue", "energy_against_queue"):
                row[name] = [figures[name] for figures in full if name in figures]
            row["power_w"] = [visit["gpu"]["power_w"] for visit in good if visit.get("gpu", {}).get("power_w")]
            row["clock_mhz"] = [visit["gpu"]["clock_mhz"] for visit in good if visit.get("gpu", {}).get("clock_mhz")]
            for name in ("p50_ms", "p99_ms"):
                row[name] = [worker[name] for visit in good for worker in visit["workers"] if worker.get(name)]
        rows.append(row)
    return rows


def table(rows: Iterable[Record]) -> str:
    """Return the rows as Markdown."""
    lines = [
        "| loads | mode | slowdown of each | throughput | time against a queue | fairness | power | p50 / p99 of Q |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if not row["windows"]:
            lines.append(f"| {row['case']} | {row['mode']} | failed: {'; '.join(row['failed'])} | | | | | |")
            continue
        slowdowns = ", ".join(
            f"{load} {spread(values)}" for load, values in zip(row["loads"], row["slowdowns"], strict=True)
        )
        latency = (
            f"{statistics.median(row['p50_ms']):.1f} / {statistics.median(row['p99_ms']):.1f} ms"
            if row["p50_ms"]
            else ""
        )
        power = f"{statistics.median(row['power_w']):.0f} W" if row["power_w"] else ""
        cells = [row["case"], row["mode"], slowdowns, spread(row["stp"]), spread(row["time_against_queue"])]
        lines.append(f"| {' | '.join([*cells, spread(row['fairness']), power, latency])} |")
    return "\n".join(lines)
