# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""What the GPUs of a machine are worth together: memory under patterns, all loaded at once, what they give to each other. Pure."""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import verdict as accept
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.verdict import (
    HARDWARE,
    LANE_GB_S,
    SLOWER,
    Facts,
    problem,
)

# Each card has a power limit of its own: what it loses while the others work, it loses to heat, or to what feeds them all.
TOGETHER_FLOOR = 0.90
# NVLink carries addresses and checks beside data: Azure's floor for two H100 is 335 of 450 GB/s. Wide, since none was measured here.
NVLINK_FLOOR = 0.60
# Against the median of the pairs that are linked alike.
LIKE = 0.80
LIKE_PAIRS = 3
# Less memory than this could not be taken, though it was said to be free.
TAKEN = 0.80
BESIDE = "look at gpu_health, and at `nvidia-smi topo -m` and `nvidia-smi nvlink -s`"


def memory(outcome: t.Any) -> tuple[Facts | None, list[Facts], list[str]]:
    """What was filled with patterns, and what of it was wrong. None where it was left out."""
    told = next(iter(outcome.of("memory")), None)
    if told is None:
        return None, [], []
    facts = {key: told[key] for key in ("free_bytes", "total_bytes", "tested_bytes", "patterns", "wrong", "first")}
    facts.update(
        share=round(told["tested_bytes"] / told["free_bytes"], 4) if told["free_bytes"] else None,
        seconds=round(told["seconds"], 2),
        gb_s=round(told["gb_s"], 1),
    )
    problems, notes = [], []
    if told["wrong"]:
        first = told["first"]
        bits = ", ".join(map(str, first["bits"]))
        words = (
            f"{told['wrong']} words of {told['tested_bytes']} bytes were wrong; the first with {first['pattern']} at byte {first['offset']}"
            f" ({first['address']}): {first['found']} instead of {first['expected']}, bits {bits}"
        )
        problems.append(problem(HARDWARE, "memory", words))
    if (facts["share"] or 0) < TAKEN:
        notes.append(f"memory: {facts['share'] or 0:.0%} of what was free could be taken, and was tested")
    return facts, problems, notes


def together(card: Facts, tests: t.Mapping[str, Facts], outcome: t.Any) -> tuple[Facts, list[Facts], list[str]]:
    """The rates of a card while all are loaded, beside those alone."""
    windows = [{**event, "event": "window"} for event in outcome.of("together")]
    facts = accept.figures(card, windows, outcome.samples)
    problems, notes = [], []
    for test, told in facts.items():
        alone = tests[test]["value"] if test in tests else None
        told["alone"], told["share"] = alone, round(told["value"] / alone, 4) if alone else None
        problems += [
            {**one, "test": f"{test}, all GPUs together"}
            for one in accept.judge_tests(card, {test: told})[0]
            if _own(test, one)
        ]
        if told["share"] is not None and told["share"] < TOGETHER_FLOOR:
            words = f"{told['value']:g} {told['unit']} with all GPUs loaded, {1 - told['share']:.0%} less than alone"
            if test.startswith("matmul"):
                step = "look at what feeds and cools all of them: power supplies, airflow, and the clocks in `together`"
                problems.append(problem(SLOWER, f"{test}, all GPUs together", words, step))
            else:
                # They share the host's memory, and switches of PCIe.
                notes.append(f"{test}: {words}")
    return facts, problems, notes


def _own(test: str, one: Facts) -> bool:
    """Links and hosts are shared: of copies with all GPUs only wrong data and the link itself count, not the rate."""
    return test.startswith("matmul") or "least of a healthy card" not in one["evidence"]


def later_problem(outcome: t.Any) -> Facts | None:
    """Of a program that measured its card and broke off after that. Of an all-reduce that failed, see :func:`all_reduce`."""
    failed = next(iter(outcome.of("failed")), None)
    found = accept.problem_of_ended(outcome)
    if failed:
        found = problem(HARDWARE, failed["step"] or "", failed["words"], accept.LOOK)
    elif not found and outcome.status != 0:
        found = problem(HARDWARE, "", f"the program ended with status {outcome.status}: {outcome.words}", accept.LOOK)
    if found and found["test"] == "all_reduce" and outcome.of("meeting"):
        return None
    return found


