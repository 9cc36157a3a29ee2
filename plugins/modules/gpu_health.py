#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_health
short_description: One verdict on each NVIDIA GPU, with evidence and source
description:
  - Looks at NVML, at the Xids in the kernel's log of this boot and at the PCI bus, and says of every GPU and of the host what has to be
    done - nothing (V(PASS)), look again (V(MONITOR)), start the program again (V(RESTART_APP)), reset the GPU (V(RESET_GPU)), reboot
    (V(REBOOT)), or replace the card (V(REPLACE)).
  - The gravest reason decides, and every reason is returned with its evidence and its source. In the order of authority they are - whether
    NVML answers, the driver's own recovery action, memory, Xids by NVIDIA's catalogue, links, heat and power.
  - What a card does not tell is unknown, and no fault. What could not be read stands in RV(unread).
  - Changes nothing on a GPU, and needs no root. Without it, and without the group C(systemd-journal), the kernel's log is not to be read.
  - A driver and a library that do not match, a missing driver and a lost GPU are verdicts. They do not fail the module.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details: It changes nothing.
requirements:
  - nvidia-ml-py, which the role P(rigwright.workstation.gpu_health#role) brings. Without it the log and the PCI bus are judged alone.
options:
  window:
    description:
      - How far back Xids count, within this boot, as V(24h) or V(30m); V(boot) takes all of them.
      - An Xid is over before that when the program that it hit has ended, or when the driver took back what it had asked for.
    type: str
    default: boot
  limits:
    description:
      - From which number on something is told, in place of what the collection holds.
    type: dict
    default: {}
    suboptions:
      remapped_rows:
        description: Rows remapped for uncorrectable errors. 512 if not given, where NVIDIA's policy and DCGM have the card replaced.
        type: int
      retired_pages:
        description: Retired pages, on cards before Ampere. 63 if not given, as in DCGM.
        type: int
      ecc_errors:
        description: Corrected, or uncorrected, memory errors in the card's life. 20000000 if not given, as Azure has it.
        type: int
      pcie_replays_per_minute:
        description:
          - Replays on PCIe a minute, since the last look.
          - If not given, what DCGM allows the link by its generation and lanes - more than 31 with 16 lanes of generation 5, 16 of
            generation 4, 8 of generation 3.
        type: float
      nvlink_crc_errors_per_second:
        description: CRC errors on NVLink a second, since the last look. 100 if not given, as in DCGM.
        type: float
      slowdown_share:
        description: Part of the time since the last look in which the hardware slowed down. 0.6 if not given, as in gpud.
        type: float
      double_bit_pages:
        description: >-
          Pages retired for double-bit errors. 16 if not given; with more than one of them within a week the card is replaced, as in DCGM.
        type: int
      nvlink_bit_error_rate:
        description: Bits on NVLink 5 that are wrong after correction. More than 1e-12 if not given, as in DCGM.
        type: float
      repeated_xids:
        description: >-
          The same Xid on one GPU within a day, also of programs that have ended, or its lines at one place of the chip. 10 if not given.
        type: int
      busy_percent:
        description: Part of the time that the GPU is at work, from which on its PCIe link is judged. 50 if not given.
        type: int
  expected_count:
    description: How many GPUs the host has to have. If not given, they are not counted.
    type: int
  acknowledged:
    description:
      - UUIDs of GPUs that are known to be away, as they were taken out. A GPU that was there at an earlier look and has gone is told until
        it comes back or stands here. One that never told a UUID is named by its PCI address.
      - With O(remember), or in the role's O(rigwright.workstation.gpu_health#role:main:gpu_health_acknowledged), it is then forgotten.
    type: list
    elements: str
    default: []
  ignore:
    description: >-
      Reasons that are told and do not count, by their stable names, as V(pcie_slot) or V(ecc_off) where a host is meant to be so.
    type: list
    elements: str
    default: []
  fail_on:
    description:
      - The verdict on the host from which on the module fails; it returns everything all the same.
    type: str
    choices: [none, MONITOR, RESTART_APP, RESET_GPU, REBOOT, REPLACE]
    default: none
  state_file:
    description:
      - What the last look left, with which counters are compared.
      - The default is where the check of the role P(rigwright.workstation.gpu_health#role) leaves it.
    type: path
    default: /var/lib/rigwright_gpu_health/state.json
  remember:
    description:
      - Whether this look is the one that the next one compares with. Its directory has to be there. Not in check mode.
    type: bool
    default: false
seealso:
  - module: rigwright.workstation.gpu_info
  - name: Xid catalogue
    description: What NVIDIA says of each Xid.
    link: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
"""

EXAMPLES = r"""
- name: Judge the GPUs
  rigwright.workstation.gpu_health:
  register: health

- name: Stop before the training where a GPU has to be reset, or worse
  rigwright.workstation.gpu_health:
    window: 24h
    fail_on: RESET_GPU
"""

RETURN = r"""
verdict:
  description: The gravest verdict on any GPU and on the driver.
  returned: always
  type: str
  sample: RESET_GPU
reasons:
  description: Why NVML as a whole does not answer; empty where it does.
  returned: always
  type: list
  elements: dict
  sample: []
gpus:
  description: All GPUs that NVML, the PCI bus or the log shows.
  returned: always
  type: list
  elements: dict
  contains:
    index:
      description: Index of NVML, null for a GPU that NVML does not show.
      type: int
    uuid:
      description: UUID, null for a GPU that does not tell it.
      type: str
    pci_address:
      description: Address on the PCI bus, null for a lost GPU that does not tell it.
      type: str
      sample: "0000:41:00.0"
    name:
      description: Name of the card, null for a GPU that does not tell it.
      type: str
    verdict:
      description: The verdict on this GPU.
      type: str
    reasons:
      description:
        - Everything that was found, the gravest first. RV(gpus[].reasons[].what) is stable, as V(xid_79), V(recovery_action) or
          V(row_remap_failure). A GPU that was there before and has gone is V(missing), one on the bus without a driver V(no_driver).
      type: list
      elements: dict
      contains:
        what: {description: What was found., type: str}
        evidence: {description: What says so., type: str}
        source: {description: Who says that it comes to this., type: str}
        verdict: {description: What this reason comes to by itself., type: str}
        next_step: {description: What to do., type: str}
      sample:
        - what: xid_109
          evidence: "Context Switch Timeout Error; once, 2026-11-22T12:00:00Z by train (4242): Ch 00000008"
          source: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
          verdict: RESET_GPU
          next_step: end what uses the GPU and reset it (nvidia-smi --gpu-reset -i <uuid>); if that fails, reboot
    xids:
      description:
        - The Xids that count, with what the catalogue says of each. C(time) is in seconds since 1970; it, C(pid), C(process) and
          C(gpu_instance) are null where the line does not tell.
      type: list
      elements: dict
    xids_over:
      description: The Xids of this boot that are over, each with the reason in C(over).
      type: list
      elements: dict
    since_last_look:
      description:
        - How much more each counter says than at the last look, with C(seconds); null for what is unknown, and as a whole where there was
          no look before.
      type: dict
      sample: {seconds: 600.0, pcie_replays: 0, hardware_slowdown_s: 0.0, corrected_errors: null}
    card:
      description: What M(rigwright.workstation.gpu_info) tells of the GPU, without its processes.
      type: dict
nvswitches:
  description: The NVSwitches of which the log of this boot has SXids, each with C(name), C(pci_address), C(verdict) and C(reasons).
  returned: always
  type: list
  elements: dict
  sample: []
expected_count:
  description: What O(expected_count) was.
  returned: always
  type: int
unread:
  description: What could not be read, with what would help.
  returned: always
  type: list
  elements: str
  sample: ["the kernel's log: No journal files were opened due to insufficient permissions. Read it as root"]
time:
  description: When the GPUs were looked at, in seconds since 1970.
  returned: always
  type: float
since:
  description: When they were looked at before, in seconds since 1970; null where that is not known.
  returned: always
  type: float
"""

import contextlib
import json
import os
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import write_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import facts, request, run, state
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import verdict as health
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.report import name_of
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.xid_catalogue import VERDICTS
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import respawn_where_possible
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

ROOT = "/"
NONE = "none"

ARGUMENTS: dict[str, t.Any] = {
    "window": {"type": "str", "default": request.BOOT},
    "limits": {
        "type": "dict",
        "default": {},
        "options": {
            "remapped_rows": {"type": "int"},
            "retired_pages": {"type": "int"},
            "double_bit_pages": {"type": "int"},
            "ecc_errors": {"type": "int"},
            "pcie_replays_per_minute": {"type": "float"},
            "nvlink_crc_errors_per_second": {"type": "float"},
            "nvlink_bit_error_rate": {"type": "float"},
            "slowdown_share": {"type": "float"},
            "busy_percent": {"type": "int"},
            "repeated_xids": {"type": "int"},
        },
    },
    "expected_count": {"type": "int"},
    "acknowledged": {"type": "list", "elements": "str", "default": []},
    "ignore": {"type": "list", "elements": "str", "default": []},
    "fail_on": {"type": "str", "choices": [NONE, *VERDICTS[1:]], "default": NONE},
    "state_file": {"type": "path", "default": state.STATE},
    "remember": {"type": "bool", "default": False},
}


def write_state(module: AnsibleModule, path: str, content: dict[str, t.Any]) -> None:
    """Write the state for the next check."""
    try:
        write_file(path, json.dumps(content, indent=1, sort_keys=True))
    except OSError as error:
        module.fail_json(
            msg=f"`remember`: {path} cannot be written: {error}. Create its directory, or set `state_file`."
        )


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    respawn_where_possible()

    def run_program(command: t.Sequence[str]) -> tuple[int, str, str]:
        program = module.get_bin_path(command[0], opt_dirs=["/sbin", "/usr/sbin"])
        if program is None:
            return 127, "", f"{command[0]} is not installed"
        outcome: tuple[int, str, str] = module.run_command(
            [program, *command[1:]], environ_update={"LC_ALL": "C.UTF-8"}, errors="surrogateescape"
        )
        return outcome

    tree = Tree(ROOT)
    path = tree.at(module.params["state_file"])
    writes = module.params["remember"] and not module.check_mode
    declared = request.Request(*(module.params[name] for name in ("expected_count", "acknowledged", "ignore")))
    try:
        window = request.window_seconds(module.params["window"])
        limits = request.limits_of(module.params["limits"])
    except Refusal as error:
        module.fail_json(msg=str(error))
    # Any other user keeps a state of their own, and has no right to the locks of the host.
    with module_lock(module, "gpu_health") if writes and os.geteuid() == 0 else contextlib.nullcontext():
        kept, unread = state.read_kept(path)
        result, next_state = run.check(facts.Host(run_program, time.time(), tree), window, limits, kept, declared)
        result["unread"] += unread
        if writes:
            write_state(module, path, next_state)
    least = module.params["fail_on"]
    if least != NONE and health.rank(result["verdict"]) >= health.rank(least):
        grave = [
            f"{name_of(gpu)}: {gpu['reasons'][0]['what']} ({gpu['reasons'][0]['evidence']})"
            for gpu in result["gpus"]
            if health.rank(gpu["verdict"]) >= health.rank(least)
        ]
        evidence = "; ".join(grave or [reason["evidence"] for reason in result["reasons"]])
        module.fail_json(msg=f"The verdict is {result['verdict']}: {evidence}", **result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
