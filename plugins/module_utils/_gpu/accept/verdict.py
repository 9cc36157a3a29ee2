# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""What a measured card is worth, against ceilings that the card itself gives. Pure: windows, samples and counters in, a verdict out.

A table of models would have to be right for each of them: DCGM's floor for the H200 is 1000 times too low by a slip of the unit, and
PyTorch-Lightning's table of peak rates has those without tensor cores for some cards. So a ceiling is worked out: of multiprocessors and
the clock seen under load for products, of the memory's clock and bus for copies, of the link seen under load for PCIe.
"""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import ceilings

Facts = dict[str, t.Any]

# From the best to the worst, but for the last: a card that was not measured has not passed.
PASSED = "passed"
SLOWER = "slower"
POWER = "power"
COOLING = "cooling"
HARDWARE = "hardware"
NOT_MEASURED = "not_measured"
VERDICTS = (PASSED, SLOWER, POWER, COOLING, HARDWARE, NOT_MEASURED)

# Products reach 73 % (GB200) to 87 % (A100) of the peak at the nominal clock (Bekman, ml-engineering, table "maximum achievable matmul
# FLOPS"), and more of the peak at the clock that was really there. The others are measured and not judged by their ceilings: nobody has
# published what healthy cards reach. On GA10x and Ada half of the units for fp32 are shared with integers.
PRODUCT_FLOOR = 0.72
JUDGED_PRODUCTS = ("matmul_bf16", "matmul_fp16")
# Copies reach 90 % of clock x bus on an H100 and 89 % on an H200 (measured).
COPY_FLOOR = 0.85
# 12, 24 and 52 GB/s are usual of 15.8, 31.5 and 63 GB/s (x16 of generation 3, 4 and 5).
BUS_FLOOR = 0.75
# Nobody beats a ceiling: then it, or the clock, was read wrong.
IMPLAUSIBLE = 1.03
# Of the samples of a window.
HELD_BACK = 0.05
# Relative to double precision: bf16 rounds to 2^-9 of a number, so a right product is well under 1e-2.
ERROR_LIMIT = 0.02
# fp8 has 3 bits behind the point, and cuBLAS adds its products with 14.
ERROR_LIMITS = {"matmul_fp8": 0.1}
# GB/s of one lane and direction, after coding: PCI-SIG's 2.5, 5 (8b/10b), 8, 16, 32 (128b/130b) and 64 GT/s.
LANE_GB_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}

THERMAL = frozenset({"hw_thermal", "sw_thermal"})
BRAKE = frozenset({"power_brake"})

LOOK = "look at what it says, at gpu_health and at the kernel's log"
NEXT_STEPS = {
    HARDWARE: "have the card looked at: run gpu_health for its history, reseat it, and replace it if that does not help",
    COOLING: "clean filters and fans, look at the airflow and at the air that comes in, then measure again",
    POWER: "look at the power supply and its cables: the board was told to slow down",
    SLOWER: "compare driver, settings and what else runs with the day of the baseline; `baseline: renew` accepts the new figures",
}


def dtypes_of(card: Facts) -> list[str]:
    """What the card multiplies, the usual one first. The seed gives products of one order: new ones come last."""
    capability, brand = card["compute_capability"] or "", card["brand"] or ""

    def known(*dtypes: str) -> list[str]:
        return [dtype for dtype in dtypes if ceilings.operations(capability, brand, dtype, card["name"] or "")]

    return [*known("bf16", "fp16"), "fp32", *known("tf32", "fp8"), "fp64"]


def figures(card: Facts, events: t.Sequence[Facts], samples: t.Sequence[Facts]) -> dict[str, Facts]:
    """What each test gave: values of its windows, what the card said meanwhile, ceiling and efficiency; null for what is not known."""
    found: dict[str, list[Facts]] = {}
    for event in events:
        if event.get("event") == "window":
            found.setdefault(event["test"], []).append(event)
    return {test: _figures_of(card, test, windows, samples) for test, windows in found.items()}


def _figures_of(card: Facts, test: str, windows: t.Sequence[Facts], samples: t.Sequence[Facts]) -> Facts:
    seen = [one for one in samples if any(window["from"] <= one["at"] <= window["to"] for window in windows)]
    values = [window["value"] for window in windows]
    value = statistics.median(values)
    facts = {
        "unit": windows[0]["unit"],
        "values": [round(one, 3) for one in values],
        "value": round(value, 3),
        "wrong": max(window.get("wrong", 0) for window in windows),
        "clock_mhz": _mean(seen, "clock_mhz"),
        "memory_clock_mhz": _most(seen, "memory_clock_mhz"),
        "power_w": _mean(seen, "power_w"),
        "temperature_c": _most(seen, "temperature_c"),
        "thermal_share": _share(seen, THERMAL),
        "power_brake_share": _share(seen, BRAKE),
        "reasons": sorted({reason for one in seen for reason in one["reasons"] or ()}),
        "samples": len(seen),
        "pcie_generation": _most(seen, "pcie_generation"),
        "pcie_width": _most(seen, "pcie_width"),
    }
    ceiling = ceiling_of(card, test, facts)
    return {
        **facts,
        "ceiling": None if ceiling is None else round(ceiling, 3),
        "efficiency": None if not ceiling else round(value / ceiling, 4),
    }


def ceiling_of(card: Facts, test: str, facts: Facts) -> float | None:
    """The most that the card can give in what it said of itself under load; None where that is not known."""
    if test.startswith("matmul_"):
        dtype = test.partition("_")[2]
        capability, brand, sm = card["compute_capability"] or "", card["brand"] or "", card["compute"]["sm_count"]
        kinds = [dtype, "fp64_tensor"] if dtype == "fp64" else [dtype]
        peaks = [
            ceilings.peak_tflops(capability, brand, sm, facts["clock_mhz"], kind, card["name"] or "") for kind in kinds
        ]
        return max((peak for peak in peaks if peak), default=None)
    if test == "copy":
        # The clock of programs that compute is lower than the highest on some cards.
        return ceilings.bandwidth_gb_s(facts["memory_clock_mhz"], card["memory"]["bus_width_bits"])
    lane, width = LANE_GB_S.get(facts["pcie_generation"] or 0), facts["pcie_width"]
    ways = 2 if test == "h2d_d2h" else 1
    return ways * lane * width if lane and width else None


def _known(samples: t.Sequence[Facts], key: str) -> list[float]:
    return [one[key] for one in samples if one[key] is not None]


def _mean(samples: t.Sequence[Facts], key: str) -> float | None:
    values = _known(samples, key)
    return round(statistics.fmean(values), 1) if values else None


def _most(samples: t.Sequence[Facts], key: str) -> t.Any | None:
    return max(_known(samples, key), default=None)


def _share(samples: t.Sequence[Facts], reasons: frozenset[str]) -> float | None:
    told = [one["reasons"] for one in samples if one["reasons"] is not None]
    return round(sum(bool(reasons.intersection(one)) for one in told) / len(told), 3) if told else None


def problem(verdict: str, test: str, evidence: str, next_step: str = "") -> Facts:
    return {"verdict": verdict, "test": test, "evidence": evidence, "next_step": next_step or NEXT_STEPS[verdict]}


def judge_tests(card: Facts, tests: t.Mapping[str, Facts]) -> tuple[list[Facts], list[str]]:
    """Problems of the tests, and notes on what could not be judged."""
    problems: list[Facts] = []
    notes: list[str] = []
    for test, facts in tests.items():
        if facts["wrong"]:
            # Of a product one counts numbers, of a copy only that it differs.
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
    at = f"at {clock} and {_told(facts['temperature_c'], 'C')}"
    if (facts["thermal_share"] or 0) > HELD_BACK:
        yield problem(COOLING, test, f"held back by heat in {facts['thermal_share']:.0%} of the samples, {at}")
    if (facts["power_brake_share"] or 0) > HELD_BACK:
        yield problem(POWER, test, f"power brake in {facts['power_brake_share']:.0%} of the samples, {at}")


def _told(value: float | None, unit: str) -> str:
    return "an unknown value" if value is None else f"{value:g} {unit}"


def _against_ceiling(test: str, facts: Facts, floor: float, notes: list[str]) -> t.Iterator[Facts]:
    efficiency = facts["efficiency"]
    if efficiency is None:
        notes.append(f"{test}: not judged, the card does not tell enough for a ceiling")
    elif efficiency > IMPLAUSIBLE:
        notes.append(
            f"{test}: not judged, {facts['value']:g} is {efficiency:.0%} of the ceiling worked out: the clock or the link was read wrong"
        )
    elif efficiency < floor:
        words = f"{facts['value']:g} of {facts['ceiling']:g} {facts['unit']}, {efficiency:.0%}; {floor:.0%} is the least of a healthy card"
        yield problem(HARDWARE, test, f"{words}, at the clock or link seen under load")


def _link(card: Facts, test: str, facts: Facts) -> t.Iterator[Facts]:
    """A link that stays narrow or slow under load: its ceiling is low, and what is measured may well reach it."""
    for key, most in (("pcie_width", card["pcie"]["max_width"]), ("pcie_generation", card["pcie"]["max_generation"])):
        seen = facts[key]
        if seen and most and seen < most:
            what = "lanes" if key == "pcie_width" else "generation"
            yield problem(
                HARDWARE,
                test,
                f"PCIe {what}: {seen} under load, and card and slot can do {most}",
                "reseat the card and its riser, and look at the slot's setting in the firmware",
            )


def judge_results(checksums: t.Mapping[str, Facts]) -> list[Facts]:
    """A product that was wrong from the start is as repeatable as a right one."""
    return [
        problem(
            HARDWARE,
            test,
            f"the product is {told['error']:.2g} off double precision; {ERROR_LIMITS.get(test, ERROR_LIMIT):g} is the most",
        )
        for test, told in checksums.items()
        # A number that is none fails every comparison.
        if not told["error"] <= ERROR_LIMITS.get(test, ERROR_LIMIT)
    ]


# Counters that may not rise, and flags that may not appear, while nothing but a test runs.
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
# Corrected, and so told without a verdict: gpu_health knows from which rate on they matter.
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
    """How much each counter has risen; one that was not told before or after does not count."""
    found = {}
    for path in paths:
        first, last = _at(before, path), _at(after, path)
        if first is not None and last is not None and last > first:
            found[".".join(path)] = int(last) - int(first)
    return found


def judge_counters(before: Facts, after: Facts, xids: t.Sequence[Facts] | None) -> tuple[list[Facts], list[str]]:
    """:param xids: those that came meanwhile, as the kernel's log tells them; None where it could not be read."""
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
    return max((one["verdict"] for one in problems), key=VERDICTS.index, default=PASSED)


