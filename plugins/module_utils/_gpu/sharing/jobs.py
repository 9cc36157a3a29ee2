# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The jobs that are to share a card at once: whether they fit, and what that costs, as gpu_fit estimates it."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import (
    Finding,
    Problem,
    finding,
    problem,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import cards, nets, source
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.request import Request, parse
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.together import together
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing.request import (
    EXCLUSIVE,
    MIG,
    MPS,
    Entry,
    Gpu,
    mode_of,
)

VARIABLE = "gpu_sharing_jobs"
FINDING = "gpu_sharing.jobs"
_ORDER = ("skip", "pass", "warn")


def read(rows: t.Sequence[JsonObject]) -> tuple[list[Request], list[Problem]]:
    """Read the jobs, with the files of their models, and return them and what is wrong with them."""
    requests, problems = [], []
    if len(rows) == 1:
        problems.append(problem(VARIABLE, "has one job", "name all jobs that share a card, or none"))
    for row in rows:
        try:
            requests.append(_job(row))
        except Refusal as refusal:
            name = row.get("name") or row["model"]
            problems.append(problem(VARIABLE, f"has {name}, which cannot be estimated: {refusal}", "correct this job"))
    return requests, problems


def _job(row: JsonObject) -> Request:
    given = {key: value for key, value in row.items() if value is not None}
    model = str(given.pop("model"))
    if source.is_entry(model):
        raise Refusal("`model` is a Python entry point, whose code the role does not run: give its config.json")
    if model not in nets.NAMES and not os.path.isabs(model):
        raise Refusal(f"`model` is {model}: give a name of torchvision, or the absolute path of a config.json")
    return parse(source.described(given, model))


def findings(
    nvml: Nvml, gpus: t.Sequence[Gpu], by_card: t.Mapping[str, Entry], jobs: t.Sequence[Request]
) -> list[Finding]:
    """Return a finding on the jobs for all cards of the list; none without jobs."""
    if not jobs:
        return []
    # Cards of one model in one mode are alike.
    alike = {(gpu.card.name, mode_of(by_card[gpu.card.uuid])): gpu for gpu in gpus}
    found = [
        _on(name, mode, int(nvml.call("nvmlDeviceGetMemoryInfo", gpu.card.handle).total), jobs)
        for (name, mode), gpu in alike.items()
    ]
    worst = max((status for status, _evidence, _remedy in found), key=_ORDER.index, default="skip")
    evidence = "; ".join(evidence for _status, evidence, _remedy in found) or "no card is declared"
    remedies = dict.fromkeys(remedy for status, _evidence, remedy in found if status == worst)
    return [finding(FINDING, worst, evidence, "; ".join(remedies))]


def _on(name: str, mode: str, size: int, jobs: t.Sequence[Request]) -> tuple[str, str, str]:
    """Return status, evidence and remedy for one card."""
    if mode == MIG:
        return "skip", f"{name}: gpu_fit does not know the rates of MIG instances", "compare by `gpu-fit` for each job"
    if mode == EXCLUSIVE:
        return "warn", f"{name}: exclusive_process lets one process on the card", "set `compute_mode: default`"
    try:
        card = cards.find(name)
    except Refusal as refusal:
        return "skip", str(refusal), "estimate with `gpu-fit` for a card of the table"
    both = together(jobs, card, size)
    need = both["need_gib"]
    fits = {"yes": "fit", "no": "do not fit", "tight": "may not fit"}[both["fits"]]
    evidence = f"{' and '.join(both['jobs'])} {fits} at once on {name}: {need['low']} to {need['high']} of {size / cards.GIB:.1f} GiB"
    if both["slowdown"]:
        way, factor = ("under MPS", "mps") if mode == MPS else ("by time slices", "time_sliced")
        evidence += f", and take some {both['slowdown'][factor]:g} times as long {way} ({both['source']})"
    else:
        evidence += "; what more than two cost each other was not measured"
    if both["fits"] == "tight":
        return "warn", evidence, "take smaller batches, and see `memory_limits` of a daemon under `mps`"
    # Under MPS two jobs that fill the card end up to a tenth earlier than in a queue, by time slices later.
    queue = both["fits"] == "no" or (both["kind"] == "full" and mode != MPS)
    return "warn" if queue else "pass", evidence, both["advice"]
