#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bare_metal_restore
short_description: Build a machine again from its backup, on a live system
description:
  - Carries out one phase of the plan of M(rigwright.workstation.bare_metal_plan). V(disks) makes partitions, file systems and
    mounts, V(files) restores, V(system) changes what names the old disks and sets up initramfs and boot loader.
  - A phase that is done is not done again in the same live session. A phase that was cut short is done again, with the same plan only.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
  - rigwright.workstation.restic_repository
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - The steps are in RV(steps).
options:
  plan:
    description:
      - RV(rigwright.workstation.bare_metal_plan#module:plan).
    type: dict
    required: true
  phase:
    description:
      - The phase to carry out; they follow each other.
    type: str
    choices: [disks, files, system]
    required: true
  passphrase:
    description:
      - The passphrase that encrypted devices get.
    type: str
  accept_losses:
    description:
      - Go on without the files that the backup no longer has, and name them in RV(lost). What is there of them has holes.
      - Without it the phase V(files) restores all others, names these, and fails.
      - A full disk, or a repository that cannot be reached, is never accepted.
    type: bool
    default: false
seealso:
  - module: rigwright.workstation.bare_metal_plan
"""

EXAMPLES = r"""
- name: Make partitions and file systems
  rigwright.workstation.bare_metal_restore:
    plan: "{{ rebuild.plan }}"
    phase: disks

- name: Restore the files
  rigwright.workstation.bare_metal_restore:
    plan: "{{ rebuild.plan }}"
    phase: files
    repository:
      url: sftp:backup@nas:/srv/restic/ws1
      password: "{{ vault_restic_password }}"
      ssh_key: "{{ vault_nas_key }}"
      known_hosts: "nas ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ..."
  async: 86400
  poll: 15
"""

RETURN = r"""
lost:
  description: The files that the backup no longer has, with O(accept_losses).
  returned: success
  type: list
  elements: str
  sample: [/home/alice/thesis.pdf]
steps:
  description: The steps that were carried out, or would be in check mode.
  returned: success
  type: list
  elements: dict
  sample: [{do: run, command: [mkswap, -U, 58ecfea5-16d6-4bbf-8d29-3025d1a4a434, /dev/sda5], writes: [/dev/sda5]}]
"""

import contextlib

from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import apply as running
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.backup import SPEC, Backup, Failed
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.model import IDENTITY
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest.document import Facts

PHASES = ["disks", "files", "system"]


def main() -> None:
    module = HostModule(
        argument_spec={
            "plan": {"type": "dict", "required": True},
            "phase": {"type": "str", "choices": PHASES, "required": True},
            "passphrase": {"type": "str", "no_log": True},
            "accept_losses": {"type": "bool", "default": False},
            **SPEC,
        },
        supports_check_mode=True,
    )
    params, plan, phase = module.params, module.params["plan"], module.params["phase"]
    # Only the process that holds the lock changes the state, so it is read inside.
    live = running.Live(module.run_command, params["passphrase"] or "", accept_losses=params["accept_losses"])
    steps: list[Facts] = []
    try:
        with contextlib.nullcontext() if module.check_mode else running.alone():
            state = running.read_state(plan["identity"])
            steps = [] if phase in state["done"] else plan["phases"].get(phase, [])
            if steps and not module.check_mode:
                carry_out(module, live, state, steps)
    except (Failed, OSError) as error:
        module.fail_json(msg=f"{error}. Remove the cause and run this again: it goes on with the phase {phase}.")
    for warning in live.warnings:
        module.warn(warning)
    module.exit_json(
        changed=bool(steps),
        lost=live.lost,
        steps=[{key: value for key, value in step.items() if key != "references"} for step in steps],
    )


def carry_out(module: HostModule, live: running.Live, state: Facts, steps: list[Facts]) -> None:
    """Carry out the steps of the phase."""
    params, plan, phase = module.params, module.params["plan"], module.params["phase"]
    for before in PHASES[: PHASES.index(phase)]:
        if before not in state["done"]:
            raise Failed(f"The phase {before} comes before {phase}, and was not carried out. Nothing was changed")
    if params["repository"]:
        live.backup, live.snapshots = Backup(params["repository"]), params["snapshots"]
    if phase == "disks" and state["begun"]:
        live.release(plan["groups"], plan["mapped"])
    # The plan is as old as its caller; the boot loader is written to a disk as well.
    for path, facts in plan["disks"].items() if phase != "files" else ():
        live.check_disk(path, facts, exclusive=phase == "disks")
    if phase == "disks":
        state["begun"] = {path: {key: facts[key] for key in IDENTITY} for path, facts in plan["disks"].items()}
        running.write_state(state)
    live.carry_out(steps)
    state["done"].append(phase)
    running.write_state(state)


if __name__ == "__main__":
    main()
