# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""A card against itself on an earlier day, and against others of its model. Pure: reports of gpu_accept in, problems out.

Sharper than any ceiling: five vendors' H100 servers gave Lambda 2776 to 2791 images a second (ResNet-50, fp16), 0.5 % apart.
"""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.verdict import (
    COOLING,
    HARDWARE,
    NOT_MEASURED,
    PASSED,
    SLOWER,
    problem,
)

Facts = dict[str, t.Any]

# 5 % apart is usual within one server (Bekman, ml-engineering); more is worth a look.
PERFORMANCE = 0.05
TEMPERATURE_C = 8
# What counts as equal power, when temperatures are compared.
POWER = 0.10
# Fewer have no middle that one of them could be away from.
FLEET = 3

BESIDE = (
    "compare its slot, cooling, firmware and what else runs on its host with those of the others, then measure again"
)

# What figures depend on besides the card. Cards and days are compared where all of it is the same.
CIRCUMSTANCES = ("name", "torch", "side", "power_limit_w", "warm_up_s", "window_s")
KEPT = ("value", "unit", "clock_mhz", "power_w", "temperature_c")


def baseline_of(report: Facts, day: str) -> Facts:
    """What is kept of a report."""
    return {
        "uuid": report["uuid"],
        "day": day,
        "driver": report["driver"],
        **{key: report[key] for key in CIRCUMSTANCES},
        "tests": {test: {key: facts[key] for key in KEPT} for test, facts in report["tests"].items()},
    }


def plan_baseline(current: Facts | None, report: Facts, policy: str, day: str) -> Facts | None:
    """What the file should hold after this run; only a card that passed is a measure for later days.

    :param policy: keep, renew or ignore.
    """
    if policy == "ignore" or (policy == "keep" and current is not None) or report["verdict"] != PASSED:
        return current
    return baseline_of(report, day)


def against_baseline(report: Facts, baseline: Facts | None, policy: str) -> tuple[list[Facts], list[str]]:
    """Problems, and notes on what could not be compared."""
    if baseline is None or policy != "keep" or report["verdict"] == NOT_MEASURED:
        return [], []
    other = [key for key in CIRCUMSTANCES if report[key] != baseline[key]]
    if other:
        return [], [
            f"not compared with the baseline of {baseline['day']}: {', '.join(other)} differs; `baseline: renew` makes a new one"
        ]
    problems: list[Facts] = []
    for test, facts in report["tests"].items():
        earlier = baseline["tests"].get(test)
        if earlier:
            problems += _against(test, facts, earlier, f"on {baseline['day']}")
    return problems, []


def _against(test: str, facts: Facts, other: Facts, whose: str, next_step: str = "") -> t.Iterator[Facts]:
    if facts["value"] < (1 - PERFORMANCE) * other["value"]:
        less = 1 - facts["value"] / other["value"]
        words = f"{facts['value']:g} {facts['unit']}, {less:.0%} less than {other['value']:g} {whose}"
        yield problem(SLOWER, test, words, next_step)
    warm, cool = facts["temperature_c"], other["temperature_c"]
    power, usual = facts["power_w"], other["power_w"]
    if None in (warm, cool, power, usual) or abs(power - usual) > POWER * usual:
        return
    if warm > cool + TEMPERATURE_C:
        yield problem(COOLING, test, f"{warm:g} C at {power:.0f} W, and {cool:g} C at {usual:.0f} W {whose}")


def fleet(reports: t.Sequence[Facts]) -> list[Facts]:
    """Problems of cards beside the median of their model; each has the ``host`` and ``uuid`` of its report.

    :param reports: reports of gpu_accept, each with a ``host`` besides.
    """
    groups: dict[tuple[t.Any, ...], list[Facts]] = {}
    for report in reports:
        if report["verdict"] != NOT_MEASURED:
            groups.setdefault(tuple(report[key] for key in CIRCUMSTANCES), []).append(report)
    problems = []
    for group in groups.values():
        if len(group) >= FLEET:
            middle = _middle(group)
            for report in group:
                found = [
                    one
                    for test, facts in report["tests"].items()
                    for one in _against(test, facts, middle[test], f"in the middle of {len(group)} cards", BESIDE)
                ]
                problems += [{"host": report["host"], "uuid": report["uuid"], **one} for one in found]
        problems += _odd_results(group)
    return problems


def _middle(group: t.Sequence[Facts]) -> dict[str, Facts]:
    tests: dict[str, list[Facts]] = {}
    for report in group:
        for test, facts in report["tests"].items():
            tests.setdefault(test, []).append(facts)
    return {
        test: {key: _median([facts[key] for facts in found]) for key in ("value", "power_w", "temperature_c")}
        for test, found in tests.items()
    }


def _median(values: t.Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 3) if known else None


def _odd_results(group: t.Sequence[Facts]) -> t.Iterator[Facts]:
    """The same product of the same numbers, bit by bit: the smaller part of the cards is wrong. Of two that differ, nobody knows which."""
    for test in sorted({test for report in group for test in report["checksums"]}):
        sums = [report["checksums"][test] for report in group if test in report["checksums"]]
        most = max(sums.count(one) for one in sums)
        for report in group:
            found = report["checksums"].get(test)
            if found is None or len(set(sums)) == 1:
                continue
            if sums.count(found) < most or most * 2 <= len(sums):
                words = f"its product differs from that of {len(sums) - sums.count(found)} of {len(sums)} cards of its model"
                yield {"host": report["host"], "uuid": report["uuid"], **problem(HARDWARE, test, words)}
