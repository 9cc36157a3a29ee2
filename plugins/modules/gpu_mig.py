#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_mig
short_description: Divide GPUs by MIG, keeping what is in use
description:
  - Brings GPUs to a MIG mode and a layout. The placement is found by an exact search over what the card itself says is possible, and it is
    the one that keeps the most existing instances, so that users' C(CUDA_VISIBLE_DEVICES=MIG-...) stays valid.
  - An instance in which a process runs is never removed, and no other GPU is touched. Only idle instances go that are too many, or stand
    where something else has to.
  - Everything is judged before anything is written. A layout that the card cannot have is refused with what it can, and the nearest
    layouts that fit.
  - Each GPU is a transaction. When a step fails, what was made is removed and what was removed is made again; the module then fails with
    both states. What was asked is read back before it counts as done.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - UUIDs of instances to come are not known, and some drivers tell profiles only with MIG on.
      - It waits for no process, and tells what is done once they have ended.
  diff_mode:
    support: full
    details:
      - Shows what stands in each memory slot.
requirements:
  - nvidia-ml-py, in the Python that runs the module or in C(/opt/rigwright/python).
  - A driver that tells names of profiles, which those of CUDA 12 do.
options:
  devices:
    description:
      - GPUs by UUID or by PCI address, or V(all). An index is taken with a warning, since a change of hardware gives it to another GPU.
      - With V(all), cards without MIG are left as they are, as long as one has it. One that is named is refused.
      - It is required, except with O(mig_parted), whose configuration says it.
    type: list
    elements: str
  mode:
    description:
      - Whether MIG is on. A GPU that has instances, and shall have MIG off, loses the idle ones; busy ones stop it.
      - GPUs before Hopper are reset by a change of mode; see O(allow_reset).
    type: str
    choices: [enabled, disabled, unchanged]
    default: unchanged
  layout:
    description:
      - The instances that the GPU shall have, and no others. An empty list means none; without it they stay as they are.
    type: list
    elements: dict
    suboptions:
      profile:
        description:
          - Name of the profile as the card has it, such as V(3g.71gb) or V(1g.24gb+gfx).
          - V(1c.3g.71gb) counts compute instances instead, which share GPU instances as far as they have room.
        type: str
        required: true
      count:
        description: How many.
        type: int
        default: 1
      start:
        description: The memory slot where it has to start. Without it, where it disturbs least.
        type: int
      compute_instances:
        description:
          - Its compute instances, as V(1c), V(2c). Without it, one with all of the GPU instance.
        type: list
        elements: str
  mig_parted:
    description:
      - A configuration of nvidia-mig-parted instead of O(mode) and O(layout).
    type: dict
    suboptions:
      config:
        description:
          - Its content, with C(version) and C(mig-configs). What nvidia-mig-parted refuses is refused.
          - C(mig-enabled) without instances is C(mig-devices) with an empty mapping. C(device-filter) may name the subsystem as well,
            as C(0x233010DE:0x16C110DE). With C(devices) V(all), cards without MIG are left as they are.
        type: dict
        required: true
      selected:
        description: Which of its configurations.
        type: str
        required: true
  when_busy:
    description:
      - What happens when processes are in the way. V(fail) names them with their users and commands, V(skip) leaves that GPU as it is,
        V(wait) waits for O(busy_timeout) and then fails.
    type: str
    choices: [fail, skip, wait]
    default: fail
  busy_timeout:
    description: Seconds to wait with O(when_busy=wait).
    type: int
    default: 300
  allow_reset:
    description:
      - Whether a GPU that changes its mode only by a reset (Ampere) may be reset. With V(never) nothing is written to it, not even the
        mode, since an idle GPU resets itself for that; it is returned as RV(needs).
    type: str
    choices: [never, gpu]
    default: never
  stop_services:
    description:
      - Services that hold GPUs, such as V(nvidia-persistenced) and V(nvidia-dcgm). Those that run are stopped for a reset, and only then,
        and started again also when it fails.
    type: list
    elements: str
    default: []
  keep_instances:
    description:
      - Keep as many instances as can be. Without it they are packed as on an empty card, which leaves the most room; busy ones stay.
    type: bool
    default: true
  persist:
    description:
      - A reboot always takes the instances, and from Hopper on the mode as well. V(unit) leaves a systemd unit that runs this module again
        with the same parameters at every boot, before CDI is refreshed and containers start (C(rigwright-gpu-mig.service)).
      - GPUs that other tasks have declared keep what they have. V(none) takes it away from the GPUs of this task, and without O(mode) and
        O(layout) also from one that is gone, named by its UUID. V(unchanged) leaves it as it is, as the unit itself has to.
    type: str
    choices: [unit, none, unchanged]
    default: unit
  refresh_cdi:
    description:
      - Restart C(nvidia-cdi-refresh.service) of the container toolkit when instances have changed, where there is one.
    type: str
    choices: [auto, never]
    default: auto
