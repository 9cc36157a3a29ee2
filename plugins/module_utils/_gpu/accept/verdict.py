# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdict on a measured card, from windows, samples and counters. Its ceilings come from facts of the card itself. Pure.

Tables of models have mistakes: DCGM's floor for the H200 is 1000 times too low because of a wrong unit, and PyTorch-Lightning's table has
the peak rates without tensor cores for some cards. So each ceiling is calculated: for products from multiprocessors and the clock under
load, for copies from the memory's clock and bus, for PCIe from the link under load.
"""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import ceilings

Facts = dict[str, t.Any]

# From the best to the worst. The last is an exception: a card that was not measured has not passed.
PASSED = "passed"
SLOWER = "slower"
POWER = "power"
COOLING = "cooling"
HARDWARE = "hardware"
NOT_MEASURED = "not_measured"
VERDICTS = (PASSED, SLOWER, POWER, COOLING, HARDWARE, NOT_MEASURED)

# Products reach 73 % (GB200) to 87 % (A100) of the peak at the nominal clock (Bekman, ml-engineering, table "maximum achievable matmul
# FLOPS"), and more of the peak at the real clock. The others are measured and not judged by their ceilings: no one has published the
# rates of healthy cards. On GA10x and Ada half of the units for fp32 are shared with integers.
PRODUCT_FLOOR = 0.72
JUDGED_PRODUCTS = ("matmul_bf16", "matmul_fp16")
# Copies reach 90 % of clock x bus on an H100 and 89 % on an H200 (measured).
COPY_FLOOR = 0.85
# 12, 24 and 52 GB/s are usual of 15.8, 31.5 and 63 GB/s (x16 of generation 3, 4 and 5).
BUS_FLOOR = 0.75
BUS_TESTS = ("h2d", "d2h", "h2d_d2h")
# A rate above the ceiling means that a clock or link was read wrong.
IMPLAUSIBLE = 1.03
# The share of a window's samples.
HELD_BACK = 0.05
# Relative to double precision: bf16 rounds to 2^-9 of a number, so the error of a right product is well under 1e-2.
ERROR_LIMIT = 0.02
# fp8 has 3 bits behind the point, and cuBLAS adds its products with 14.
ERROR_LIMITS = {"matmul_fp8": 0.1}
# GB/s of one lane and direction, after coding: PCI-SIG's 2.5, 5 (8b/10b), 8, 16, 32 (128b/130b) and 64 GT/s.
LANE_GB_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}

THERMAL = frozenset({"hw_thermal", "sw_thermal"})
BRAKE = frozenset({"power_brake"})

LOOK = "read its message, gpu_health and the kernel's log"
NEXT_STEPS = {
    HARDWARE: "examine the card: run gpu_health for its history, reseat it, and replace it if that does not help",
    COOLING: "clean filters and fans, check the airflow and the temperature of the air that comes in, then measure again",
    POWER: "check the power supply and its cables: the power brake slowed the board down",
    SLOWER: "compare driver, settings and load with the day of the baseline; `baseline: renew` accepts the new figures",
}


def dtypes_of(card: Facts) -> list[str]:
    """Return the types that the card multiplies. The order is fixed, since the seed gives products in this order: append new types."""
    capability, brand = card["compute_capability"] or "", card["brand"] or ""

    def supported(*dtypes: str) -> list[str]:
        return [dtype for dtype in dtypes if ceilings.operations(capability, brand, dtype, card["name"] or "")]

    return [*supported("bf16", "fp16"), "fp32", *supported("tf32", "fp8"), "fp64"]


def figures(card: Facts, events: t.Sequence[Facts], samples: t.Sequence[Facts]) -> dict[str, Facts]:
    """Return the figures of each test: values of its windows, samples of the card, ceiling and efficiency. Unknown values are null."""
    found: dict[str, list[Facts]] = {}
    for event in events:
        if event.get("event") == "window":
            found.setdefault(event["test"], []).append(event)
    return {test: _figures_of(card, test, windows, samples) for test, windows in found.items()}


def _figures_of(card: Facts, test: str, windows: t.Sequence[Facts], samples: t.Sequence[Facts]) -> Facts:
    during = [row for row in samples if any(window["from"] <= row["at"] <= window["to"] for window in windows)]
    values = [window["value"] for window in windows]
    # Other guests of a host load its bus now and then: the best window is the card's. A broken link is slow in all of them.
    value = max(values) if test in BUS_TESTS else statistics.median(values)
    facts = {
        "unit": windows[0]["unit"],
        "values": [round(number, 3) for number in values],
        "value": round(value, 3),
        "wrong": max(window.get("wrong", 0) for window in windows),
        "clock_mhz": _mean(during, "clock_mhz"),
        "memory_clock_mhz": _most(during, "memory_clock_mhz"),
        "power_w": _mean(during, "power_w"),
        "temperature_c": _most(during, "temperature_c"),
        "thermal_share": _share(during, THERMAL),
        "power_brake_share": _share(during, BRAKE),
        "reasons": sorted({reason for row in during for reason in row["reasons"] or ()}),
        "samples": len(during),
        "pcie_generation": _most(during, "pcie_generation"),
        "pcie_width": _most(during, "pcie_width"),
    }
    ceiling = ceiling_of(card, test, facts)
    return {
        **facts,
        "ceiling": None if ceiling is None else round(ceiling, 3),
        "efficiency": None if not ceiling else round(value / ceiling, 4),
    }


def ceiling_of(card: Facts, test: str, facts: Facts) -> float | None:
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


def _known(samples: t.Sequence[Facts], key: str) -> list[float]:
    return [row[key] for row in samples if row[key] is not None]


def _mean(samples: t.Sequence[Facts], key: str) -> float | None:
    values = _known(samples, key)
    return round(statistics.fmean(values), 1) if values else None


def _most(samples: t.Sequence[Facts], key: str) -> t.Any | None:
    return max(_known(samples, key), default=None)


def _share(samples: t.Sequence[Facts], reasons: frozenset[str]) -> float | None:
    rows = [row["reasons"] for row in samples if row["reasons"] is not None]
    return round(sum(bool(reasons.intersection(names)) for names in rows) / len(rows), 3) if rows else None


def problem(verdict: str, test: str, evidence: str, next_step: str = "") -> Facts:
    """Return a problem, with the usual next step of its verdict unless another is given."""
    return {"verdict": verdict, "test": test, "evidence": evidence, "next_step": next_step or NEXT_STEPS[verdict]}


def judge_tests(card: Facts, tests: t.Mapping[str, Facts]) -> tuple[list[Facts], list[str]]:
    """Judge the tests of a card; return problems, and notes on what could not be judged."""
    problems: list[Facts] = []
    notes: list[str] = []
    for test, facts in tests.items():
        if facts["wrong"]:
            # A product counts its wrong numbers, a copy only whether it differs.
            problems.append(problem(HARDWARE, test, f"{facts['wrong']} results were not the same as before"))
        problems += _held_back(test, facts)
        floor = _floor(test)
        if floor is not None:
            problems += _against_ceiling(test, facts, floor, notes)
        if test in ("h2d", "d2h"):
            problems += _link(card, test, facts)
    return problems, notes


def _floor(test: str) -> float | None:
    if test in JUDGED_PRODUCTS:
        return PRODUCT_FLOOR
    return {"copy": COPY_FLOOR, "h2d": BUS_FLOOR, "d2h": BUS_FLOOR}.get(test)


def _held_back(test: str, facts: Facts) -> t.Iterator[Facts]:
    clock = "an unknown clock" if facts["clock_mhz"] is None else f"{facts['clock_mhz']:.0f} MHz"
    at = f"at {clock} and {_with_unit(facts['temperature_c'], 'C')}"
    if (facts["thermal_share"] or 0) > HELD_BACK:
        yield problem(COOLING, test, f"held back by heat in {facts['thermal_share']:.0%} of the samples, {at}")
    if (facts["power_brake_share"] or 0) > HELD_BACK:
        yield problem(POWER, test, f"power brake in {facts['power_brake_share']:.0%} of the samples, {at}")


def _with_unit(value: float | None, unit: str) -> str:
    return "an unknown value" if value is None else f"{value:g} {unit}"


def _against_ceiling(test: str, facts: Facts, floor: float, notes: list[str]) -> t.Iterator[Facts]:
    efficiency = facts["efficiency"]
    if efficiency is None:
        notes.append(f"{test}: not judged, the card reports too little for a ceiling")
    elif efficiency > IMPLAUSIBLE:
        notes.append(
            f"{test}: not judged, {facts['value']:g} is {efficiency:.0%} of the calculated ceiling: the clock or the link was read wrong"
        )
    elif efficiency < floor:
        rate = f"{facts['value']:g} of {facts['ceiling']:g} {facts['unit']}, {efficiency:.0%}"
        least = f"{floor:.0%} is the least of a healthy card, at the clock or link under load"
        yield problem(HARDWARE, test, f"{rate}; {least}")


def _link(card: Facts, test: str, facts: Facts) -> t.Iterator[Facts]:
    """Yield a problem for a link that stays narrow or slow under load. Its ceiling is low, so its rate may well reach it."""
    for key, most in (("pcie_width", card["pcie"]["max_width"]), ("pcie_generation", card["pcie"]["max_generation"])):
        current = facts[key]
        if current and most and current < most:
            unit = "lanes" if key == "pcie_width" else "generation"
            yield problem(
                HARDWARE,
                test,
                f"PCIe {unit}: {current} under load, and card and slot can do {most}",
                "reseat the card and its riser, and check the slot's setting in the firmware",
            )


def judge_results(checksums: t.Mapping[str, Facts]) -> list[Facts]:
    """Judge the first products. A product that is always wrong is as repeatable as a right one."""
    return [
        problem(
            HARDWARE,
            test,
            f"the product is {row['error']:.2g} off double precision; {ERROR_LIMITS.get(test, ERROR_LIMIT):g} is the most",
        )
        for test, row in checksums.items()
        # NaN fails every comparison.
        if not row["error"] <= ERROR_LIMITS.get(test, ERROR_LIMIT)
    ]


# Counters that must not rise, and flags that must not appear, during a test.
GRAVE = (
    ("ecc_errors", "volatile", "uncorrected"),
    ("ecc_errors", "aggregate", "uncorrected"),
    ("remapped_rows", "uncorrectable"),
    ("remapped_rows", "pending"),
    ("remapped_rows", "failure"),
    ("retired_pages", "double_bit"),
    ("retired_pages", "pending"),
    ("sram", "aggregate_uncorrectable"),
    ("sram", "volatile_uncorrectable"),
    ("sram", "threshold_exceeded"),
    ("repair_pending", "channel"),
    ("repair_pending", "tpc"),
    ("unrepairable_memory",),
    ("pcie", "fatal_errors"),
    ("pcie", "non_fatal_errors"),
)
# Corrected errors are notes without a verdict: gpu_health has the limits of their rates.
NOTED = (
    ("ecc_errors", "volatile", "corrected"),
    ("remapped_rows", "correctable"),
    ("retired_pages", "single_bit"),
    ("pcie", "replays"),
    ("pcie", "correctable_errors"),
    ("nvlink", "replays"),
    ("nvlink", "recoveries"),
    ("nvlink", "crc_errors"),
)


def _at(counters: Facts, path: t.Sequence[str]) -> t.Any | None:
    value: t.Any = counters
    for key in path:
        value = None if value is None else value.get(key)
    return value


def rises(before: Facts, after: Facts, paths: t.Iterable[t.Sequence[str]]) -> dict[str, int]:
    """Return the rise of each counter. A counter that is unknown before or after is left out."""
    found = {}
    for path in paths:
        first, last = _at(before, path), _at(after, path)
        if first is not None and last is not None and last > first:
            found[".".join(path)] = int(last) - int(first)
    return found


def judge_counters(before: Facts, after: Facts, xids: t.Sequence[Facts] | None) -> tuple[list[Facts], list[str]]:
    """Judge the counters and Xids of a measurement; return problems and notes.

    :param xids: the new ones; None where the kernel's log could not be read.
    """
    problems = [
        problem(HARDWARE, "counters", f"{name} rose by {rise}") for name, rise in rises(before, after, GRAVE).items()
    ]
    action = after.get("recovery_action")
    if action not in (None, "none") and action != before.get("recovery_action"):
        problems.append(problem(HARDWARE, "counters", f"the driver now asks for {action}"))
    problems += [
        problem(HARDWARE, "kernel log", f"Xid {xid['code']}{': ' + xid['text'] if xid.get('text') else ''}")
        for xid in xids or ()
    ]
    notes = [f"{name} rose by {rise}, corrected" for name, rise in rises(before, after, NOTED).items()]
    if xids is None:
        notes.append("the kernel's log could not be read: Xids are not judged")
    return problems, notes


def worst(problems: t.Iterable[Facts]) -> str:
    """Return the worst verdict of problems; passed without any."""
    return max((row["verdict"] for row in problems), key=VERDICTS.index, default=PASSED)


def report(
    before: Facts,
    after: Facts,
    request: Facts,
    events: t.Sequence[Facts],
    samples: t.Sequence[Facts],
    xids: t.Sequence[Facts] | None,
) -> Facts:
    """Return the report of one card that was measured alone."""
    tests = figures(before, events, samples)
    checksums = {event["test"]: event for event in events if event.get("event") == "checksum"}
    started = next((event for event in events if event.get("event") == "started"), {})
    problems, notes = judge_tests(before, tests)
    problems += judge_results(checksums)
    more, more_notes = judge_counters(before["counters"], after["counters"], xids)
    burnt = [event for event in events if event.get("event") == "burn_in"]
    wrong = max((event["wrong"] for event in burnt), default=0)
    if wrong:
        problems.append(problem(HARDWARE, "burn_in", f"{wrong} results were not the same as before"))
    more_notes += [
        f"{event['test']}: not measured: {event['words']}" for event in events if event.get("event") == "skipped"
    ]
    limit, usual = before["power"]["enforced_limit_w"], before["power"]["default_limit_w"]
    if limit and usual and limit < usual:
        more_notes.append(f"its power is limited to {limit:g} of {usual:g} W")
    return {
        **identity(before),
        "driver": before.get("driver"),
        "torch": started.get("torch"),
        "side": started.get("side"),
        "power_limit_w": limit,
        "warm_up_s": request["warm_up_s"],
        "window_s": request["window_s"],
        "tests": tests,
        "checksums": {test: event["sha256"] for test, event in checksums.items()},
        "burn_in_windows": len(burnt),
        "memory_test": None,
        "together": {},
        "problems": [*problems, *more],
        "notes": [*notes, *more_notes],
        "verdict": worst([*problems, *more]),
    }


def identity(card: Facts) -> Facts:
    """Return the keys that identify a card."""
    return {key: card[key] for key in ("index", "uuid", "name", "pci_address")}


def not_measured(card: Facts, evidence: str, next_step: str, verdict: str = NOT_MEASURED) -> Facts:
    """Return the report of a card without figures. It has all keys of a report."""
    return {
        **identity(card),
        "driver": card.get("driver"),
        "torch": None,
        "side": None,
        "power_limit_w": card["power"]["enforced_limit_w"],
        "warm_up_s": None,
        "window_s": None,
        "tests": {},
        "checksums": {},
        "burn_in_windows": 0,
        "memory_test": None,
        "together": {},
        "problems": [problem(verdict, "", evidence, next_step)],
        "notes": [],
        "verdict": verdict,
    }


# A card that was not measured has not failed either: it may be in use, or lack PyTorch.
STATUSES = {PASSED: "pass", SLOWER: "warn", POWER: "fail", COOLING: "fail", HARDWARE: "fail", NOT_MEASURED: "warn"}


def finding(report: Facts) -> dict[str, str]:
    """Return the finding of a card."""
    name = report["uuid"] or f"index_{report['index']}"
    problems = report["problems"]
    lines = [f"{row['test']}: {row['evidence']}" if row["test"] else row["evidence"] for row in problems]
    measured = [
        f"{test} {facts['value']:g} {facts['unit']}" + (f" ({facts['efficiency']:.0%})" if facts["efficiency"] else "")
        for test, facts in report["tests"].items()
    ]
    return {
        "id": f"gpu_accept.{name}",
        "status": STATUSES[report["verdict"]],
        "evidence": f"{report['name'] or 'GPU'}, {report['verdict']}: {'; '.join(lines or measured)}",
        "remedy": "; ".join(dict.fromkeys(row["next_step"] for row in problems)),
    }


def failure(outcome: t.Any, python: str) -> tuple[str, str] | None:
    """Return the evidence and the next step where a program did not measure its card; None where it did, even if it failed later."""
    if any(event.get("event") == "did" and event.get("step") == "measure" for event in outcome.events):
        return None
    failed = next((event for event in outcome.events if event.get("event") == "failed"), None)
    if failed:
        step = {
            "no_torch": f"name a Python that has PyTorch as `python` (roles conda and python_environments make one); {python} has none",
            "broken_torch": "repair this installation of PyTorch, or name another Python as `python`",
            "cpu_build": "install a PyTorch that was built with CUDA, or name another Python as `python`",
            "no_gpu": "check the driver and the rights of /dev/nvidia*; `smoke_test` has the exact reason",
        }.get(failed["reason"], LOOK)
        return f"{python}: {failed['words']}", step
    output = outcome.output or "it printed nothing"
    return (
        f"{python} ended with status {outcome.status}: {output}",
        "read its output, and name a Python that runs here",
    )


def problem_of_ended(outcome: t.Any) -> Facts | None:
    """Return the problem of a program that was killed, since it hung or its card no longer answered. No healthy card does that."""
    if outcome.hung:
        return problem(HARDWARE, outcome.hung, "the program was not done in time and was killed: it hangs", LOOK)
    if outcome.lost:
        return problem(HARDWARE, "", f"it no longer answered under load: {outcome.lost.name}", outcome.lost.next_step)
    return None


def obstacle(card: Facts, pids: t.Sequence[int]) -> tuple[str, str] | None:
    """Return the evidence and the next step where a card cannot be measured now; None where it can."""
    if card["problem"]:
        return f"it does not answer: {card['problem']['nvml_error']}", card["problem"]["next_step"]
    modes = card["modes"]
    if modes["mig"] and modes["mig"]["current"]:
        return "it is divided by MIG", "measure it before it is divided; a part of a card has no ceiling here"
    if modes["compute_mode"] == "prohibited":
        return "its compute mode is prohibited", "set it to default (gpu_mode), then measure"
    if pids:
        processes = ", ".join(map(str, pids))
        return (
            f"it is in use by process {processes}: the test would slow it down, and be slow itself",
            "end it, or wait",
        )
    return None
