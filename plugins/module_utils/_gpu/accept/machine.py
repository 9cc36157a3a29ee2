# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdict on the GPUs of a machine: memory under patterns, all GPUs loaded at once, the links between them. Pure."""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import verdict as accept
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import workers
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.figures import LANE_GB_S, figures
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.rows import (
    AllReduce,
    Figures,
    Links,
    MemoryTest,
    Pair,
    Problem,
    Request,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.verdict import (
    HARDWARE,
    NOT_MEASURED,
    SLOWER,
    problem,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.card_facts import Facts

# Each card has a power limit of its own. A card that is slower while the others work is held back by heat, or by the power supply.
TOGETHER_FLOOR = 0.90
# NVLink carries addresses and checks next to data: Azure's floor for two H100 is 335 of 450 GB/s. It is wide: no NVLink was measured here.
NVLINK_FLOOR = 0.60
# Without access between cards a copy takes the way over the host's memory, and two links at once: a third of one is usual.
PCIE_PAIR_FLOOR = 0.10
# Relative to the median of the pairs with the same kind of link.
LIKE = 0.80
LIKE_PAIRS = 3
# The least share of the free memory that can usually be allocated.
TAKEN = 0.80
CHECK_LINKS = "check gpu_health, `nvidia-smi topo -m` and `nvidia-smi nvlink -s`"


def memory(outcome: t.Any) -> tuple[MemoryTest | None, list[Problem], list[str]]:
    """Return the memory test, its problems and notes. The test is None where it was left out."""
    event = next(iter(outcome.of("memory")), None)
    if event is None:
        return None, [], []
    facts: MemoryTest = {
        "free_bytes": event["free_bytes"],
        "total_bytes": event["total_bytes"],
        "tested_bytes": event["tested_bytes"],
        "patterns": event["patterns"],
        "wrong": event["wrong"],
        "first": event["first"],
        "share": round(event["tested_bytes"] / event["free_bytes"], 4) if event["free_bytes"] else None,
        "seconds": round(event["seconds"], 2),
        "gb_s": round(event["gb_s"], 1),
    }
    problems, notes = [], []
    if event["wrong"]:
        first = event["first"]
        bits = ", ".join(map(str, first["bits"]))
        evidence = (
            f"{event['wrong']} words of {event['tested_bytes']} bytes were wrong;"
            f" the first with {first['pattern']} at byte {first['offset']} ({first['address']}):"
            f" {first['found']} instead of {first['expected']}, bits {bits}"
        )
        problems.append(problem(HARDWARE, "memory", evidence))
    if (facts["share"] or 0) < TAKEN:
        notes.append(f"memory: {facts['share'] or 0:.0%} of the free memory could be allocated, and was tested")
    return facts, problems, notes


def together(
    card: Facts, tests: t.Mapping[str, Figures], outcome: t.Any
) -> tuple[dict[str, Figures], list[Problem], list[str]]:
    """Return the rates of a card while all cards are loaded, with its rates alone; and problems and notes."""
    windows = [{**event, "event": "window"} for event in outcome.of("together")]
    facts = figures(card, windows, outcome.samples)
    problems: list[Problem] = []
    notes = []
    for test, row in facts.items():
        alone = tests[test]["value"] if test in tests else None
        share = round(row["value"] / alone, 4) if alone else None
        row["alone"], row["share"] = alone, share
        problems += [
            {**found, "test": f"{test}, all GPUs together"}
            for found in accept.judge_tests(card, {test: row})[0]
            if _is_own(test, found)
        ]
        if share is not None and not share >= TOGETHER_FLOOR:
            evidence = f"{row['value']:g} {row['unit']} with all GPUs loaded, {1 - share:.0%} less than alone"
            if test.startswith("matmul"):
                step = "check the power supplies, the airflow, and the clocks in `together`"
                problems.append(problem(SLOWER, f"{test}, all GPUs together", evidence, step))
            else:
                # All cards share the host's memory and the switches of PCIe.
                notes.append(f"{test}: {evidence}")
    return facts, problems, notes


def _is_own(test: str, found: Problem) -> bool:
    """Check that a problem is that of the card itself. Cards share the host: the rate of a copy with all GPUs says nothing about one."""
    return test.startswith("matmul") or "least of a healthy card" not in found["evidence"]


def later_problem(outcome: t.Any) -> Problem | None:
    """Return the problem of a program that failed after it had measured its card. :func:`all_reduce` reports a failed all-reduce."""
    failed = next(iter(outcome.of("failed")), None)
    found = accept.problem_of_ended(outcome)
    if failed:
        found = problem(HARDWARE, failed["step"] or "", failed["words"], accept.LOOK)
    elif not found and outcome.status != 0:
        found = problem(HARDWARE, "", f"the program ended with status {outcome.status}: {outcome.output}", accept.LOOK)
    if found and found["test"] == "all_reduce" and outcome.of("meeting"):
        return None
    return found


def unmeasured_steps(outcome: t.Any, request: Request) -> list[Problem]:
    """Return a problem for each step of a program that ended well, and has no figures of it."""
    counts = {"memory": (len(outcome.of("memory")), 1 if request["memory_share"] else 0)}
    if outcome.did("together"):
        counts["all GPUs together"] = (len(outcome.of("together")), workers.TOGETHER)
    return [
        problem(NOT_MEASURED, step, f"{count} of {wanted} results were measured", accept.LOOK)
        for step, (count, wanted) in counts.items()
        if count < wanted
    ]


# --- Between GPUs ---


def _name(card: Facts) -> str:
    return f"GPU {card['index']} ({card['uuid']})"


def link_ceiling(card: Facts, other: Facts) -> tuple[str, float | None]:
    """Return the kind of link between two cards, and its rate in one direction in GB/s; None where it is not known."""
    links = [link for link in (card["nvlink"] or {"links": []})["links"] if link["active"]]
    direct = [link for link in links if link["remote_pci_address"] == other["pci_address"]]
    switched = [link for link in links if link["remote"] == "switch"]
    other_switched = [
        link for link in (other["nvlink"] or {"links": []})["links"] if link["active"] and link["remote"] == "switch"
    ]
    used = direct or (min(switched, other_switched, key=len) if other_switched else [])
    if used:
        speeds = [link["speed_gb_s"] for link in used if link["speed_gb_s"] is not None]
        return "nvlink", None if len(speeds) < len(used) else round(sum(speeds), 1)
    ways = []
    for end in (card, other):
        lane, width = LANE_GB_S.get(end["pcie"]["max_generation"] or 0), end["pcie"]["max_width"]
        ways.append(lane * width if lane and width else None)
    return "pcie", None if None in ways else round(min(way for way in ways if way), 1)


def judge_pairs(cards: t.Sequence[Facts], outcome: t.Any) -> tuple[list[Pair], list[Problem]]:
    """Return a row for each copy between two cards, and the problems.

    :param cards: in the order of CUDA_VISIBLE_DEVICES.
    """
    rows: list[Pair] = []
    problems: list[Problem] = []
    for event in outcome.of("pair"):
        source, target = cards[event["source"]], cards[event["target"]]
        link, ceiling = link_ceiling(source, target)
        rows.append(
            {
                "gpus": [source["index"], target["index"]],
                "link": link,
                "peer_access": event["peer_access"],
                "gb_s": round(event["gb_s"], 2),
                "latency_us": round(event["latency_us"], 2),
                "ceiling": ceiling,
                "efficiency": round(event["gb_s"] / ceiling, 4) if ceiling else None,
                "wrong": event["wrong"],
            }
        )
        problems += _judge_pair(f"{_name(source)} to {_name(target)}", rows[-1])
    for link in ("nvlink", "pcie"):
        alike = [row for row in rows if row["link"] == link]
        middle = statistics.median([row["gb_s"] for row in alike]) if len(alike) >= LIKE_PAIRS else 0
        problems += [
            problem(
                SLOWER,
                "pairs",
                f"GPU {row['gpus'][0]} to {row['gpus'][1]}: {row['gb_s']:g} GB/s, {middle:g} is the median",
                CHECK_LINKS,
            )
            for row in alike
            if not row["gb_s"] >= LIKE * middle
        ]
    broken = accept.problem_of_ended(outcome) or _failed(outcome)
    if broken:
        trying = (outcome.of("trying") or [None])[-1]
        where = f"{_name(cards[trying['source']])} to {_name(cards[trying['target']])}: " if trying else ""
        problems.append({**broken, "test": "pairs", "evidence": where + broken["evidence"]})
    elif len(rows) < len(cards) * (len(cards) - 1):
        evidence = f"{len(rows)} of {len(cards) * (len(cards) - 1)} copies were measured"
        problems.append(problem(NOT_MEASURED, "pairs", evidence, accept.LOOK))
    return rows, problems


def _judge_pair(title: str, row: Pair) -> t.Iterator[Problem]:
    if row["wrong"]:
        yield problem(HARDWARE, "pairs", f"{title}: the copy differs from its source")
    if row["link"] == "nvlink" and not row["peer_access"]:
        yield problem(HARDWARE, "pairs", f"{title}: NVLink is active, and CUDA gives no access", CHECK_LINKS)
    elif row["link"] == "nvlink" and row["efficiency"] is not None and not row["efficiency"] >= NVLINK_FLOOR:
        least = f"{row['gb_s']:g} of {row['ceiling']:g} GB/s, {row['efficiency']:.0%}; {NVLINK_FLOOR:.0%} is the least"
        yield problem(HARDWARE, "pairs", f"{title}: {least}", CHECK_LINKS)
    elif row["link"] == "pcie" and row["efficiency"] is not None and not row["efficiency"] >= PCIE_PAIR_FLOOR:
        least = (
            f"{row['gb_s']:g} of {row['ceiling']:g} GB/s, {row['efficiency']:.1%}; {PCIE_PAIR_FLOOR:.0%} is the least"
        )
        yield problem(SLOWER, "pairs", f"{title}: {least}", f"{CHECK_LINKS}, the slots, and the IOMMU's setting")


def _failed(outcome: t.Any) -> Problem | None:
    failed = next(iter(outcome.of("failed")), None)
    if failed:
        return problem(HARDWARE, "", failed["words"], accept.LOOK)
    if outcome.status != 0:
        return problem(HARDWARE, "", f"the program ended with status {outcome.status}: {outcome.output}", accept.LOOK)
    return None


def all_reduce(cards: t.Sequence[Facts], outcomes: t.Sequence[t.Any]) -> tuple[AllReduce | None, list[Problem], str]:
    """Return NCCL's sum over these cards, its problems, and the reason where it was not measured."""
    sums = [(card, event) for card, outcome in zip(cards, outcomes) for event in outcome.of("all_reduce")]
    skipped = [
        event["words"] for outcome in outcomes for event in outcome.of("skipped") if event["test"] == "all_reduce"
    ]
    problems = [
        problem(HARDWARE, "all_reduce", f"{_name(card)}: {event['wrong']} numbers of the sum are wrong")
        for card, event in sums
        if event["wrong"]
    ]
    began = [card for card, outcome in zip(cards, outcomes) if outcome.of("meeting")]
    if skipped or not began:
        return None, problems, skipped[0] if skipped else "no GPU got so far"
    absent = [_name(card) for card in began if card not in [summed for summed, _event in sums]]
    if absent:
        errors = [event["words"] for outcome in outcomes for event in outcome.of("failed")]
        why = errors[0] if errors else f"not done in time; {len(began)} of {len(cards)} GPUs began"
        problems.append(problem(HARDWARE, "all_reduce", f"{', '.join(absent)}: {why}", CHECK_LINKS))
        return None, problems, ""
    slowest = min((event for _card, event in sums), key=lambda event: event["gb_s"])
    ceiling = min(
        (link_ceiling(card, other)[1] or 0 for card in cards for other in cards if card is not other), default=0
    )
    facts: AllReduce = {
        "gb_s": round(slowest["gb_s"], 2),
        "ceiling": ceiling or None,
        "efficiency": round(slowest["gb_s"] / ceiling, 4) if ceiling else None,
        "bytes": slowest["bytes"],
        "nccl": slowest["nccl"],
        "ranks": slowest["ranks"],
        "wrong": sum(event["wrong"] for _card, event in sums),
    }
    return facts, problems, ""


def links(cards: t.Sequence[Facts], outcomes: t.Sequence[t.Any], pairs: t.Any | None) -> Links:
    """Return the report of the links between GPUs.

    :param pairs: the outcome for the pairs; None where fewer than two GPUs could be measured.
    """
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


def findings(report: Links) -> list[dict[str, str]]:
    """Return a finding for the pairs and one for the all-reduce. A test that was not measured is skipped."""
    rows, reduced = report["pairs"], report["all_reduce"]
    slow = min(rows, key=lambda row: float(row["gb_s"]), default=None)
    evidence = {
        "pairs": slow
        and f"{len(rows)} ways, the slowest from GPU {slow['gpus'][0]} to {slow['gpus'][1]} with {slow['gb_s']:g} GB/s",
        "all_reduce": reduced
        and f"{reduced['gb_s']:g} GB/s of each GPU, NCCL {reduced['nccl']}, {reduced['ranks']} GPUs",
    }
    found = []
    for name, measured in evidence.items():
        problems = [row for row in report["problems"] if row["test"] == name]
        status = accept.status_of(problems) if problems or name not in report["skipped"] else "skip"
        found.append(
            {
                "id": f"gpu_accept.{name}",
                "status": status,
                "evidence": "; ".join(row["evidence"] for row in problems)
                or report["skipped"].get(name)
                or measured
                or "nothing was measured",
                "remedy": "; ".join(dict.fromkeys(row["next_step"] for row in problems)),
            }
        )
    return found
