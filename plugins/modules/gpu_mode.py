#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_mode
short_description: Set persistence, compute mode, power limit, clocks, ECC and time slices of GPUs
description:
  - Sets the given modes of GPUs, all in one run. Other modes stay as they are.
  - The module checks all values against the abilities and ranges of each card before the first write, and reads them back. If a write
    fails, it restores the values of this run on all cards.
  - The driver forgets most modes at a reboot. With O(persist), a unit sets the declared modes at each boot, with the code of this module.
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
      - The cards, each with its modes. An empty list with O(exclusive) removes all declarations, and needs no driver.
    type: list
    elements: dict
    required: true
    suboptions:
      device:
        description:
          - UUID or PCI address of the card, or V(all). An index gives a warning, since it may be another card after a reboot.
          - Values for one card win over those for V(all).
        type: str
        required: true
      persistence:
        description:
          - Whether the driver keeps the card initialized while no program uses it. Otherwise it forgets limits and clocks.
          - C(nvidia-persistenced) turns it on by itself; this option is then not needed.
        type: bool
      compute_mode:
        description:
          - V(exclusive_process) lets one process at a time use the card; an MPS server counts as one. It is refused for a card with MIG.
        type: str
        choices: [default, exclusive_process, prohibited]
      power_limit:
        description:
          - In watts, V(300 W), in percent of the card's default, V(80 %), or V(default).
        type: str
      locked_gpu_clocks:
        description:
          - Lowest and highest clock in MHz, as V([1200, 1500]), or V(unlocked). From Volta on.
          - NVML does not report locked clocks. The module records its own until the driver is loaded again. It does not see clocks that
            other programs have locked.
        type: raw
      locked_memory_clocks:
        description:
          - The same for the memory clock, which few cards can lock.
        type: raw
      accounting:
        description:
          - Whether the driver records the use of ended processes.
        type: bool
      ecc:
        description:
          - Whether ECC protects the memory. The card keeps the mode. A change takes effect after a reset, see RV(gpus[].needs).
        type: bool
      time_slice:
        description:
          - The time slice of a program on a shared card. It needs the compute mode V(default).
        type: str
        choices: [default, short, medium, long]
  persist:
    description:
      - V(unit) declares the modes for boots, and C(rigwright-gpu-mode.service) sets them at each boot. V(none) removes the declaration
        of the given modes.
    type: str
    choices: [unit, none]
    default: unit
  exclusive:
    description:
      - Remove the declarations of cards that are not in O(gpus). Their current modes stay.
    type: bool
    default: false
notes:
  - The module never resets a GPU or reboots the host. RV(needs) reports what is due.
  - Errors of NVML fail the module with RV(nvml_error), which is stable, and RV(next_step).
seealso:
  - module: rigwright.workstation.gpu_info
"""

EXAMPLES = r"""
- name: Limit the power of all cards, and set exclusive mode on one
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

- name: Restore the defaults of the driver
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
  description: The cards with their changes, in check mode the predicted ones.
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
      description: The changes, as setting, value before and value after.
      type: list
      elements: dict
    needs:
      description: The action that is due until all modes are active - V(none), V(gpu_reset), V(reboot) or V(driver_reload).
      type: str
    persistent:
      description: Whether a reboot keeps all modes, by the unit or by the card.
      type: bool
    power_limit_w:
      description: The limit in watts, null for a card without one.
      type: float
    enforced_power_limit_w:
      description: The limit in effect; other limits of the machine may lower it.
      type: float
    not_read_back:
      description: Written settings that NVML cannot report.
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
  description: The largest of the cards' needs.
  returned: success
  type: str
  sample: none
declared:
  description: The modes that each boot restores, by UUID.
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
  description: The settings of this run that were restored.
  returned: when a write failed
  type: list
  elements: str
  sample: ["NVIDIA H200 (GPU-5a4bb6c2-8a6c-11ee-b9d1-0242ac120002): power_limit 700 W"]
left:
  description: The settings that could not be restored.
  returned: when a write failed
  type: list
  elements: str
  sample: []
"""

import contextlib
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import nvml as gpu_nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode.apply import NOT_THERE, Failed, NotKept
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode.run import OPTIONS, Request, requests_of
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError, Refusal

ROOT = "/"


def main() -> None:
    module = HostModule(
        argument_spec={
            "gpus": {"type": "list", "elements": "dict", "required": True, "options": OPTIONS},
            "persist": {"type": "str", "choices": ["unit", "none"], "default": "unit"},
            "exclusive": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    if not (module.params["gpus"] or module.params["exclusive"]):
        module.fail_json(
            msg="`gpus` is empty: name cards, or set `exclusive: true` to declare none. Nothing was changed."
        )
    # Declarations can be removed without a driver.
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
        remedy = "make the path writable, or set `persist: none`"
        module.fail_json(msg=f"{error}: {remedy}.", changed=True)
    except Failed as error:
        rest = f" This stayed changed: {'; '.join(error.left)}." if error.left else " Every card is as it was."
        module.fail_json(msg=f"{error}.{rest}", put_back=error.put_back, left=error.left, **error.cause)


def run(module: HostModule, nvml: t.Any) -> None:
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


def run_program(module: HostModule, command: list[str]) -> tuple[int, str, str]:
    """Run a program; a missing one must not end the module, as it does in HostModule."""
    try:
        code, out, err = module.run_command(command, handle_exceptions=False)
    except OSError as error:
        return NOT_THERE, "", str(error)
    return code, out, err


if __name__ == "__main__":
    main()
