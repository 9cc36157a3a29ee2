# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the role gpu_sharing: the parts of gpu_mode, gpu_mig and gpu_mps for one list of GPUs."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._conda import venv
from ansible_collections.rigwright.workstation.plugins.module_utils._core import record
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_due import is_due
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import nvml as gpu_nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.request import Request as Job
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.options import with_defaults
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode import plan as modes
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.control import MpsError
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import (
    NO_BINDING,
    NvmlError,
    Refusal,
    answer_of,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import checks, jobs
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import facts as facts
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import request as sharing

ROOT = "/"
# The Python of modules; python_environment makes it. The role, the user of that environment, is also the name of its set of files.
ENVIRONMENT = "/opt/rigwright/python"
ROLE = "gpu_sharing"
DIRECTORY = "/etc/rigwright"
RECORD = f"{DIRECTORY}/gpu_sharing.json"


class Request(t.TypedDict):
    """The options of the role, and what it needs besides."""

    state: str
    gpus: list[sharing.Entry]
    limits: list[dict[str, str]]
    jobs: list[JsonObject]
    when_clients: str
    python: str


class Records(t.TypedDict):
    """The record of daemons to write before daemons change, and the one to write after."""

    files_before: list[dict[str, str]]
    files: list[dict[str, str]]


NOTHING: sharing.Plan = {
    "requirements": [],
    "known": False,
    "apply_due": False,
    "modes": {"changed": False, "gpus": []},
    "mig": [],
    "mps": {"changed": False, "daemons": [], "hard_limits": []},
    "needs": "none",
    "pending": [],
    "findings": [],
}


class Unplannable(Exception):
    """The GPUs cannot be asked, or a module would refuse its part. ``result`` has more keys for the result of a module."""

    def __init__(self, message: str, result: t.Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.result = dict(result or {})


def read_record(tree: Tree, path: str) -> list[str]:
    """Return the daemons of the last run.

    :raises Refusal: the record is damaged.
    """
    remedy = "remove it; then stop daemons yourself that are no longer declared"
    try:
        found = record.read(tree.at(path), remedy, {"daemons": [str]})
    except record.Damaged as error:
        raise Refusal(str(error)) from error
    return list(found["daemons"]) if found else []


def record_text(names: t.Iterable[str]) -> str:
    """Return the record of daemons, as config_files writes data."""
    return json.dumps({"daemons": sorted(names)}, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def records(tree: Tree, declared: set[str], recorded: set[str], mps_changes: bool) -> Records:
    """Return the record of daemons to write before daemons change, and the one to write after, each empty if it is in place.

    The first has the daemons of earlier runs too, so that an interrupted run forgets none.
    """
    first, last = record_text(declared | recorded), record_text(declared)

    def due(text: str) -> bool:
        return is_due(tree, ROLE, [{"path": RECORD, "content": text}], [DIRECTORY])

    first_due = mps_changes and due(first)
    last_due = first != last if first_due else due(last)
    return {
        "files_before": [{"path": RECORD, "content": first}] if first_due else [],
        "files": [{"path": RECORD, "content": last}] if last_due else [],
    }


def environment_due(requirements: str, present: bool) -> bool:
    """Return whether python_environment would change the Python of modules for this role."""
    return venv.is_due(ENVIRONMENT, requirements, ROLE, present)


def plan_host(host: Host, request: Request) -> sharing.Plan:
    """Return the plan for the role. The keys that end in ``_due`` say which tasks would change something.

    :raises Unplannable: the GPUs cannot be asked, or a module would refuse its part of the request.
    """
    tree = Tree(ROOT)
    try:
        if request["state"] == "absent":
            return _plan_absent(host, tree, request["when_clients"])
        return {**_plan_present(host, tree, request), "directories": [{"path": DIRECTORY}]}
    except Refusal as error:
        raise Unplannable(f"{error}. Nothing was changed.") from error
    except NvmlError as error:
        raise Unplannable(f"The GPUs cannot be asked: {error}. Nothing was changed.", error.as_result()) from error
    except MpsError as error:
        result = {"error": error.name, "next_step": error.next_step}
        raise Unplannable(f"{error}. Nothing was changed.", result) from error


def _plan_present(host: Host, tree: Tree, request: Request) -> sharing.Plan:
    requests, problems = jobs.read(request["jobs"])
    problems = checks.problems(request["gpus"], request["limits"]) + problems
    if problems:
        return {**NOTHING, "requirements": problems, "environment_due": False, "files_before": [], "files": []}
    install = environment_due(request["python"], present=True)
    recorded = read_record(tree, RECORD)
    names = {daemon["name"] for row in request["gpus"] for daemon in row.get("mps") or []}
    if gpu_nvml.pynvml is not None:
        with gpu_nvml.Nvml() as nvml:
            found = plan(host, nvml, request["gpus"], request["limits"], request["when_clients"], recorded, requests)
    elif install:
        if host.check_mode:
            host.warn("nvidia-ml-py is not installed: the plan for the GPUs is known once it is.")
        found = NOTHING
    else:
        raise Unplannable(f"NVML does not answer: {answer_of(NO_BINDING).next_step}.")
    mps_changes = found["mps"]["changed"] if found["known"] else bool(names)
    return {**found, "environment_due": install, **records(tree, names, set(recorded), mps_changes)}


def _plan_absent(host: Host, tree: Tree, when_clients: str) -> sharing.Plan:
    """Plan the removal of MIG layouts and daemons. It needs no driver, and finds nothing on a host without the role."""
    in_place = is_due(tree, ROLE)
    found = _plan_nothing_shared(host, when_clients, read_record(tree, RECORD)) if in_place else NOTHING
    return {**found, "environment_due": environment_due("", present=False), "record_due": in_place}


def _plan_nothing_shared(host: Host, when_clients: str, recorded: list[str]) -> sharing.Plan:
    if gpu_nvml.pynvml is None:
        # After an interrupted removal.
        reason = "nvidia-ml-py is not installed"
    else:
        try:
            with gpu_nvml.Nvml() as nvml:
                return plan(host, nvml, [], [], when_clients, recorded)
        except NvmlError as error:
            reason = str(error)
    host.warn(f"What boots divide, and daemons of MPS, stay as they are: the GPUs cannot be asked ({reason}).")
    return NOTHING


def plan(
    host: Host,
    nvml: gpu_nvml.Nvml,
    gpus: list[sharing.Entry],
    limits: list[dict[str, str]],
    when_clients: str,
    recorded: list[str],
    requests: t.Sequence[Job] = (),
) -> sharing.Plan:
    """Plan the modes, MIG and MPS of all GPUs.

    :param gpus: the cards; none for the removal, where modes are left to gpu_mode, which needs no driver for it.
    :param requests: the jobs that are to share a card.
    :raises Refusal: one of the modules would refuse its part; the text names each problem.
    """
    request = sharing.read(gpus, nvml.cards())
    gone = [name for name in recorded if name not in {entry["name"] for entry in request.daemons}]
    daemons = request.daemons + [{"name": name, "state": "absent"} for name in gone]
    problems: list[str] = []

    def ask(preview: t.Callable[..., facts.Outcome], *arguments: t.Any) -> facts.Outcome:
        try:
            return preview(*arguments)
        except Refusal as refusal:
            problems.append(str(refusal))
            return facts.Outcome()

    mode = ask(facts.preview_modes, host, nvml, request.modes, ROOT) if gpus else facts.Outcome()
    mig = [(entry, ask(facts.preview_mig, nvml, entry, ROOT)) for entry in map(with_defaults, request.mig)]
    forget = facts.undeclared_mig(request.mig, ROOT)
    if forget:
        mig.append((with_defaults({"devices": forget, "persist": "none"}), facts.Outcome(changed=True)))
    mps = facts.Outcome(changed=True)
    # gpu_mps has to read the instances itself after gpu_mig has changed them.
    if not any(outcome.changed for _entry, outcome in mig):
        mps = ask(facts.preview_mps, host, nvml, daemons, limits, when_clients)
    if problems:
        raise Refusal("; ".join(problems))
    for text in [*mode.warnings, *(text for _entry, outcome in mig for text in outcome.warnings)]:
        host.warn(text)
    cards = [facts.gpu_of(nvml, card) for card in nvml.cards() if card.uuid in request.by_card]
    mps_changed = mps.changed and bool(daemons or limits)
    return {
        "requirements": [],
        "known": True,
        "apply_due": mode.changed or mps_changed or any(outcome.changed for _entry, outcome in mig),
        "modes": {"changed": mode.changed, "gpus": request.modes},
        "mig": [{**entry, "plans": outcome.plans, "changed": outcome.changed} for entry, outcome in mig],
        "mps": {"changed": mps_changed, "daemons": daemons, "hard_limits": limits},
        "needs": modes.worst([mode.needs, *(outcome.needs for _entry, outcome in mig)]),
        "pending": mps.pending,
        "findings": [
            *sharing.findings(cards, request.by_card),
            *jobs.findings(nvml, cards, request.by_card, requests),
        ],
    }