# --- Between GPUs ---


def _name(card: Facts) -> str:
    return f"GPU {card['index']} ({card['uuid']})"


def link_ceiling(one: Facts, other: Facts) -> tuple[str, float | None]:
    """How two cards are linked, and what that carries in one direction, in GB/s; None where it is not known."""
    links = [link for link in (one["nvlink"] or {"links": []})["links"] if link["active"]]
    direct = [link for link in links if link["remote_pci_address"] == other["pci_address"]]
    switched = [link for link in links if link["remote"] == "switch"]
    there = [
        link for link in (other["nvlink"] or {"links": []})["links"] if link["active"] and link["remote"] == "switch"
    ]
    used = direct or (min(switched, there, key=len) if there else [])
    if used:
        speeds = [link["speed_gb_s"] for link in used]
        return "nvlink", None if None in speeds else round(sum(speeds), 1)
    ways = []
    for card in (one, other):
        lane, width = LANE_GB_S.get(card["pcie"]["max_generation"] or 0), card["pcie"]["max_width"]
        ways.append(lane * width if lane and width else None)
    return "pcie", None if None in ways else round(min(way for way in ways if way), 1)


def judge_pairs(cards: t.Sequence[Facts], outcome: t.Any) -> tuple[list[Facts], list[Facts]]:
    """The matrix, and what is wrong with it. *cards* are in the order in which the program saw them."""
    rows: list[Facts] = []
    problems: list[Facts] = []
    for event in outcome.of("pair"):
        one, other = cards[event["source"]], cards[event["target"]]
        link, ceiling = link_ceiling(one, other)
        rows.append(
            {
                "gpus": [one["index"], other["index"]],
                "link": link,
                "peer_access": event["peer_access"],
                "gb_s": round(event["gb_s"], 2),
                "latency_us": round(event["latency_us"], 2),
                "ceiling": ceiling,
                "efficiency": round(event["gb_s"] / ceiling, 4) if ceiling else None,
                "wrong": event["wrong"],
            }
        )
        problems += _judge_pair(f"{_name(one)} to {_name(other)}", rows[-1])
    for link in ("nvlink", "pcie"):
        alike = [row for row in rows if row["link"] == link]
        middle = statistics.median([row["gb_s"] for row in alike]) if len(alike) >= LIKE_PAIRS else 0
        problems += [
            problem(
                SLOWER,
                "pairs",
                f"GPU {row['gpus'][0]} to {row['gpus'][1]}: {row['gb_s']:g} GB/s, {middle:g} is the median",
                BESIDE,
            )
            for row in alike
            if row["gb_s"] < LIKE * middle
        ]
    broken = accept.problem_of_ended(outcome) or _failed(outcome)
    if broken:
        trying = (outcome.of("trying") or [None])[-1]
        where = f"{_name(cards[trying['source']])} to {_name(cards[trying['target']])}: " if trying else ""
        problems.append({**broken, "test": "pairs", "evidence": where + broken["evidence"]})
    return rows, problems


def _judge_pair(words: str, row: Facts) -> t.Iterator[Facts]:
    if row["wrong"]:
        yield problem(HARDWARE, "pairs", f"{words}: what was copied arrived otherwise")
    if row["link"] == "nvlink" and not row["peer_access"]:
        yield problem(HARDWARE, "pairs", f"{words}: NVLink is active, and CUDA gives no access", BESIDE)
    elif row["link"] == "nvlink" and row["efficiency"] is not None and row["efficiency"] < NVLINK_FLOOR:
        least = f"{row['gb_s']:g} of {row['ceiling']:g} GB/s, {row['efficiency']:.0%}; {NVLINK_FLOOR:.0%} is the least"
        yield problem(HARDWARE, "pairs", f"{words}: {least}", BESIDE)


def _failed(outcome: t.Any) -> Facts | None:
    failed = next(iter(outcome.of("failed")), None)
    if failed:
        return problem(HARDWARE, "", failed["words"], accept.LOOK)
    if outcome.status != 0:
        return problem(HARDWARE, "", f"the program ended with status {outcome.status}: {outcome.words}", accept.LOOK)
    return None


