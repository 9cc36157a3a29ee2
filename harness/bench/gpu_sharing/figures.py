"""What stamps and rates mean. Pure: readings in, figures and tables out."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Stamps = Sequence[Sequence[float]]
Record = dict[str, Any]

# How far the count of multiprocessors may be from the share asked for: MPS gives them out in pairs and rounds.
MULTIPROCESSOR_SLACK = 4


def rate_between(stamps: Stamps, first: float, last: float) -> float | None:
    """Steps a second between two moments; null when the stamps do not reach over both.

    What lies outside does not count, so no start and no tail is in it.
    """
    if len(stamps) < 2 or stamps[0][0] > first or stamps[-1][0] < last:
        return None
    return (steps_at(stamps, last) - steps_at(stamps, first)) / (last - first)


def steps_at(stamps: Stamps, moment: float) -> float:
    """Steps done at a moment, in a straight line between two stamps."""
    for (before, done), (after, more) in itertools.pairwise(stamps):
        if before <= moment <= after and after > before:
            return done + (more - done) * (moment - before) / (after - before)
    return stamps[-1][1]


def percentile(values: Iterable[float], share: float) -> float | None:
    """The smallest value that at least this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def disproof(proof: Mapping[str, Any], mps: bool, share: float, full: int | None) -> str:
    """Why a worker is not in the mode that its case demands; empty when it is. *full*: multiprocessors of the card."""
    if full is None:
        return "the card's multiprocessors are not known"
    if proof.get("mps") is None:
        return "the driver does not tell whether MPS is used (device attribute 133)"
    if bool(proof["mps"]) != mps:
        return "runs outside MPS" if mps else "runs under MPS"
    seen, wanted = proof.get("multiprocessors"), share * full
    if seen is None or abs(seen - wanted) > (MULTIPROCESSOR_SLACK if share < 1 else 0):
        return f"sees {seen} multiprocessors, not {wanted:.0f}"
    return ""


def alone(visits: Iterable[Record]) -> dict[str, float]:
    """The rate of each load alone, time-sliced with nobody: the median of its windows."""
    rates: dict[str, list[float]] = {}
    for visit in visits:
        if visit["case"].startswith("alone") and visit["mode"] == "time-sliced" and not visit.get("failed"):
            rates.setdefault(visit["workers"][0]["load"], []).append(visit["workers"][0]["rate"])
    return {load: statistics.median(found) for load, found in rates.items()}


def judge(visit: Record, solo: Mapping[str, float], solo_power: Mapping[str, float | None]) -> Record:
    """Figures of one window: slowdown of each, throughput (STP), ANTT, fairness, time and energy against a queue."""
    slowdowns = [
        solo[one["load"]] / one["rate"] if one["load"] in solo and one["rate"] else None for one in visit["workers"]
    ]
    found: Record = {"slowdowns": slowdowns}
    if any(one is None for one in slowdowns):
        return found
    known = [one for one in slowdowns if one is not None]
    progress = [1 / one for one in known]
    found["stp"] = sum(progress)
    found["antt"] = statistics.fmean(known)
    found["fairness"] = min(progress) / max(progress)
    found["time_against_queue"] = 1 / found["stp"]
    powers = [solo_power.get(one["load"]) for one in visit["workers"]]
    power = visit.get("gpu", {}).get("power_w")
    if power and all(powers):
        # Work of one second alone takes 1/stp seconds here; in a queue, its own second.
        found["energy_against_queue"] = power / found["stp"] / statistics.fmean(one for one in powers if one)
    return found


def powers_alone(visits: Iterable[Record]) -> dict[str, float | None]:
    found: dict[str, list[float]] = {}
    for visit in visits:
        power = visit.get("gpu", {}).get("power_w")
        if visit["case"].startswith("alone") and visit["mode"] == "time-sliced" and power:
            found.setdefault(visit["workers"][0]["load"], []).append(power)
    return {load: statistics.median(values) for load, values in found.items()}


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Median and range: 1.60 (1.58-1.63)."""
    if not values:
        return "-"
    middle, low, high = (f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
    return middle if low == high else f"{middle} ({low}-{high})"


def summarise(visits: Sequence[Record]) -> list[Record]:
    """A row for each case and mode, of the windows that were proven; failed ones are counted beside it."""
    solo, power = alone(visits), powers_alone(visits)
    groups: dict[tuple[str, str], list[Record]] = {}
    for visit in visits:
        groups.setdefault((visit["case"], visit["mode"]), []).append(visit)
    rows = []
    for (case, mode), group in groups.items():
        good = [visit for visit in group if not visit.get("failed")]
        judged = [judge(visit, solo, power) for visit in good]
        full = [one for one in judged if "stp" in one]
        row: Record = {"case": case, "mode": mode, "windows": len(good)}
        row["failed"] = sorted({visit["failed"] for visit in group if visit.get("failed")})
        if good:
            row["loads"] = [one["load"] for one in good[0]["workers"]]
            row["rates"] = [[visit["workers"][n]["rate"] for visit in good] for n in range(len(row["loads"]))]
            row["slowdowns"] = [[one["slowdowns"][n] for one in full] for n in range(len(row["loads"]))]
            for name in ("stp", "antt", "fairness", "time_against_queue", "energy_against_queue"):
                row[name] = [one[name] for one in full if name in one]
            row["power_w"] = [visit["gpu"]["power_w"] for visit in good if visit.get("gpu", {}).get("power_w")]
            row["clock_mhz"] = [visit["gpu"]["clock_mhz"] for visit in good if visit.get("gpu", {}).get("clock_mhz")]
            for name in ("p50_ms", "p99_ms"):
                row[name] = [one[name] for visit in good for one in visit["workers"] if one.get(name)]
        rows.append(row)
    return rows


def table(rows: Iterable[Record]) -> str:
    """The rows as Markdown."""
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
