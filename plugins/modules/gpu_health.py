#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_health
short_description: One verdict on each NVIDIA GPU, with evidence and source
description:
  - Reads NVML, the Xids in the kernel's log of this boot and the PCI bus, and returns for every GPU and for the host what has to be
    done - nothing (V(PASS)), watch it (V(MONITOR)), start the program again (V(RESTART_APP)), reset the GPU (V(RESET_GPU)), reboot
    (V(REBOOT)), or replace the card (V(REPLACE)).
  - The gravest reason decides. Every reason has its evidence and its source. In the order of authority they are - the
    answer of NVML, the driver's own recovery action, memory, Xids by NVIDIA's catalogue, links, heat and power.
  - A value that a card does not report is unknown, and no problem. RV(unread) lists what could not be read.
  - Changes nothing on a GPU, and needs no root. To read the kernel's log, it needs root or the group C(systemd-journal).
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
  - nvidia-ml-py, which the role P(rigwright.workstation.gpu_health#role) installs. Without it only the log and the PCI bus are judged.
options:
  window:
    description:
      - Age up to which Xids of this boot count, such as V(24h) or V(30m). V(boot) counts all of them.
      - An Xid is over earlier when its program has ended, or when the driver has withdrawn its recovery action.
    type: str
    default: boot
  limits:
    description:
      - Limits from which a number is reported, in place of the defaults.
    type: dict
    default: {}
    suboptions:
      remapped_rows:
        description: Rows remapped for uncorrectable errors. 512 if not given, the limit for a replacement in NVIDIA's policy and DCGM.
        type: int
      retired_pages:
        description: Retired pages, on cards before Ampere. 63 if not given, as in DCGM.
        type: int
      ecc_errors:
        description: Corrected, or uncorrected, memory errors in the card's life. 20000000 if not given, as in Azure's checks.
        type: int
      pcie_replays_per_minute:
        description:
          - Replays on PCIe a minute, since the last check.
          - If not given, the limit of DCGM by generation and lanes - more than 31 with 16 lanes of generation 5, 16 of
            generation 4, 8 of generation 3.
        type: float
      nvlink_crc_errors_per_second:
        description: CRC errors on NVLink a second, since the last check. 100 if not given, as in DCGM.
        type: float
      slowdown_share:
        description: Part of the time since the last check in which the hardware slowed down. 0.6 if not given, as in gpud.
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
        description: The PCIe link is judged while the GPU is busy for this percentage of the time. 50 if not given.
        type: int
  expected_count:
    description: The number of GPUs that the host has to have. If not given, it is not checked.
    type: int
  acknowledged:
    description:
      - UUIDs of GPUs that were taken out. A missing GPU is reported until it comes back or is listed here. A GPU that never reported a
        UUID is listed by its PCI address.
      - With O(remember), or in the role's O(rigwright.workstation.gpu_health#role:main:gpu_health_acknowledged), the GPU is then forgotten.
    type: list
    elements: str
    default: []
  ignore:
    description: >-
      Reasons that are reported and do not count, by their stable names, such as V(pcie_slot) or V(ecc_off).
    type: list
    elements: str
    default: []
  fail_on:
    description:
      - The verdict on the host from which the module fails. It returns the complete result then, too.
    type: str
    choices: [none, MONITOR, RESTART_APP, RESET_GPU, REBOOT, REPLACE]
    default: none
  state_file:
    description:
      - The state of the last check. Counters are compared with it.
      - The default is the file of the role P(rigwright.workstation.gpu_health#role).
    type: path
    default: /var/lib/rigwright_gpu_health/state.json
  remember:
    description:
      - Whether to write O(state_file) for the next check. Its directory has to exist. Check mode does not write it.
    type: bool
    default: false
seealso:
  - module: rigwright.workstation.gpu_info
  - name: Xid catalogue
    description: NVIDIA's description of each Xid.
    link: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
"""

EXAMPLES = r"""
- name: Check the GPUs
  rigwright.workstation.gpu_health:
  register: health

- name: Fail before the training where a GPU needs a reset, or worse
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
  description: Reasons of the whole host, such as an error of NVML; empty without any.
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
      description: UUID, null for a GPU that does not report it.
      type: str
    pci_address:
      description: Address on the PCI bus, null for a lost GPU that does not report it.
      type: str
      sample: "0000:41:00.0"
    name:
      description: Name of the card, null for a GPU that does not report it.
      type: str
    verdict:
      description: The verdict on this GPU.
      type: str
    reasons:
      description:
        - All reasons, the gravest first. RV(gpus[].reasons[].what) is stable, as V(xid_79), V(recovery_action) or
          V(row_remap_failure). A GPU that has disappeared since the last check is V(missing), one on the bus without a driver V(no_driver).
      type: list
      elements: dict
      contains:
        what: {description: The name of the reason., type: str}
        evidence: {description: The observed facts., type: str}
        source: {description: The source of the rule., type: str}
        verdict: {description: The verdict of this reason alone., type: str}
        next_step: {description: The next step., type: str}
      sample:
        - what: xid_109
          evidence: "Context Switch Timeout Error; once, 2026-11-22T12:00:00Z by train (4242): Ch 00000008"
          source: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
          verdict: RESET_GPU
          next_step: end what uses the GPU and reset it (nvidia-smi --gpu-reset -i <uuid>); if that fails, reboot
    xids:
      description:
        - The Xids that count, with their lines of the catalogue. C(time) is in seconds since 1970. It, C(pid), C(process) and
          C(gpu_instance) are null where the line does not have them.
      type: list
      elements: dict
    xids_over:
      description: The Xids of this boot that are over, each with the reason in C(over).
      type: list
      elements: dict
    since_last_check:
      description:
        - The rise of each counter since the last check, with C(seconds). Unknown values are null. Null as a whole without an earlier
          check.
      type: dict
      sample: {seconds: 600.0, pcie_replays: 0, hardware_slowdown_s: 0.0, corrected_errors: null}
    card:
      description: The facts of the GPU as in M(rigwright.workstation.gpu_info), without its processes.
      type: dict
nvswitches:
  description: The NVSwitches with SXids in the log of this boot, each with C(name), C(pci_address), C(verdict) and C(reasons).
  returned: always
  type: list
  elements: dict
  sample: []
expected_count:
  description: The value of O(expected_count).
  returned: always
  type: int
unread:
  description: What could not be read, with a remedy.
  returned: always
  type: list
  elements: str
  sample: ["the kernel's log: No journal files were opened due to insufficient permissions. Read it as root"]
time:
  description: Time of the check, in seconds since 1970.
  returned: always
  type: float
since:
  description: Time of the last check, in seconds since 1970; null without one.
  returned: always
  type: float
"""

import contextlib
import json
import os
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import write_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Spec
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import facts, request, run, state
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import verdict as health
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.report import name_of
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.rows import State
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.xid_catalogue import VERDICTS
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import respawn_where_possible
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

ROOT = "/"
NONE = "none"

ARGUMENTS: Spec = {
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


def write_state(module: HostModule, path: str, content: State) -> None:
    """Write the state for the next check."""
    try:
        write_file(path, json.dumps(content, indent=1, sort_keys=True))
    except OSError as error:
        module.fail_json(
            msg=f"`remember`: {path} cannot be written: {error}. Create its directory, or set `state_file`."
        )


def main() -> None:
    module = HostModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    respawn_where_possible()

    def run_program(command: t.Sequence[str]) -> tuple[int, str, str]:
        program = module.get_bin_path(command[0], opt_dirs=["/sbin", "/usr/sbin"])
        if program is None:
            return 127, "", f"{command[0]} is not installed"
        outcome: tuple[int, str, str] = module.run_command([program, *command[1:]], errors="surrogateescape")
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
