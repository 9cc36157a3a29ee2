#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bare_metal_plan
short_description: Plan how a machine is built again on empty disks
description:
  - Reads the live system that it runs on, compares it with the manifest of a machine
    (M(rigwright.workstation.machine_manifest)), and plans partition tables, file systems with their UUIDs, volume groups, mounts,
    the restore, and the changes that make the machine start.
  - Disks may be of another size. What they have more goes to the largest place for data; on smaller ones such places shrink as far
    as their files allow.
  - It writes nothing. Problems are in RV(requirements); with any problem there are no steps.
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
      - Nothing is ever changed.
options:
  manifest:
    description:
      - The manifest. Without it, it is taken from O(repository), where a backup has it at C(/var/lib/rigwright/manifest.json).
    type: dict
  confirm:
    description:
      - The name of the host that is built again, as the manifest has it.
    type: str
    required: true
  disks:
    description:
      - For each disk of the manifest, by the name that it has there, the path of the disk to write to. All that is on these disks is
        lost, and no other disk is written to.
    type: dict
    required: true
  keep:
    description:
      - Disks of the manifest that are not made again, because they still are what they were, or are gone for good.
    type: list
    elements: str
    default: []
  empty:
    description:
      - Partitions of the manifest, by their names there, that are made and left empty.
    type: list
    elements: str
    default: []
  overwrite:
    description:
      - Paths of O(disks) that are written to although something is on them.
    type: list
    elements: str
    default: []
  data:
    description:
      - By mount point, how much comes back, as V(300G) or a number of bytes, where that is less than the machine had. A smaller disk may
        be enough then.
    type: dict
    default: {}
  grow:
    description:
      - By disk of the manifest, the partition that gets what a larger disk has more.
    type: dict
    default: {}
  passphrase:
    description:
      - Whether there is a passphrase for encrypted devices.
    type: bool
    default: false
  reboot:
    description:
      - Whether the playbook starts the restored system in the end. It is only checked here, and returned in RV(answers).
    type: bool
    default: false
  accept_losses:
    description:
      - Whether the playbook goes on without files that the backup no longer has. It is only checked here, and returned in RV(answers).
    type: bool
    default: false
  hours:
    description:
      - How long the restore may take. It is only checked here, and returned in RV(answers).
    type: int
    default: 24
seealso:
  - module: rigwright.workstation.machine_manifest
  - module: rigwright.workstation.bare_metal_restore
"""

EXAMPLES = r"""
- name: Plan the rebuild of ws1
  rigwright.workstation.bare_metal_plan:
    manifest: "{{ lookup('ansible.builtin.file', 'ws1.json') | from_json }}"
    confirm: ws1
    disks:
      nvme0n1: /dev/disk/by-id/nvme-Samsung_SSD_990_PRO_4TB_S7KGNU0X123456
  register: rebuild

- name: Refuse what cannot be done
  rigwright.workstation.require:
    that: "{{ rebuild.requirements }}"
"""

RETURN = r"""
host:
  description: The name of the machine in the manifest.
  returned: always
  type: str
  sample: ws1
requirements:
  description: Problems of the rebuild, for M(rigwright.workstation.require).
  returned: always
  type: list
  elements: dict
  sample: []
summary:
  description: What the steps do, a line each.
  returned: always
  type: list
  elements: str
  sample: ["/dev/nvme0n1: a new gpt table, as nvme0n1 had", "/dev/nvme0n1p2: 3725.5 GiB ext4"]
notes:
  description: What a person has to do afterwards, or should know.
  returned: always
  type: list
  elements: str
  sample: []
snapshots:
  description: The snapshots that O(snapshots) stands for, by their ids, for M(rigwright.workstation.bare_metal_restore).
  returned: always
  type: list
  elements: dict
  sample: [{id: 80b7bfd310dbfc25b5cbb70a5942e9af43eec41f83231dc31c5ba4c945e725b6, filters: []}]
answers:
  description: The options that later tasks of the playbook use, as they were checked.
  returned: always
  type: dict
  sample: {reboot: false, accept_losses: false, seconds: 86400}