def report(
    before: Facts,
    after: Facts,
    request: Facts,
    events: t.Sequence[Facts],
    samples: t.Sequence[Facts],
    xids: t.Sequence[Facts] | None,
) -> Facts:
    """The account of one card by itself. A measurement that broke off is none, whatever its windows say."""
    tests = figures(before, events, samples)
    checksums = {event["test"]: event for event in events if event.get("event") == "checksum"}
    started = next((event for event in events if event.get("event") == "started"), {})
    problems, notes = judge_tests(before, tests)
    problems += judge_results(checksums)
    more, told = judge_counters(before["counters"], after["counters"], xids)
    burnt = [event for event in events if event.get("event") == "burn_in"]
    wrong = max((event["wrong"] for event in burnt), default=0)
    if wrong:
        problems.append(problem(HARDWARE, "burn_in", f"{wrong} results were not the same as before"))
    told += [f"{event['test']}: not measured: {event['words']}" for event in events if event.get("event") == "skipped"]
    limit, usual = before["power"]["enforced_limit_w"], before["power"]["default_limit_w"]
    if limit and usual and limit < usual:
        told.append(f"its power is limited to {limit:g} of {usual:g} W")
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
        "notes": [*notes, *told],
        "verdict": worst([*problems, *more]),
    }


def identity(card: Facts) -> Facts:
    return {key: card[key] for key in ("index", "uuid", "name", "pci_address")}


