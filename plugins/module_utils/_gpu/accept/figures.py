# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The figures of a measured card, from windows and samples, and their ceilings. Pure."""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import ceilings
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.rows import Event, Figures, Sample
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.card_facts import Facts

BUS_TESTS = ("h2d", "d2h", "h2d_d2h")
COPY_TESTS = ("copy", *BUS_TESTS)
# GB/s of one lane and direction, after coding: PCI-SIG's 2.5, 5 (8b/10b), 8, 16, 32 (128b/130b) and 64 GT/s.
LANE_GB_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}

THERMAL = frozenset({"hw_thermal", "sw_thermal"})
BRAKE = frozenset({"power_brake"})
SLOWDOWN = frozenset({"hw_slowdown"})
# Below this share of the highest clock a card needs a reason. GeForce cards reach 80 % without one, and 86 % of their memory's clock.
LOW_CLOCK = 0.6
_SETTINGS = frozenset({"applications_clocks", "sync_boost", "display_clock"})
_SLOW = THERMAL | BRAKE | SLOWDOWN
# The kind of clock that decides a test, and the reasons for a low one. A power cap keeps the memory's clock.
_CLOCKS: dict[str, tuple[str, frozenset[str]]] = {
    "matmul": ("sm", _SLOW | _SETTINGS | {"sw_power_cap"}),
    "copy": ("memory", _SLOW | _SETTINGS),
}


def figures(card: Facts, events: t.Sequence[Event], samples: t.Sequence[Sample]) -> dict[str, Figures]:
    """Return the figures of each test: values of its windows, samples of the card, ceiling and efficiency. Unknown values are null."""
    found: dict[str, list[Event]] = {}
    for event in events:
        if event.get("event") == "window":
            found.setdefault(event["test"], []).append(event)
    return {test: _figures_of(card, test, windows, samples) for test, windows in found.items()}


def _figures_of(card: Facts, test: str, windows: t.Sequence[Event], samples: t.Sequence[Sample]) -> Figures:
    during = [row for row in samples if any(window["from"] <= row["at"] <= window["to"] for window in windows)]
    values = [window["value"] for window in windows]
    # Other guests of a host load its bus now and then: the best window is the card's. A broken link is slow in all of them.
    value = max(values) if test in BUS_TESTS else statistics.median(values)
    facts: Figures = {
        "unit": windows[0]["unit"],
        "values": [round(number, 3) for number in values],
        "value": round(value, 3),
        "wrong": max(window.get("wrong", 0) for window in windows),
        "clock_mhz": _mean(row["clock_mhz"] for row in during),
        "memory_clock_mhz": _most(row["memory_clock_mhz"] for row in during),
        "power_w": _mean(row["power_w"] for row in during),
        "temperature_c": _most(row["temperature_c"] for row in during),
        "thermal_share": _share(during, THERMAL),
        "power_brake_share": _share(during, BRAKE),
        "hw_slowdown_share": _share(during, SLOWDOWN, THERMAL | BRAKE),
        "low_clock_share": low_clock_share(card, test, during),
        "reasons": sorted({reason for row in during for reason in row["reasons"] or ()}),
        "samples": len(during),
        "pcie_generation": _most(row["pcie_generation"] for row in during),
        "pcie_width": _most(row["pcie_width"] for row in during),
        "ceiling": None,
        "efficiency": None,
    }
    ceiling = ceiling_of(card, test, facts)
    facts["ceiling"] = None if ceiling is None else round(ceiling, 3)
    facts["efficiency"] = None if not ceiling else round(value / ceiling, 4)
    return facts


def ceiling_of(card: Facts, test: str, facts: Figures) -> float | None:
    """Return the highest rate that the card can reach with its clocks and links under load; None where it is not known."""
    if test.startswith("matmul_"):
        dtype = test.partition("_")[2]
        capability, brand, sm = card["compute_capability"] or "", card["brand"] or "", card["compute"]["sm_count"]
        kinds = [dtype, "fp64_tensor"] if dtype == "fp64" else [dtype]
        peaks = [
            ceilings.peak_tflops(capability, brand, sm, facts["clock_mhz"], kind, card["name"] or "") for kind in kinds
        ]
        return max((peak for peak in peaks if peak), default=None)
    if test == "copy":
        # On some cards the memory's clock for compute programs is lower than the highest one.
        return ceilings.bandwidth_gb_s(facts["memory_clock_mhz"], card["memory"]["bus_width_bits"])
    lane, width = LANE_GB_S.get(facts["pcie_generation"] or 0), facts["pcie_width"]
    ways = 2 if test == "h2d_d2h" else 1
    return ways * lane * width if lane and width else None


def _mean(values: t.Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return round(statistics.fmean(numbers), 1) if numbers else None


def _most(values: t.Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _share(samples: t.Sequence[Sample], reasons: frozenset[str], without: frozenset[str] = frozenset()) -> float | None:
    """Return the share of samples with one of these reasons, and with none of the others."""
    rows = [row["reasons"] for row in samples if row["reasons"] is not None]
    found = [reasons.intersection(names) and not without.intersection(names) for names in rows]
    return round(sum(map(bool, found)) / len(rows), 3) if rows else None


def highest_clock(card: Facts, test: str) -> tuple[str, int | None]:
    """Return the kind of the clock that decides a test, and the highest one; empty where none does."""
    kind, _reasons = _CLOCKS.get(test.partition("_")[0], ("", frozenset()))
    return kind, card["clocks"]["max_mhz"][kind] if kind else None


def clock_of(row: Sample | Figures, kind: str) -> float | None:
    """Return the clock of a kind."""
    return row["clock_mhz"] if kind == "sm" else row["memory_clock_mhz"]


def low_clock_share(card: Facts, test: str, samples: t.Sequence[Sample]) -> float | None:
    """Return the share of samples with a clock far below the highest one, for which the card names no reason."""
    kind, highest = highest_clock(card, test)
    clocks = [
        (clock, row["reasons"] or ())
        for clock, row in ((clock_of(row, kind), row) for row in samples)
        if clock is not None
    ]
    if not highest or not clocks:
        return None
    explained = _CLOCKS[test.partition("_")[0]][1]
    low = [clock < LOW_CLOCK * highest and not explained.intersection(reasons) for clock, reasons in clocks]
    return round(sum(low) / len(clocks), 3)