notes:
  - When several GPUs are changed and one fails, those before it keep their new layout; they are returned.
  - NVML counts processes of the whole host only where it is asked in the host's own namespace of process ids. The driver itself does not
    remove an instance that is in use, and everything is put back then.
seealso:
  - name: NVIDIA Multi-Instance GPU user guide
    description: Profiles and placements of each card.
    link: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/
  - name: nvidia-mig-parted
    description: The tool whose configurations can be used.
    link: https://github.com/NVIDIA/mig-parted
"""

EXAMPLES = r"""
- name: Divide one H200 for one large and three small jobs
  rigwright.workstation.gpu_mig:
    devices: [GPU-8f6f1d5c-4f3a-5a1e-9d6e-3f1d2c4b5a69]
    mode: enabled
    layout:
      - {profile: 3g.71gb}
      - {profile: 1g.18gb, count: 3}

- name: Two jobs with memory of their own that share one instance's engines
  rigwright.workstation.gpu_mig:
    devices: ["0000:41:00.0"]
    mode: enabled
    layout:
      - {profile: 3g.71gb, start: 4, compute_instances: [2c, 1c]}

- name: Use a configuration of nvidia-mig-parted
  rigwright.workstation.gpu_mig:
    mig_parted:
      config: "{{ lookup('ansible.builtin.file', 'config.yaml') | from_yaml }}"
      selected: all-balanced

- name: Switch MIG off on an A100, whose reset needs some services to let go
  rigwright.workstation.gpu_mig:
    devices: [all]
    mode: disabled
    allow_reset: gpu
    stop_services: [nvidia-persistenced, nvidia-dcgm]
"""

RETURN = r"""
gpus:
  description:
    - The GPUs of the task in NVML's order, as they are, or in check mode will be. On failure, those that were done before.
  returned: always, where GPUs could be judged
  type: list
  elements: dict
  contains:
    index: {description: Its index in NVML., type: int, sample: 0}
    uuid: {description: Its UUID., type: str, sample: GPU-8f6f1d5c-4f3a-5a1e-9d6e-3f1d2c4b5a69}
    pci_address: {description: Its address., type: str, sample: "0000:41:00.0"}
    name: {description: Its name., type: str, sample: NVIDIA H200}
    mode: {description: V(enabled) or V(disabled); null where the card has no MIG., type: str, sample: enabled}
    pending: {description: The mode after the next reset; null where the card has no MIG., type: str, sample: enabled}
    instances:
      description: GPU instances in order of their slots. Ids are -1 and UUIDs empty for those to come, in check mode.
      type: list
      elements: dict
      sample:
        - profile: 3g.71gb
          start: 4
          id: 1
          pids: []
          compute_instances: [{slices: 3, start: 0, id: 0, uuid: MIG-d050f3f7-0a52-5d4e-acf6-15050d5d0bef}]
    slots: {description: What stands in which memory slot; empty with MIG off., type: list, elements: str, sample: ["slot 0: free"]}
    changes: {description: "What was done, or would be.", type: list, elements: str, sample: ["create 3g.71gb at slot 4"]}
    needs: {description: V(gpu_reset) where the mode can only change with what O(allow_reset) forbids., type: str, sample: none}
    skipped: {description: Whether it was left as it is since processes are in the way., type: bool, sample: false}
    uuid_changes:
      description: For each UUID of an instance that is gone, the one that serves instead; null where none does.
      type: dict
      sample: {MIG-e25441f7-14b7-5bd8-a1bb-1f052b7aae4d: MIG-831304f6-dec6-5d91-b14f-7404ebdb2bdc}
