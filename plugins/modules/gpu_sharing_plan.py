#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_sharing_plan
short_description: Tell whether the GPUs of a host are shared as declared, and whether the choice fits
description:
  - For the role C(gpu_sharing). It asks what M(rigwright.workstation.gpu_mode), M(rigwright.workstation.gpu_mig) and
    M(rigwright.workstation.gpu_mps) would do, all in one run, so that a host that is as declared needs no other. Nothing is changed.
  - What one of them would refuse fails this module, before any of them has written.
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
      - Nothing is ever changed. The modules that do have diffs.
requirements:
  - nvidia-ml-py, in the Python that runs the module or in C(/opt/rigwright/python). In check mode it may be missing, see RV(known).
options:
  gpus:
    description:
      - The cards. What is stated for a card goes before what is stated for V(all).
    type: list
    elements: dict
    required: true
    suboptions:
      device:
        description: UUID, PCI address or index, or V(all).
        type: str
        required: true
      users:
        description: Who shares the card, for RV(findings) alone. V(one) person, a V(team), or V(strangers) who do not trust each other.
        type: str
        choices: [one, team, strangers]
      jobs:
        description: What they run, for RV(findings) alone. V(saturating) jobs fill the card each by itself.
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
            description: Whether MIG is on.
            type: str
            choices: [enabled, disabled, unchanged]
          layout:
            description: The instances.
            type: list
            elements: dict
          when_busy:
            description: What happens when processes are in the way.
            type: str
            choices: [fail, skip]
          allow_reset:
            description: Whether the card may be reset.
            type: str
            choices: [never, gpu]
          stop_services:
            description: What to stop for a reset.
            type: list
            elements: str
      mps:
        description: Daemons as of M(rigwright.workstation.gpu_mps), without their devices. One that several cards have is one for all.
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
      - A file that the role leaves, with the daemons (C(daemons)) of its last run. Those that are no longer in O(gpus) are to go.
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
- name: Look whether the GPUs are shared as declared
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
  description: Whether the cards could be asked. Only in check mode they may not.
  returned: success
  type: bool
modes:
  description: What gpu_mode is to do, and whether it has anything to do (C(changed)).
  returned: success
  type: dict
  sample: {changed: false, gpus: [{device: all, persistence: true}]}
mig:
  description: What gpu_mig is to do, a request for all cards that get the same.
  returned: success
  type: list
  elements: dict
  sample: [{changed: true, devices: [GPU-5a4bb6c2-8a6c-11ee-b9d1-0242ac120002], mode: enabled, layout: [{profile: 1g.18gb, count: 7}]}]
mps:
  description: What gpu_mps is to do. Those in C(names) are to be there, those in C(known) were on record.
  returned: success
  type: dict
  sample: {changed: false, daemons: [{name: vision, devices: [GPU-5a4bb6c2-8a6c-11ee-b9d1-0242ac120002]}], names: [vision]}
needs:
  description: What is due until modes and MIG hold, as of gpu_mode.
  returned: success
  type: str
  sample: none
pending:
  description: What waits for clients of MPS to end.
  returned: success
  type: list
  elements: str
findings:
  description: For each card, how it is shared, and what speaks against it.
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
    # Before the first run, and when the last one was ended while it took things away.
    if gpu_nvml.pynvml is None and (module.check_mode or not module.params["gpus"]):
        module.warn("nvidia-ml-py is not there: what becomes of the GPUs is known once it is.")
        module.exit_json(changed=False, **NOTHING)
    gpu_nvml.respawn_where_needed(module)
    try:
        with gpu_nvml.Nvml() as nvml:
            result = plan(module, nvml)
    except Refusal as error:
        module.fail_json(msg=f"{error}. Nothing was changed.")
    except NvmlError as error:
        if not module.params["gpus"]:
            # Whoever asks for nothing can have it from a host whose driver is gone.
            module.warn(f"What boots divide, and daemons of MPS, stay as they are: the GPUs cannot be asked ({error}).")
            module.exit_json(changed=False, **NOTHING)
        module.fail_json(msg=f"The GPUs cannot be asked: {error}. Nothing was changed.", **error.as_result())
    except MpsError as error:
        module.fail_json(msg=f"{error}. Nothing was changed.", error=error.name, next_step=error.next_step)
    module.exit_json(changed=False, known=True, **result)


if __name__ == "__main__":
    main()
