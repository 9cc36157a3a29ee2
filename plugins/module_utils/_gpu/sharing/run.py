# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the role gpu_sharing: the parts of gpu_mode, gpu_mig and gpu_mps for one list of GPUs."""

from __future__ import annotations

import json
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import nvml as gpu_nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode import plan as modes
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import facts as facts
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import request as sharing

ROOT = "/"


NOTHING: dict[str, t.Any] = {
    "known": False,
    "modes": {"changed": False, "gpus": []},
    "mig": [],
    "mps": {"changed": False, "daemons": [], "names": [], "known": []},
    "needs": "none",
    "pending": [],
    "findings": [],
}


def read_record(tree: Tree, path: str) -> list[str]:
    """Return the daemons of the last run.

    :raises Refusal: the record is damaged.
    """
    try:
        return [str(name) for name in json.loads(tree.text(path) or "{}").get("daemons", [])]
    except (ValueError, AttributeError, TypeError) as error:
        raise Refusal(
            f"{path} is damaged ({error}): remove it; then stop daemons yourself that are no longer declared"
        ) from error


def plan(module: AnsibleModule, nvml: gpu_nvml.Nvml) -> dict[str, t.Any]:
    """Plan the modes, MIG and MPS of all GPUs.

    :raises Refusal: one of the modules would refuse its part; the text names each problem.
    """
    params = module.params
    request = sharing.read(params["gpus"], nvml.cards())
    recorded = read_record(Tree(ROOT), params["record"])
    gone = [name for name in recorded if name not in {entry["name"] for entry in request.daemons}]
    daemons = request.daemons + [{"name": name, "state": "absent"} for name in gone]
    problems: list[str] = []

    def ask(preview: t.Callable[..., facts.Outcome], *arguments: t.Any) -> facts.Outcome:
        try:
            return preview(module, nvml, *arguments)
        except Refusal as refusal:
            problems.append(str(refusal))
            return facts.Outcome()

    mode = ask(facts.preview_modes, request.modes, ROOT)
    mig = [(entry, ask(facts.preview_mig, entry, ROOT)) for entry in map(facts.mig_parameters, request.mig)]
    forget = facts.undeclared_mig(request.mig, ROOT)
    if forget:
        mig.append((facts.mig_parameters({"devices": forget, "persist": "none"}), facts.Outcome(changed=True)))
    mps = facts.Outcome(changed=True)
    # gpu_mps has to read the instances itself after gpu_mig has changed them.
    if not any(outcome.changed for _entry, outcome in mig):
        mps = ask(facts.preview_mps, daemons, params["limits"], params["when_clients"])
    if problems:
        raise Refusal("; ".join(problems))
    for text in [*mode.warnings, *(text for _entry, outcome in mig for text in outcome.warnings)]:
        module.warn(text)
    gpus = [facts.gpu_of(nvml, card) for card in nvml.cards() if card.uuid in request.by_card]
    return {
        "modes": {"changed": mode.changed, "gpus": request.modes},
        "mig": [{**entry, "changed": outcome.changed} for entry, outcome in mig],
        "mps": {
            "changed": mps.changed and bool(daemons or params["limits"]),
            "daemons": daemons,
            "names": [entry["name"] for entry in request.daemons],
            "known": recorded,
        },
        "needs": modes.worst([mode.needs, *(outcome.needs for _entry, outcome in mig)]),
        "pending": mps.pending,
        "findings": sharing.findings(gpus, request.by_card),
    }
