#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: machine_manifest
short_description: Record what is needed to build a machine again
description:
  - Reads disks, partition tables, volume groups, file systems, mounts, how the machine boots, packages with their sources, kernels,
    driver, docker's images, conda's locks and the network, and keeps them as one JSON document.
  - The document is what M(rigwright.workstation.bare_metal_plan) plans a rebuild from. It belongs in the backup.
  - It contains no secrets. Passwords in addresses and options of mounts are left out, keys are named by their fingerprints, and
    of an encrypted device it says only that it is encrypted.
  - It plans the rebuild of the machine on disks such as its own, and warns of what would be refused.
  - The file is written only when something has changed. A file system that fills by less than a twentieth has not changed.
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
options:
  path:
    description:
      - The file to keep the manifest in, such as V(/var/lib/rigwright/manifest.json); root alone may read it.
      - It is refused where users other than root may write in its directory or above it.
      - Without it the manifest is only returned.
    type: path
  root:
    description:
      - Read files below this directory. The output of programs is still that of the running system.
    type: path
    default: /
notes:
  - Run it as root. Another user cannot see what is on the disks.
seealso:
  - module: rigwright.workstation.bare_metal_plan
"""

EXAMPLES = r"""
- name: Keep what a rebuild needs
  rigwright.workstation.machine_manifest:
    path: /var/lib/rigwright/manifest.json

- name: See what has changed since
  rigwright.workstation.machine_manifest:
    path: /var/lib/rigwright/manifest.json
  check_mode: true
  register: machine
"""

RETURN = r"""
manifest:
  description: The document; its C(schema) counts the versions of its form.
  returned: always
  type: dict
  sample: {schema: 1, host: {name: ws1}, boot: {mode: uefi}}
changes:
  description: What is no longer as the file at O(path) says, a line each.
  returned: always
  type: list
  elements: str
  sample: ["packages.versions.restic: 0.14.0-1 -> 0.18.0-1"]
"""

from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import trial
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import machine as machines


def main() -> None:
    module = HostModule(
        argument_spec={"path": {"type": "path"}, "root": {"type": "path", "default": "/"}}, supports_check_mode=True
    )

    def run(command: list[str]) -> tuple[int, str]:
        program = module.get_bin_path(command[0], opt_dirs=["/usr/sbin", "/sbin"])
        if program is None:
            return 127, ""
        rc, out, _err = module.run_command([program, *command[1:]])
        return rc, out

    try:
        machine = machines.Machine(run, Tree(module.params["root"]))
        new, changes, problem = machines.keep(machine, module.params["path"] or "", module.check_mode)
    except machines.ProbeError as error:
        module.fail_json(msg=f"{error}.")
    if problem:
        module.warn(f"{problem}.")
    for line in trial.problems(new):
        module.warn(f"This machine cannot be built again as it is: {line}.")
    module.exit_json(
        changed=bool(changes),
        manifest=new,
        changes=changes,
        diff={"before": "", "after": "".join(f"{line}\n" for line in changes)},
    )


if __name__ == "__main__":
    main()
