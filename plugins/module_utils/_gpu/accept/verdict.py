# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdict on a measured card, from windows, samples and counters. Its ceilings come from facts of the card itself. Pure.

Tables of models have mistakes: DCGM's floor for the H200 is 1000 times too low because of a wrong unit, and PyTorch-Lightning's table has
the peak rates without tensor cores for some cards. So each ceiling is calculated: for products from multiprocessors and the clock under
load, for copies from the memory's clock and bus, for PCIe from the link under load.
"""

from __future__ import annotations

import math
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import ceilings, cuda_words
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.figures import (
    COPY_TESTS,
    clock_of,
    figures,
    highest_clock,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.rows import (
    CardFacts,
    Event,
    Figures,
    Names,
    Problem,
    Report,
    Request,
    Sample,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.card_facts import Counters, Facts
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.rows import XidRow

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
# A rate above the ceiling means that a clock or link was read wrong.
IMPLAUSIBLE = 1.03
# The share of a window's samples.
HELD_BACK = 0.05
# Relative to double precision: bf16 rounds to 2^-9 of a number, so the error of a right product is well under 1e-2.
ERROR_LIMIT = 0.02
# fp8 has 3 bits behind the point, and cuBLAS adds its products with 14.
ERROR_LIMITS = {"matmul_fp8": 0.1}

LOOK = "read its message, gpu_health and the kernel's log"
NEXT_STEPS = {
    HARDWARE: "examine the card: run gpu_health for its history, reseat it, and replace it if that does not help",
    COOLING: "clean filters and fans, check the airflow and the temperature of the air that comes in, then measure again",
    POWER: "check the power supply and its cables: the power brake slowed the board down",
    SLOWER: "compare driver, settings and load with the day of the baseline; `baseline: renew` accepts the new figures",
}
# The verdict of each share of samples, its cause, and its next step where that of the verdict does not fit.
_HELD_BACK_BY = (
    (COOLING, "held back by heat", ""),
    (POWER, "power brake", ""),
    # NVML: heat, the power brake, or too much power. Older cards do not say which.
    (
        POWER,
        "slowed down by its hardware, without a reason",
        "check the power supply, its cables and the airflow, then measure again",
    ),
)
_LOW_CLOCK_STEP = (
    "undo locked clocks (`nvidia-smi --reset-gpu-clocks --reset-memory-clocks`), then reboot;"
    " examine a card that stays at this clock"
)


def dtypes_of(card: Facts) -> list[str]:
    """Return the types that the card multiplies. The order is fixed, since the seed gives products in this order: append new types."""
    capability, brand = card["compute_capability"] or "", card["brand"] or ""

    def supported(*dtypes: str) -> list[str]:
        return [dtype for dtype in dtypes if ceilings.operations(capability, brand, dtype, card["name"] or "")]

    return [*supported("bf16", "fp16"), "fp32", *supported("tf32", "fp8"), "fp64"]


def problem(verdict: str, test: str, evidence: str, next_step: str = "") -> Problem:
    """Return a problem, with the usual next step of its verdict unless another is given."""
    return {"verdict": verdict, "test": test, "evidence": evidence, "next_step": next_step or NEXT_STEPS[verdict]}


def judge_tests(card: Facts, tests: t.Mapping[str, Figures]) -> tuple[list[Problem], list[str]]:
    """Judge the tests of a card; return problems, and notes on what could not be judged."""
    problems: list[Problem] = []
    notes: list[str] = []
    for test, facts in tests.items():
        if not all(math.isfinite(value) and value > 0 for value in facts["values"]):
            problems.append(
                problem(HARDWARE, test, f"a window has no valid rate: {', '.join(map(str, facts['values']))}")
            )
            continue
        if facts["wrong"]:
            # A product counts its wrong numbers, a copy only whether it differs.
            problems.append(problem(HARDWARE, test, f"{facts['wrong']} results were not the same as before"))
        problems += _held_back(test, facts)
        problems += _low_clock(card, test, facts, notes)
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


def _held_back(test: str, facts: Figures) -> t.Iterator[Problem]:
    clock = "an unknown clock" if facts["clock_mhz"] is None else f"{facts['clock_mhz']:.0f} MHz"
    at = f"at {clock} and {_with_unit(facts['temperature_c'], 'C')}"
    shares = (facts["thermal_share"], facts["power_brake_share"], facts["hw_slowdown_share"])
    for share, (verdict, cause, next_step) in zip(shares, _HELD_BACK_BY):
        if share is not None and share > HELD_BACK:
            yield problem(verdict, test, f"{cause} in {share:.0%} of the samples, {at}", next_step)


def _low_clock(card: Facts, test: str, facts: Figures, notes: list[str]) -> t.Iterator[Problem]:
    """Yield a problem for a clock that stays low without a reason: rates that fit it would become the baseline."""
    kind, highest = highest_clock(card, test)
    if (facts["low_clock_share"] or 0) <= HELD_BACK or (facts["efficiency"] or 0) > IMPLAUSIBLE:
        return
    evidence = f"at {clock_of(facts, kind):g} of {highest} MHz in {facts['low_clock_share']:.0%} of the samples"
    if (card["clocks"]["locked_mhz"] or {}).get("gpu" if kind == "sm" else kind):
        notes.append(f"{test}: {evidence}: gpu_mode has locked this clock")
    else:
        yield problem(SLOWER, test, f"{evidence}, and the card names no reason", _LOW_CLOCK_STEP)


def _with_unit(value: float | None, unit: str) -> str:
    return "an unknown value" if value is None else f"{value:g} {unit}"


def _against_ceiling(test: str, facts: Figures, floor: float, notes: list[str]) -> t.Iterator[Problem]:
    efficiency = facts["efficiency"]
    if efficiency is None:
        notes.append(f"{test}: not judged, the card reports too little for a ceiling")
    elif efficiency > IMPLAUSIBLE:
        notes.append(
            f"{test}: not judged, {facts['value']:g} is {efficiency:.0%} of the calculated ceiling: the clock or the link was read wrong"
        )
    elif not efficiency >= floor:
        rate = f"{facts['value']:g} of {facts['ceiling']:g} {facts['unit']}, {efficiency:.0%}"
        least = f"{floor:.0%} is the least of a healthy card, at the clock or link under load"
        yield problem(HARDWARE, test, f"{rate}; {least}")


def _link(card: Facts, test: str, facts: Figures) -> t.Iterator[Problem]:
    """Yield a problem for a link that stays narrow or slow under load. Its ceiling is low, so its rate may well reach it."""
    for unit, current, most in (
        ("lanes", facts["pcie_width"], card["pcie"]["max_width"]),
        ("generation", facts["pcie_generation"], card["pcie"]["max_generation"]),
    ):
        if current and most and current < most:
            yield problem(
                HARDWARE,
                test,
                f"PCIe {unit}: {current} under load, and card and slot can do {most}",
                "reseat the card and its riser, and check the slot's setting in the firmware",
            )


def judge_results(checksums: t.Mapping[str, Event]) -> list[Problem]:
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


def _at(counters: Counters, path: t.Sequence[str]) -> t.Any | None:
    value: t.Any = counters
    for key in path:
        value = None if value is None else value.get(key)
    return value


def rises(before: Counters, after: Counters, paths: t.Iterable[t.Sequence[str]]) -> dict[str, int]:
    """Return the rise of each counter. A counter that is unknown before or after is left out."""
    found = {}
    for path in paths:
        first, last = _at(before, path), _at(after, path)
        if first is not None and last is not None and last > first:
            found[".".join(path)] = int(last) - int(first)
    return found


def judge_counters(
    before: Counters, after: Counters, xids: t.Sequence[XidRow] | None
) -> tuple[list[Problem], list[str]]:
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


def worst(problems: t.Iterable[Problem]) -> str:
    """Return the worst verdict of problems; passed without any."""
    return max((row["verdict"] for row in problems), key=VERDICTS.index, default=PASSED)


def report(
    before: CardFacts,
    after: CardFacts,
    request: Request,
    events: t.Sequence[Event],
    samples: t.Sequence[Sample],
    xids: t.Sequence[XidRow] | None,
) -> Report:
    """Return the report of one card that was measured alone."""
    tests = figures(before, events, samples)
    checksums = {event["test"]: event for event in events if event.get("event") == "checksum"}
    started = next((event for event in events if event.get("event") == "started"), {})
    problems, notes = judge_tests(before, tests)
    problems += judge_results(checksums)
    problems += unmeasured_tests(request, events)
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
        "driver": before["driver"],
        "torch": started.get("torch"),
        "side": started.get("side"),
        "power_limit_w": limit,
        "warm_up_s": request["warm_up_s"],
        "window_s": request["window_s"],
        "tests": tests,
        "checksums": {test: event["sha256"] for test, event in checksums.items()},
        "burn_in_windows": sum(event.get("windows", 1) for event in burnt),
        "memory_test": None,
        "together": {},
        "problems": [*problems, *more],
        "notes": [*notes, *more_notes],
        "verdict": worst([*problems, *more]),
    }


def unmeasured_tests(request: Request, events: t.Sequence[Event]) -> list[Problem]:
    """Return a problem for each requested test without all of its windows. The program gives a reason for a test that it skips."""
    wanted = [f"matmul_{dtype}" for dtype in request["dtypes"]]
    found = {
        test: sum(event.get("event") == "window" and event["test"] == test for event in events)
        for test in (*wanted, *COPY_TESTS)
    }
    skipped = {event["test"] for event in events if event.get("event") == "skipped"}
    return [
        problem(NOT_MEASURED, test, f"{count} of {request['windows']} windows were measured", LOOK)
        for test, count in found.items()
        if count < request["windows"] and test not in skipped
    ]


def identity(card: Facts) -> Names:
    """Return the keys that identify a card."""
    return {"index": card["index"], "uuid": card["uuid"], "name": card["name"], "pci_address": card["pci_address"]}


def not_measured(card: CardFacts, evidence: str, next_step: str, verdict: str = NOT_MEASURED) -> Report:
    """Return the report of a card without figures. It has all keys of a report."""
    return {
        **identity(card),
        "driver": card["driver"],
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
_ORDER = ("pass", "warn", "fail")
STATUSES = {PASSED: "pass", SLOWER: "warn", POWER: "fail", COOLING: "fail", HARDWARE: "fail", NOT_MEASURED: "warn"}


def status_of(problems: t.Iterable[Problem]) -> str:
    """Return the gravest status of problems: what was not measured hides no failure."""
    return max((STATUSES[row["verdict"]] for row in problems), key=_ORDER.index, default="pass")


def finding(report: Report) -> dict[str, str]:
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
        "status": status_of(problems),
        "evidence": f"{report['name'] or 'GPU'}, {report['verdict']}: {'; '.join(lines or measured)}",
        "remedy": "; ".join(dict.fromkeys(row["next_step"] for row in problems)),
    }


def failure(outcome: t.Any, python: str) -> tuple[str, str] | None:
    """Return the evidence and the next step where a program did not measure its card; None where it did, even if it failed later."""
    if any(event.get("event") == "did" and event.get("step") == "measure" for event in outcome.events):
        return None
    failed = next((event for event in outcome.events if event.get("event") == "failed"), None)
    if failed:
        steps = {
            "no_torch": f"name a Python that has PyTorch as `python` (an environment of the role conda); {python} has none",
            "broken_torch": "repair this installation of PyTorch, or name another Python as `python`",
            "cpu_build": "install a PyTorch that was built with CUDA, or name another Python as `python`",
            "no_gpu": "check the driver and the rights of /dev/nvidia*; `smoke_test` has the exact reason",
        }
        step = cuda_words.step(failed["words"]) or steps.get(failed["reason"], LOOK)
        return f"{python}: {failed['words']}", step
    output = outcome.output or "it printed nothing"
    return (
        f"{python} ended with status {outcome.status}: {output}",
        "read its output, and name a Python that runs here",
    )


def problem_of_ended(outcome: t.Any) -> Problem | None:
    """Return the problem of a program that was killed, since it hung or its card no longer answered. No healthy card does that."""
    if outcome.hung:
        return problem(HARDWARE, outcome.hung, "the program was not done in time and was killed: it hangs", LOOK)
    if outcome.lost:
        return problem(HARDWARE, "", f"it no longer answered under load: {outcome.lost.name}", outcome.lost.next_step)
    return None


def problem_of_gone(after: Facts) -> Problem | None:
    """Return the problem of a card that does not answer after its measurement: its counters are unknown, and hide what rose."""
    error = after["problem"]
    if not error:
        return None
    return problem(HARDWARE, "", f"it no longer answers after the test: {error['nvml_error']}", error["next_step"])


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
