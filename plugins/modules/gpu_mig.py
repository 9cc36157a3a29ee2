#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_mig
short_description: Divide GPUs by MIG, keeping what is in use
description:
  - Sets the MIG mode and the layout of GPUs. An exact search over the placements of the card finds the layout that keeps the most existing
    instances, so that C(CUDA_VISIBLE_DEVICES=MIG-...) of users stays valid.
  - The module never removes an instance with a process, and changes no other GPU. It removes only idle instances that are surplus or block
    a placement.
  - All GPUs are planned before the first change. A layout that the card cannot have is refused, with the possible profiles and the nearest
    layouts that fit.
  - Each GPU is a transaction. When a step fails, the module reverts the steps before it, and fails with both states. It reads each change
    back.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - UUIDs of new instances are unknown, and some drivers report profiles only with MIG on.
      - It does not wait for processes, and reports the changes that follow when they have ended.
  diff_mode:
    support: full
    details:
      - Shows the instance in each memory slot.
requirements:
  - nvidia-ml-py, in the Python that runs the module or in C(/opt/rigwright/python).
  - A driver that reports names of profiles, as those of CUDA 12 do.
options:
  devices:
    description:
      - GPUs by UUID or PCI address, or V(all). An index gives a warning, since it may be another GPU after a change of hardware.
      - With V(all), cards without MIG stay as they are if another card has MIG. A card without MIG that is named is refused.
      - Required without O(mig_parted), whose configuration names the GPUs.
    type: list
    elements: str
  mode:
    description:
      - The MIG mode. V(disabled) removes idle instances; busy instances block it.
      - GPUs before Hopper need a reset for a change of mode, see O(allow_reset).
    type: str
    choices: [enabled, disabled, unchanged]
    default: unchanged
  layout:
    description:
      - All instances of the GPU. An empty list removes all; without this option they stay as they are.
    type: list
    elements: dict
    suboptions:
      profile:
        description:
          - Name of a profile of the card, such as V(3g.71gb) or V(1g.24gb+gfx).
          - V(1c.3g.71gb) counts compute instances instead. They share GPU instances where these have room.
        type: str
        required: true
      count:
        description: Number of instances.
        type: int
        default: 1
      start:
        description: The memory slot of its start. By default the search chooses it.
        type: int
      compute_instances:
        description:
          - Its compute instances, as V(1c), V(2c). By default one with all slices of the GPU instance.
        type: list
        elements: str
  mig_parted:
    description:
      - A configuration of nvidia-mig-parted instead of O(mode) and O(layout).
    type: dict
    suboptions:
      config:
        description:
          - Its content, with C(version) and C(mig-configs). The module refuses what nvidia-mig-parted refuses.
          - C(mig-enabled) without instances is C(mig-devices) with an empty mapping. C(device-filter) may name the subsystem as well,
            as C(0x233010DE:0x16C110DE). With C(devices) V(all), cards without MIG stay as they are.
        type: dict
        required: true
      selected:
        description: Name of one of its configurations.
        type: str
        required: true
  when_busy:
    description:
      - The action when processes block a change. V(fail) names them with users and commands, V(skip) leaves that GPU as it is, V(wait)
        waits for O(busy_timeout) and then fails.
    type: str
    choices: [fail, skip, wait]
    default: fail
  busy_timeout:
    description: Seconds to wait with O(when_busy=wait).
    type: int
    default: 300
  allow_reset:
    description:
      - Whether the module may reset a GPU that changes its mode only by a reset (Ampere). With V(never) it does not even set the mode,
        since an idle GPU would reset itself; RV(needs) reports the reset.
    type: str
    choices: [never, gpu]
    default: never
  stop_services:
    description:
      - Services that use GPUs, such as V(nvidia-persistenced) and V(nvidia-dcgm). The module stops the running ones for a reset, and starts
        them again, also after a failure.
    type: list
    elements: str
    default: []
  keep_instances:
    description:
      - Keep as many instances as possible. Otherwise the layout is packed as on an empty card, which leaves the most room; busy instances
        stay.
    type: bool
    default: true
  persist:
    description:
      - A reboot removes the instances, and from Hopper on the mode as well. With V(unit), the systemd unit C(rigwright-gpu-mig.service)
        runs this module with the same parameters at every boot, before CDI is refreshed and containers start.
      - Declarations of other tasks stay. V(none) removes the declaration of the GPUs of this task; without O(mode) and O(layout) also that
        of a removed GPU, by its UUID. V(unchanged) changes no declaration; the unit itself uses it.
    type: str
    choices: [unit, none, unchanged]
    default: unit
  refresh_cdi:
    description:
      - Restart C(nvidia-cdi-refresh.service) of the container toolkit, if it is installed, when instances have changed.
    type: str
    choices: [auto, never]
    default: auto
  plans:
    description:
      - Plans of these GPUs, which the role P(rigwright.workstation.gpu_sharing#role) has made in this run.
      - A plan is carried out if the GPU and the request are still those that it was made from. The module plans all others itself.
    type: list
    elements: dict
    default: []
notes:
  - When one of several GPUs fails, those before it keep their new layout, and the module returns them.
  - NVML counts processes of the whole host only in the host's own namespace of process ids. The driver itself never removes an instance
    in use; the module then reverts its changes.
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

- name: Create one instance with two compute instances
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

- name: Disable MIG on an A100, and stop services for its reset
  rigwright.workstation.gpu_mig:
    devices: [all]
    mode: disabled
    allow_reset: gpu
    stop_services: [nvidia-persistenced, nvidia-dcgm]
"""

RETURN = r"""
gpus:
  description:
    - The GPUs of the task in NVML's order, in check mode with the predicted state. After a failure, the GPUs before it.
  returned: always, unless the request is refused
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
      description: GPU instances in order of their slots. In check mode, new ones have the id -1 and no UUID.
      type: list
      elements: dict
      sample:
        - profile: 3g.71gb
          start: 4
          id: 1
          pids: []
          compute_instances: [{slices: 3, start: 0, id: 0, uuid: MIG-d050f3f7-0a52-5d4e-acf6-15050d5d0bef}]
    slots: {description: A line for each instance and free slot; empty with MIG off., type: list, elements: str, sample: ["slot 0: free"]}
    changes: {description: "The changes, predicted in check mode.", type: list, elements: str, sample: ["create 3g.71gb at slot 4"]}
    needs:
      description: V(gpu_reset) if the change needs a reset that O(allow_reset) forbids, V(reboot) if the GPU cannot be reset.
      type: str
      sample: none
    skipped: {description: Whether the GPU was left as it is because processes block the change., type: bool, sample: false}
    uuid_changes:
      description: For each removed UUID, the UUID that replaces it, or null.
      type: dict
      sample: {MIG-e25441f7-14b7-5bd8-a1bb-1f052b7aae4d: MIG-831304f6-dec6-5d91-b14f-7404ebdb2bdc}
needs:
  description:
    - V(gpu_reset) if a GPU was left as it is because it needs a reset, V(reboot) if its new mode waits for one, otherwise V(none).
    - A GPU cannot be reset in most virtual machines, and with C(nvidia_drm) loaded. After the reboot the next run makes the layout.
    - A mode that waits already is not tried again. A mode is taken back where programs use the GPU, or instances had to go for it.
  returned: success
  type: str
  sample: none
mig_parted:
  description: The current layout of the GPUs as a configuration of nvidia-mig-parted, which has no slots.
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
  description: Whether the CDI specification for containers was refreshed.
  returned: success
  type: bool
  sample: true
busy:
  description: The processes that block the change. Unknown values are null, as of a process in another namespace.
  returned: when O(when_busy) made it fail
  type: list
  elements: dict
  sample: [{gpu: GPU-8f6f1d5c-4f3a-5a1e-9d6e-3f1d2c4b5a69, pid: 4242, user: alice, command: python3 train.py}]
nvml_error:
  description: Name of NVML's error, without C(NVML_ERROR_); null if all calls succeeded but the GPU differs from the request.
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
  sample: "it does not fit next to the instances of the GPU: remove instances, or request less"
restored:
  description: Whether the GPU was restored.
  returned: when a plan failed
  type: bool
  sample: true
before:
  description: The GPU before, as in RV(gpus).
  returned: when a plan failed
  type: dict
now:
  description: The GPU now; null if it no longer answers.
  returned: when a plan failed
  type: dict
"""

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import boot as mig_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import run as mig_run
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.options import OPTIONS
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml, respawn_where_needed
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError, Refusal

ROOT = "/"


def main() -> None:
    module = HostModule(
        argument_spec=OPTIONS,
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
