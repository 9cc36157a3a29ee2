#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_sharing_plan
short_description: Plan the sharing of the GPUs of a host, and check whether the choice fits the users
description:
  - For the role C(gpu_sharing). It runs M(rigwright.workstation.gpu_mode), M(rigwright.workstation.gpu_mig) and
    M(rigwright.workstation.gpu_mps) in check mode, all in one run. A host that is as declared needs no other run. Nothing is changed.
  - A request that one of them would refuse fails this module, before any of them writes.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - It changes nothing. The modules that apply the plan have diffs.
requirements:
  - nvidia-ml-py, in the Python that runs the module or in C(/opt/rigwright/python). In check mode it may be missing, see RV(known).
options:
  gpus:
    description:
      - The cards. Values for one card win over those for V(all).
    type: list
    elements: dict
    required: true
    suboptions:
      device:
        description: UUID, PCI address or index, or V(all).
        type: str
        required: true
      users:
        description: The users of the card, only for RV(findings). V(one) person, a V(team), or V(strangers) who do not trust each other.
        type: str
        choices: [one, team, strangers]
      jobs:
        description: Their jobs, only for RV(findings). Each of the V(saturating) jobs fills the card.
        type: str
        choices: [small, saturating, mixed]
      persistence:
        description: As of M(rigwright.workstation.gpu_mode).
        type: bool
      compute_mode:
        description: As of M(rigwright.workstation.gpu_mode).
        type: str
        choices: [default, exclusive_process, prohibited]
      power_limit:
        description: As of M(rigwright.workstation.gpu_mode).
        type: str
      locked_gpu_clocks:
        description: As of M(rigwright.workstation.gpu_mode).
        type: raw
      locked_memory_clocks:
        description: As of M(rigwright.workstation.gpu_mode).
        type: raw
      accounting:
        description: As of M(rigwright.workstation.gpu_mode).
        type: bool
      ecc:
        description: As of M(rigwright.workstation.gpu_mode).
        type: bool
      time_slice:
        description: As of M(rigwright.workstation.gpu_mode).
        type: str
        choices: [default, short, medium, long]
      mig:
        description: C(mode), C(layout), C(when_busy), C(allow_reset), C(stop_services) as of M(rigwright.workstation.gpu_mig).
        type: dict
        suboptions:
          mode:
            description: The MIG mode.
            type: str
            choices: [enabled, disabled, unchanged]
          layout:
            description: The instances.
            type: list
            elements: dict
          when_busy:
            description: The action when processes block a change.
            type: str
            choices: [fail, skip]
          allow_reset:
            description: Whether the card may be reset.
            type: str
            choices: [never, gpu]
          stop_services:
            description: Services to stop for a reset.
            type: list
            elements: str
      mps:
        description: Daemons as of M(rigwright.workstation.gpu_mps), without their devices. A daemon under several cards serves all of them.
        type: list
        elements: dict
  limits:
    description:
      - Limits that the kernel enforces, as C(hard_limits) of M(rigwright.workstation.gpu_mps).
    type: list
    elements: dict
    default: []
  record:
    description:
      - The record of the role, with the daemons (C(daemons)) of its last run. Those that are no longer in O(gpus) are removed.
    type: path
    default: /etc/rigwright/gpu_sharing.json
  when_clients:
    description:
      - As of M(rigwright.workstation.gpu_mps).
    type: str
    choices: [fail, drain, defer]
    default: defer
seealso:
  - module: rigwright.workstation.gpu_info
"""

EXAMPLES = r"""
- name: Check whether the GPUs are shared as declared
  rigwright.workstation.gpu_sharing_plan:
    gpus:
      - device: all
        users: team
        jobs: small
        persistence: true
        mps:
          - {name: vision, active_thread_percentage: 50, memory_limits: {all: 40G}}
  register: plan
"""

RETURN = r"""
known:
  description: Whether the cards could be read. It can be false in check mode, and for an empty request.
  returned: success
  type: bool
modes:
  description: The options of gpu_mode, and whether they change anything (C(changed)).
  returned: success
  type: dict
  sample: {changed: false, gpus: [{device: all, persistence: true}]}