def all_reduce(cards: t.Sequence[Facts], outcomes: t.Sequence[t.Any]) -> tuple[Facts | None, list[Facts], str]:
    """NCCL's sum over these cards; without one, why."""
    told = [(card, event) for card, outcome in zip(cards, outcomes) for event in outcome.of("all_reduce")]
    skipped = [
        event["words"] for outcome in outcomes for event in outcome.of("skipped") if event["test"] == "all_reduce"
    ]
    problems = [
        problem(HARDWARE, "all_reduce", f"{_name(card)}: {event['wrong']} numbers of the sum are wrong")
        for card, event in told
        if event["wrong"]
    ]
    began = [card for card, outcome in zip(cards, outcomes) if outcome.of("meeting")]
    if skipped or not began:
        return None, problems, skipped[0] if skipped else "no GPU came so far"
    absent = [_name(card) for card in began if card not in [one for one, _event in told]]
    if absent:
        words = [event["words"] for outcome in outcomes for event in outcome.of("failed")]
        why = words[0] if words else f"not done in time; {len(began)} of {len(cards)} GPUs began"
        problems.append(problem(HARDWARE, "all_reduce", f"{', '.join(absent)}: {why}", BESIDE))
        return None, problems, ""
    slowest = min((event for _card, event in told), key=lambda event: event["gb_s"])
    ceiling = min((link_ceiling(one, other)[1] or 0 for one in cards for other in cards if one is not other), default=0)
    facts = {
        "gb_s": round(slowest["gb_s"], 2),
        "ceiling": ceiling or None,
        "efficiency": round(slowest["gb_s"] / ceiling, 4) if ceiling else None,
        **{key: slowest[key] for key in ("bytes", "nccl", "ranks")},
        "wrong": sum(event["wrong"] for _card, event in told),
    }
    return facts, problems, ""


def links(cards: t.Sequence[Facts], outcomes: t.Sequence[t.Any], pairs: t.Any | None) -> Facts:
    """The account of what GPUs give to each other. *pairs* is None where there are not two that can be measured."""
    if pairs is None:
        reason = f"{len(cards)} GPU{'' if len(cards) == 1 else 's'} could be measured, and it takes two"
        return {
            "pairs": [],
            "all_reduce": None,
            "problems": [],
            "skipped": {"pairs": reason, "all_reduce": reason},
            "verdict": accept.PASSED,
        }
    rows, problems = judge_pairs(cards, pairs)
    reduced, more, reason = all_reduce(cards, outcomes)
    found = [*problems, *more]
    skipped = {"all_reduce": reason} if reason else {}
    return {"pairs": rows, "all_reduce": reduced, "problems": found, "skipped": skipped, "verdict": accept.worst(found)}


def findings(told: Facts) -> list[dict[str, str]]:
    """One for the pairs and one for the all-reduce. What was not measured is skipped, and has not passed."""
    rows, reduced = told["pairs"], told["all_reduce"]
    slow = min(rows, key=lambda row: float(row["gb_s"]), default=None)
    evidence = {
        "pairs": slow
        and f"{len(rows)} ways, the slowest from GPU {slow['gpus'][0]} to {slow['gpus'][1]} with {slow['gb_s']:g} GB/s",
        "all_reduce": reduced
        and f"{reduced['gb_s']:g} GB/s of each GPU, NCCL {reduced['nccl']}, {reduced['ranks']} GPUs",
    }
    made = []
    for name, figures in evidence.items():
        problems = [one for one in told["problems"] if one["test"] == name]
        status = accept.STATUSES[accept.worst(problems)] if problems or name not in told["skipped"] else "skip"
        made.append(
            {
                "id": f"gpu_accept.{name}",
                "status": status,
                "evidence": "; ".join(one["evidence"] for one in problems)
                or told["skipped"].get(name)
                or figures
                or "nothing was measured",
                "remedy": "; ".join(dict.fromkeys(one["next_step"] for one in problems)),
            }
        )
    return made