plan:
  description: The steps, for M(rigwright.workstation.bare_metal_restore).
  returned: always
  type: dict
  contains:
    identity:
      description: Identifies this rebuild. Only the same one completes a run that was cut short.
      type: str
    phases:
      description: The steps of the phases V(disks), V(files) and V(system).
      type: dict
  sample: {identity: 3b1c, phases: {disks: [], files: [], system: []}}
"""


from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import apply as running
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import plan as planning
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.backup import SPEC, Backup, Failed
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.facts import (
    ROOT,
    SBIN,
    identify_disks,
    read_target,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.sizes import parse_size
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import document


def main() -> None:
    module = HostModule(
        argument_spec={
            "manifest": {"type": "dict"},
            "confirm": {"type": "str", "required": True},
            "disks": {"type": "dict", "required": True},
            "keep": {"type": "list", "elements": "str", "default": []},
            "empty": {"type": "list", "elements": "str", "default": []},
            "overwrite": {"type": "list", "elements": "str", "default": []},
            "data": {"type": "dict", "default": {}},
            "grow": {"type": "dict", "default": {}},
            "passphrase": {"type": "bool", "default": False, "no_log": False},
            "reboot": {"type": "bool", "default": False},
            "accept_losses": {"type": "bool", "default": False},
            "hours": {"type": "int", "default": 24},
            **SPEC,
        },
        required_one_of=[("manifest", "repository")],
        supports_check_mode=True,
    )
    params = module.params
    try:
        manifest, snapshots = params["manifest"], None
        if params["repository"]:
            backup = Backup(params["repository"])
            snapshots = [backup.resolve(row["id"], row["filters"]) for row in params["snapshots"]]
            manifest = manifest or backup.manifest(snapshots[0])
        manifest = document.check(manifest)
    except (Failed, ValueError) as error:
        module.fail_json(msg=f"There is nothing to plan from: {error}. Nothing was changed.")
    data = {target: parse_size(size) for target, size in params["data"].items()}
    options = {name: params[name] for name in ("disks", "keep", "empty", "overwrite", "data", "grow")}
    identity = running.identity(manifest, options)
    state = running.read_state(identity)
    request = planning.Request(
        confirm=params["confirm"],
        disks={disk: str(path) for disk, path in params["disks"].items()},
        keep=tuple(params["keep"]),
        empty=tuple(params["empty"]),
        overwrite=tuple(params["overwrite"]),
        data={target: size for target, size in data.items() if size >= 0},
        grow=params["grow"],
        passphrase=params["passphrase"],
        begun=state["begun"] if isinstance(state["begun"], dict) else {},
        snapshots=snapshots,
    )
    target = read_target(module, Tree(ROOT))
    result = planning.plan(manifest, target, request)
    for target in sorted(target for target, size in data.items() if size < 0):
        result.refuse(
            "data",
            f"has {params['data'][target]!r} for {target}",
            "give a size, as {/home: 300G}, or a number of bytes",
        )
        result.phases.clear()
    missing = [program for program in result.programs() if not module.get_bin_path(program, opt_dirs=SBIN)]
    if missing:
        result.refuse(
            "hosts",
            f"lack {', '.join(missing)}",
            "install what has them in the live system; docs/bare_metal.md names it",
        )
        result.phases.clear()
    module.exit_json(
        changed=False,
        host=manifest["host"]["name"],
        requirements=result.refusals,
        summary=result.summary,
        notes=result.notes,
        snapshots=[{"id": row["id"], "filters": []} for row in snapshots or []],
        answers={
            "reboot": params["reboot"],
            "accept_losses": params["accept_losses"],
            "seconds": params["hours"] * 3600,
        },
        plan={
            "identity": identity,
            "disks": identify_disks(target, request) if result.phases else {},
            "groups": sorted(manifest["volume_groups"]),
            "mapped": sorted(name for name, device in manifest["devices"].items() if device["kind"] == "crypt"),
            "phases": result.phases,
        },
    )


if __name__ == "__main__":
    main()