needs:
  description: V(gpu_reset) where a GPU was left as it is since it would have to be reset, else V(none).
  returned: success
  type: str
  sample: none
mig_parted:
  description: The GPUs of the task as a configuration of nvidia-mig-parted, as they are. It has no place for the slots.
  returned: success
  type: dict
  sample: {version: v1, mig-configs: {current: [{devices: [0], mig-enabled: true, mig-devices: {1g.18gb: 7}}]}}
boot:
  description: Paths that changed for the next boot.
  returned: success
  type: list
  elements: str
  sample: [/etc/systemd/system/rigwright-gpu-mig.service]
cdi_refreshed:
  description: Whether the specification for containers was written anew.
  returned: success
  type: bool
  sample: true
busy:
  description: The processes in the way. Null for what cannot be seen, as of a process in another namespace.
  returned: when O(when_busy) made it fail
  type: list
  elements: dict
  sample: [{gpu: GPU-8f6f1d5c-4f3a-5a1e-9d6e-3f1d2c4b5a69, pid: 4242, user: alice, command: python3 train.py}]
nvml_error:
  description: Name of NVML's error, without C(NVML_ERROR_); null when all calls succeeded and the GPU is not what was asked.
  returned: when NVML failed
  type: str
  sample: INSUFFICIENT_RESOURCES
function:
  description: The function of NVML that failed.
  returned: when NVML failed
  type: str
  sample: nvmlDeviceCreateGpuInstanceWithPlacement
next_step:
  description: What to do about it.
  returned: when NVML failed
  type: str
  sample: "it does not fit beside what the GPU has already: remove instances, or ask for less"
restored:
  description: Whether the GPU is as it was.
  returned: when a plan failed
  type: bool
  sample: true
before:
  description: The GPU before, as in RV(gpus).
  returned: when a plan failed
  type: dict
now:
  description: The GPU as it is now; null where it no longer answers.
  returned: when a plan failed
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import boot as mig_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import run as mig_run
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml, respawn_where_needed
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError, Refusal

ROOT = "/"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "devices": {"type": "list", "elements": "str"},
            "mode": {"type": "str", "choices": ["enabled", "disabled", "unchanged"], "default": "unchanged"},
            "layout": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "profile": {"type": "str", "required": True},
                    "count": {"type": "int", "default": 1},
                    "start": {"type": "int"},
                    "compute_instances": {"type": "list", "elements": "str"},
                },
            },
            "mig_parted": {
                "type": "dict",
                "options": {
                    "config": {"type": "dict", "required": True},
                    "selected": {"type": "str", "required": True},
                },
            },
            "when_busy": {"type": "str", "choices": ["fail", "skip", "wait"], "default": "fail"},
            "busy_timeout": {"type": "int", "default": 300},
            "allow_reset": {"type": "str", "choices": ["never", "gpu"], "default": "never"},
            "stop_services": {"type": "list", "elements": "str", "default": []},
            "keep_instances": {"type": "bool", "default": True},
            "persist": {"type": "str", "choices": ["unit", "none", "unchanged"], "default": "unit"},
            "refresh_cdi": {"type": "str", "choices": ["auto", "never"], "default": "auto"},
        },
        required_one_of=[("devices", "mig_parted")],
        mutually_exclusive=[("layout", "mig_parted")],
        supports_check_mode=True,
    )
    respawn_where_needed(module)
    try:
        with Nvml() as nvml, module_lock(module, "gpu_mig"):
            result = mig_run.run(module, nvml, module.params, mig_boot.PROGRAM, ROOT)
    except mig_run.Stopped as stopped:
        module.fail_json(msg=str(stopped), **stopped.result)
    except Refusal as refusal:
        module.fail_json(msg=f"{refusal}. Nothing was changed.")
    except NvmlError as error:
        module.fail_json(msg=f"{error}. Nothing was changed.", **error.as_result())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
