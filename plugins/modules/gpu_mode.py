#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_mode
short_description: Set persistence, compute mode, power limit, clocks, ECC and time slices of GPUs
description:
  - Has GPUs in the modes that are stated, all of them in one run. What is not stated is left alone.
  - Everything is checked against what each card supports and against its ranges before anything is written. What was written is read
    back. If a write fails, what this run had written before is put back, on all cards.
  - The driver forgets most modes at a reboot. O(persist) has a unit apply what is declared at each boot, with the code of this module.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
requirements:
  - nvidia-ml-py, in the Python that runs the module or in C(/opt/rigwright/python).
  - C(nvidia-smi), for time slices.
options:
  gpus:
    description:
      - The cards, each with its modes. None, with O(exclusive), declares nothing any more, and needs no driver.
    type: list
    elements: dict
    required: true
    suboptions:
      device:
        description:
          - UUID or PCI address of the card, or V(all). An index is accepted with a warning, since it may be another card after a reboot.
          - What is stated for a card goes before what is stated for V(all).
        type: str
        required: true
      persistence:
        description:
          - Whether the driver stays with the card while nothing uses it. Without it, it forgets limits and clocks then.
          - C(nvidia-persistenced) turns it on by itself; then nothing has to be stated here.
        type: bool
      compute_mode:
        description:
          - V(exclusive_process) lets one process at a time use the card, which MPS may be. It is refused for a card with MIG.
        type: str
        choices: [default, exclusive_process, prohibited]
      power_limit:
        description:
          - In watts, V(300 W), or of the card's default, V(80 %); or V(default).
        type: str
      locked_gpu_clocks:
        description:
          - Lowest and highest clock in MHz, as V([1200, 1500]), or V(unlocked). From Volta on.
          - NVML does not tell locked clocks. What this module has locked is on record until the driver is loaded again. Clocks that
            others have locked are not seen.
        type: raw
      locked_memory_clocks:
        description:
          - The same for the memory. Few cards have it.
        type: raw
      accounting:
        description:
          - Whether the driver keeps what ended processes have used.
        type: bool
      ecc:
        description:
          - Whether memory is protected by ECC. The card keeps it. A change holds after a reset, see RV(gpus[].needs).
        type: bool
      time_slice:
        description:
          - How long a program has the card when several want it at the same time. It needs the compute mode V(default).
        type: str
        choices: [default, short, medium, long]
  persist:
    description:
      - V(unit) declares the modes for each boot, and has C(rigwright-gpu-mode.service) apply them. V(none) no longer declares those
        that are stated.
    type: str
    choices: [unit, none]
    default: unit
  exclusive:
    description:
      - Whether cards that are not in O(gpus) are no longer declared for boots. The modes that they have are left as they are.
    type: bool
    default: false
notes:
  - GPUs are not reset, and the host is not rebooted. RV(needs) says what is due.
  - Errors of NVML fail the module with RV(nvml_error), which is stable, and RV(next_step).
seealso:
  - module: rigwright.workstation.gpu_info
"""

EXAMPLES = r"""
- name: Cap the power of all cards, and let one be used by one process at a time
  rigwright.workstation.gpu_mode:
    gpus:
      - device: all
        persistence: true
        power_limit: "80 %"
      - device: GPU-5a4bb6c2-8a6c-11ee-b9d1-0242ac120002
        compute_mode: exclusive_process

- name: Lock clocks for measurements, until the next reboot
  rigwright.workstation.gpu_mode:
    gpus:
      - device: "0000:41:00.0"
        locked_gpu_clocks: [1410, 1410]
    persist: none

- name: Go back to what the driver begins with
  rigwright.workstation.gpu_mode:
    gpus:
      - device: all
        compute_mode: default
        power_limit: default
        locked_gpu_clocks: unlocked
        time_slice: default
"""

RETURN = r"""
gpus:
  description: What became of each card; in check mode what would become of it.
  returned: success
  type: list
  elements: dict
  contains:
    uuid:
      description: The card.
      type: str
    name:
      description: Its model.
      type: str
    pci_address:
      description: Where it is.
      type: str
    changes:
      description: What was changed, as setting, value before and value after.
      type: list
      elements: dict
    needs:
      description: What is due until all of it holds - V(none), V(gpu_reset), V(reboot) or V(driver_reload).
      type: str
    persistent:
      description: Whether all of it is there again after a reboot, be it by the unit or by the card.
      type: bool
    power_limit_w:
      description: The limit that is set, in watts, null for a card without one.
      type: float
    enforced_power_limit_w:
      description: The limit that holds, which other limits of the machine may lower.
      type: float
    not_read_back:
      description: Settings that NVML cannot tell, so that they were written and not read back.
      type: list
      elements: str
  sample:
    - uuid: GPU-5a4bb6c2-8a6c-11ee-b9d1-0242ac120002
      name: NVIDIA H200
      pci_address: "0000:41:00.0"
      changes: [{setting: power_limit, before: 700 W, after: 560 W}]
      needs: none
      persistent: true
      power_limit_w: 560.0
      enforced_power_limit_w: 560.0
      not_read_back: []