def not_measured(card: Facts, evidence: str, next_step: str, verdict: str = NOT_MEASURED) -> Facts:
    """A card without figures. It has the keys of a report, so that whoever reads reports need not ask."""
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
    """What is recorded of a card, as M(rigwright.workstation.finding) takes it."""
    name = report["uuid"] or f"index_{report['index']}"
    problems = report["problems"]
    told = [f"{one['test']}: {one['evidence']}" if one["test"] else one["evidence"] for one in problems]
    figures_told = [
        f"{test} {facts['value']:g} {facts['unit']}" + (f" ({facts['efficiency']:.0%})" if facts["efficiency"] else "")
        for test, facts in report["tests"].items()
    ]
    return {
        "id": f"gpu_accept.{name}",
        "status": STATUSES[report["verdict"]],
        "evidence": f"{report['name'] or 'GPU'}, {report['verdict']}: {'; '.join(told or figures_told)}",
        "remedy": "; ".join(dict.fromkeys(one["next_step"] for one in problems)),
    }


def failure(outcome: t.Any, python: str) -> tuple[str, str] | None:
    """Why a program's outcome is no measurement, and what to do; None when it is one, whatever came later."""
    if any(event.get("event") == "did" and event.get("step") == "measure" for event in outcome.events):
        return None
    failed = next((event for event in outcome.events if event.get("event") == "failed"), None)
    if failed:
        step = {
            "no_torch": f"name a Python that has PyTorch as `python` (roles conda and python_environments make one); {python} has none",
            "broken_torch": "repair this installation of PyTorch, or name another Python as `python`",
            "cpu_build": "install a PyTorch that was built with CUDA, or name another Python as `python`",
            "no_gpu": "look at the driver and at the rights of /dev/nvidia*; `smoke_test` tells the reasons apart",
        }.get(failed["reason"], LOOK)
        return f"{python}: {failed['words']}", step
    words = outcome.words or "it says nothing"
    return (
        f"{python} ended with status {outcome.status}: {words}",
        "look at what it says, and name a Python that runs here",
    )


def problem_of_ended(outcome: t.Any) -> Facts | None:
    """Of a program that was ended: it hung, or its card no longer answered. No healthy card does that, so it has failed."""
    if outcome.hung:
        return problem(HARDWARE, outcome.hung, "the program was not done in time and was ended: it hangs", LOOK)
    if outcome.lost:
        return problem(HARDWARE, "", f"it no longer answered under load: {outcome.lost.name}", outcome.lost.next_step)
    return None


def obstacle(card: Facts, pids: t.Sequence[int]) -> tuple[str, str] | None:
    """Why a card cannot be measured now, and what to do; None when it can."""
    if card["problem"]:
        return f"it does not answer: {card['problem']['nvml_error']}", card["problem"]["next_step"]
    modes = card["modes"]
    if modes["mig"] and modes["mig"]["current"]:
        return "it is divided by MIG", "measure it before it is divided; a part of a card has no ceiling here"
    if modes["compute_mode"] == "prohibited":
        return "its compute mode is prohibited", "set it to default (gpu_mode), then measure"
    if pids:
        words = ", ".join(map(str, pids))
        return f"it is in use by process {words}: they would be slowed down, and so would the test", "end them, or wait"
    return None
