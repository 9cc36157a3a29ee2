# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The comparison of a card with its baseline, and with other cards of its model, from reports of gpu_accept. Pure.

It is sharper than any ceiling: five vendors' H100 servers gave Lambda 2776 to 2791 images a second (ResNet-50, fp16), 0.5 % apart.
"""

from __future__ import annotations

import math
import statistics
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.baseline import (
    CIRCUMSTANCES,
    Baseline,
    Kept,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.rows import (
    Figures,
    FleetProblem,
    FleetReport,
    Problem,
    Report,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.verdict import (
    COOLING,
    HARDWARE,
    NOT_MEASURED,
    PASSED,
    SLOWER,
    problem,
)

# 5 % apart is usual within one server (Bekman, ml-engineering); more is a problem.
PERFORMANCE = 0.05
# Copies from and to the host depend on the host as well. Twenty repeats spread by 5.4 % (h2d, 52 to 55 GB/s) and by 10 % (both ways at
# once, 82 to 91 GB/s) on two H100 of virtual machines.
WITH_HOST = {"h2d": 0.10, "d2h": 0.10, "h2d_d2h": 0.15}
TEMPERATURE_C = 8
# Temperatures are compared at equal power: within this share.
POWER = 0.10
# The fewest cards that have a median.
FLEET = 3

COMPARE_WITH_OTHERS = (
    "compare its slot, cooling, firmware and the load of its host with those of the others, then measure again"
)


def baseline_of(report: Report, day: str) -> Baseline:
    """Return the part of a report that is kept as a baseline."""
    return {
        "uuid": report["uuid"] or "",
        "day": day,
        "driver": report["driver"],
        "name": report["name"],
        "torch": report["torch"],
        "side": report["side"],
        "power_limit_w": report["power_limit_w"],
        "warm_up_s": report["warm_up_s"],
        "window_s": report["window_s"],
        "tests": {
            test: {
                "value": facts["value"],
                "unit": facts["unit"],
                "clock_mhz": facts["clock_mhz"],
                "power_w": facts["power_w"],
                "temperature_c": facts["temperature_c"],
            }
            for test, facts in report["tests"].items()
        },
    }


def plan_baseline(current: Baseline | None, report: Report, policy: str, day: str) -> Baseline | None:
    """Return the baseline after this run. Only a card that passed gets a new one.

    :param policy: keep, renew or ignore.
    """
    if policy == "ignore" or (policy == "keep" and current is not None) or report["verdict"] != PASSED:
        return current
    return baseline_of(report, day)


def against_baseline(report: Report, baseline: Baseline | None, policy: str) -> tuple[list[Problem], list[str]]:
    """Compare a report with its baseline; return problems, and notes on what could not be compared."""
    if baseline is None or policy != "keep" or report["verdict"] == NOT_MEASURED:
        return [], []
    other = [key for key in CIRCUMSTANCES if report.get(key) != baseline.get(key)]
    if other:
        return [], [
            f"not compared with the baseline of {baseline['day']}: {', '.join(other)} differs; `baseline: renew` makes a new one"
        ]
    problems: list[Problem] = []
    for test, facts in report["tests"].items():
        earlier = baseline["tests"].get(test)
        if earlier:
            problems += _against(test, facts, earlier, f"on {baseline['day']}")
    return problems, []


def allowed(test: str) -> float:
    """Return the share by which a figure of a test may be below its baseline, or below the median of its model."""
    return WITH_HOST.get(test, PERFORMANCE)


def _against(test: str, facts: Figures, other: Kept, whose: str, next_step: str = "") -> t.Iterator[Problem]:
    # A rate that is no number fails every comparison; without a median there is nothing to compare with.
    if other["value"] is not None and not facts["value"] >= (1 - allowed(test)) * other["value"]:
        less = 1 - facts["value"] / other["value"]
        evidence = f"{facts['value']:g} {facts['unit']}, {less:.0%} less than {other['value']:g} {whose}"
        yield problem(SLOWER, test, evidence, next_step)
    warm, cool = facts["temperature_c"], other["temperature_c"]
    power, usual = facts["power_w"], other["power_w"]
    if warm is None or cool is None or power is None or usual is None or abs(power - usual) > POWER * usual:
        return
    if warm > cool + TEMPERATURE_C:
        yield problem(COOLING, test, f"{warm:g} C at {power:.0f} W, and {cool:g} C at {usual:.0f} W {whose}")


def fleet(reports: t.Sequence[FleetReport]) -> list[FleetProblem]:
    """Compare cards with the median of their model; return problems, each with the ``host`` and ``uuid`` of its report.

    :param reports: reports of gpu_accept, each with a ``host``.
    """
    groups: dict[tuple[object, ...], list[FleetReport]] = {}
    for report in reports:
        if report["verdict"] != NOT_MEASURED:
            groups.setdefault(tuple(report.get(key) for key in CIRCUMSTANCES), []).append(report)
    problems: list[FleetProblem] = []
    for group in groups.values():
        if len(group) >= FLEET:
            middle = _middle(group)
            for report in group:
                found = [
                    row
                    for test, facts in report["tests"].items()
                    for row in _against(
                        test, facts, middle[test], f"in the middle of {len(group)} cards", COMPARE_WITH_OTHERS
                    )
                ]
                problems += [{"host": report["host"], "uuid": report["uuid"], **row} for row in found]
        problems += _odd_results(group)
    return problems


def _middle(group: t.Sequence[FleetReport]) -> dict[str, Kept]:
    tests: dict[str, list[Figures]] = {}
    for report in group:
        for test, facts in report["tests"].items():
            tests.setdefault(test, []).append(facts)
    return {
        test: {
            "value": _median([facts["value"] for facts in found]),
            "power_w": _median([facts["power_w"] for facts in found]),
            "temperature_c": _median([facts["temperature_c"] for facts in found]),
        }
        for test, found in tests.items()
    }


def _median(values: t.Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None and math.isfinite(value)]
    return round(statistics.median(numbers), 3) if numbers else None


def _odd_results(group: t.Sequence[FleetReport]) -> t.Iterator[FleetProblem]:
    """Compare the products bit by bit: all cards multiply the same numbers.

    The minority is wrong. Without a majority, all are reported.
    """
    for test in sorted({test for report in group for test in report["checksums"]}):
        sums = [report["checksums"][test] for report in group if test in report["checksums"]]
        most = max(map(sums.count, sums))
        for report in group:
            found = report["checksums"].get(test)
            if found is None or len(set(sums)) == 1:
                continue
            if sums.count(found) < most or most * 2 <= len(sums):
                evidence = f"its product differs from that of {len(sums) - sums.count(found)} of {len(sums)} cards of its model"
                yield {"host": report["host"], "uuid": report["uuid"], **problem(HARDWARE, test, evidence)}