needs:
  description: The most that one of the cards needs.
  returned: success
  type: str
  sample: none
declared:
  description: What each boot brings back, by UUID.
  returned: success
  type: dict
  sample: {GPU-5a4bb6c2-8a6c-11ee-b9d1-0242ac120002: {power_limit: 80 %}}
nvml_error:
  description: The stable name of NVML's error.
  returned: when NVML failed
  type: str
  sample: NO_PERMISSION
next_step:
  description: What to do about it.
  returned: when NVML failed
  type: str
  sample: "run it as root (become: true); in a container, the host has to do it"
put_back:
  description: What this run had written, and has put back.
  returned: when a write failed
  type: list
  elements: str
  sample: ["NVIDIA H200 (GPU-5a4bb6c2-8a6c-11ee-b9d1-0242ac120002): power_limit 700 W"]
left:
  description: What could not be put back.
  returned: when a write failed
  type: list
  elements: str
  sample: []
"""

import contextlib
import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import nvml as gpu_nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode.apply import NOT_THERE, Failed, NotKept
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode.run import OPTIONS, Request, requests_of
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError, Refusal

ROOT = "/"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "gpus": {"type": "list", "elements": "dict", "required": True, "options": OPTIONS},
            "persist": {"type": "str", "choices": ["unit", "none"], "default": "unit"},
            "exclusive": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    os.umask(0o022)
    if not (module.params["gpus"] or module.params["exclusive"]):
        module.fail_json(
            msg="`gpus` is empty: name cards, or set `exclusive: true` to declare none. Nothing was changed."
        )
    # What is declared can go where the driver is gone.
    nvml: t.Any = contextlib.nullcontext()
    if module.params["gpus"]:
        gpu_nvml.respawn_where_needed(module)
        nvml = gpu_nvml.Nvml()
    try:
        with nvml, module_lock(module, "gpu_mode"):
            run(module, nvml)
    except Refusal as error:
        module.fail_json(msg=f"{error}. Nothing was changed.")
    except NvmlError as error:
        module.fail_json(msg=f"NVML cannot be asked: {error}. Nothing was changed.", **error.as_result())
    except NotKept as error:
        remedy = "see to it that the path can be written, or set `persist: none`"
        module.fail_json(msg=f"{error}: {remedy}.", changed=True)
    except Failed as error:
        rest = f" This stayed changed: {'; '.join(error.left)}." if error.left else " Every card is as it was."
        module.fail_json(msg=f"{error}.{rest}", put_back=error.put_back, left=error.left, **error.cause)


def run(module: AnsibleModule, nvml: t.Any) -> None:
    params = module.params
    cards = nvml.cards() if params["gpus"] else []
    request = Request(
        requests_of(params["gpus"], cards), keep=params["persist"] == "unit", exclusive=params["exclusive"]
    )
    for entry in params["gpus"]:
        if entry["device"].strip().isdecimal():
            module.warn(
                f"`device: {entry['device']}` is an index, which may be another card after a reboot: name the UUID or the PCI address"
            )
    prepared = request.prepare(nvml, Tree(ROOT), lambda command: run_program(module, command))
    for text in prepared.warnings:
        module.warn(text)
    if prepared.changed and not module.check_mode:
        prepared.carry_out(module)
    module.exit_json(
        changed=prepared.changed,
        gpus=prepared.rows(),
        needs=prepared.needs,
        declared=prepared.declaration.after,
        diff=prepared.diff(),
    )


def run_program(module: AnsibleModule, command: list[str]) -> tuple[int, str, str]:
    """Ansible would end the module, in the middle of what it does, where a program is not there."""
    try:
        code, out, err = module.run_command(command, handle_exceptions=False)
    except OSError as error:
        return NOT_THERE, "", str(error)
    return code, out, err


if __name__ == "__main__":
    main()