mig:
  description: All options of gpu_mig, a row for the cards with the same settings, and whether they change anything (C(changed)).
  returned: success
  type: list
  elements: dict
  sample:
    - changed: true
      devices: [GPU-5a4bb6c2-8a6c-11ee-b9d1-0242ac120002]
      mode: enabled
      layout: [{profile: 1g.18gb, count: 7}]
      when_busy: fail
      allow_reset: never
      stop_services: []
      persist: unit
mps:
  description: The daemons of gpu_mps, and whether they change anything (C(changed)). C(names) are declared, C(known) were recorded.
  returned: success
  type: dict
  sample: {changed: false, daemons: [{name: vision, devices: [GPU-5a4bb6c2-8a6c-11ee-b9d1-0242ac120002]}], names: [vision]}
needs:
  description: The action that is due until modes and MIG are active, as of gpu_mode.
  returned: success
  type: str
  sample: none
pending:
  description: The changes that wait until clients of MPS have ended.
  returned: success
  type: list
  elements: str
findings:
  description: For each card, how it is shared, and the problems of the choice.
  returned: success
  type: list
  elements: dict
  sample:
    - id: gpu_sharing.gpu0
      status: pass
      evidence: "NVIDIA H200 at 0000:41:00.0: mps for team and small jobs"
      remedy: ""
nvml_error:
  description: The stable name of NVML's error.
  returned: when NVML failed
  type: str
  sample: LIB_RM_VERSION_MISMATCH
next_step:
  description: What to do about it.
  returned: when NVML failed
  type: str
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import nvml as gpu_nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode.run import OPTIONS
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.control import MpsError
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError, Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import request as sharing
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing.run import NOTHING, plan

GPU: dict[str, dict[str, t.Any]] = {
    **OPTIONS,
    "users": {"type": "str", "choices": [*sharing.USERS]},
    "jobs": {"type": "str", "choices": [*sharing.JOBS]},
    "mig": {
        "type": "dict",
        "options": {
            "mode": {"type": "str", "choices": ["enabled", "disabled", "unchanged"]},
            "layout": {"type": "list", "elements": "dict"},
            "when_busy": {"type": "str", "choices": ["fail", "skip"]},
            "allow_reset": {"type": "str", "choices": ["never", "gpu"]},
            "stop_services": {"type": "list", "elements": "str"},
        },
    },
    "mps": {"type": "list", "elements": "dict"},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "gpus": {"type": "list", "elements": "dict", "required": True, "options": GPU},
            "limits": {"type": "list", "elements": "dict", "default": []},
            "record": {"type": "path", "default": "/etc/rigwright/gpu_sharing.json"},
            "when_clients": {"type": "str", "choices": ["fail", "drain", "defer"], "default": "defer"},
        },
        supports_check_mode=True,
    )
    gpu_nvml.respawn_where_possible()
    # Before the first run, and after an interrupted removal.
    if gpu_nvml.pynvml is None and (module.check_mode or not module.params["gpus"]):
        module.warn("nvidia-ml-py is not installed: the plan for the GPUs is known once it is.")
        module.exit_json(changed=False, **NOTHING)
    gpu_nvml.respawn_where_needed(module)
    try:
        with gpu_nvml.Nvml() as nvml:
            result = plan(module, nvml)
    except Refusal as error:
        module.fail_json(msg=f"{error}. Nothing was changed.")
    except NvmlError as error:
        if not module.params["gpus"]:
            # An empty request is fine on a host whose driver is gone.
            module.warn(f"What boots divide, and daemons of MPS, stay as they are: the GPUs cannot be asked ({error}).")
            module.exit_json(changed=False, **NOTHING)
        module.fail_json(msg=f"The GPUs cannot be asked: {error}. Nothing was changed.", **error.as_result())
    except MpsError as error:
        module.fail_json(msg=f"{error}. Nothing was changed.", error=error.name, next_step=error.next_step)
    module.exit_json(changed=False, known=True, **result)


if __name__ == "__main__":
    main()
