#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: firewall_load
short_description: Load the table inet rigwright, and have it go back unless a new connection confirms it
description:
  - Loads C(/etc/nftables.d/rigwright.nft) and what it includes in one transaction. No other table is touched.
  - What was in force before comes back by itself after O(seconds), by a timer of systemd, unless the module runs again with
    O(state=confirmed). A reboot in between brings it back as well. Confirm by a new connection, after C(meta=reset_connection), since the
    one that is there lives on whatever the rules say.
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
      - M(rigwright.workstation.config_files) shows how the files differ.
options:
  state:
    description:
      - V(loaded) loads the files, whatever is in force. M(rigwright.workstation.firewall_plan) tells whether that is needed.
      - V(confirmed) keeps what was loaded, and fails when it has gone back already.
      - V(absent) takes the table away, and what this module keeps on the host.
    type: str
    choices: [loaded, confirmed, absent]
    default: loaded
  seconds:
    description:
      - How long to wait for the confirmation.
    type: int
    default: 60
seealso:
  - module: rigwright.workstation.firewall_plan
"""

EXAMPLES = r"""
- name: Load the rules
  rigwright.workstation.firewall_load:

- name: Come by a new connection
  ansible.builtin.meta: reset_connection

- name: Keep the rules
  rigwright.workstation.firewall_load:
    state: confirmed
"""

RETURN = r"""
goes_back_after:
  description: Seconds after which the rules before come back, unless the change is confirmed.
  returned: O(state=loaded)
  type: int
"""

import contextlib
import functools
import os
import shutil

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core import bundle
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import apply as load
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import table

ROOT = "/"


def is_there(module: AnsibleModule, loader: load.Loader) -> bool:
    """Whether something of this module is on the host."""
    kept = any(loader.tree.exists(path) for path in (load.PROGRAM, load.STATE, os.path.dirname(table.SSH)))
    return kept or (module.get_bin_path("nft") is not None and loader.in_force() != [])


def remove(module: AnsibleModule, loader: load.Loader) -> None:
    """The program goes last: as long as it is there, a run that was cut short is completed by the next one."""
    loader.disarm()
    if module.get_bin_path("nft") is not None:
        loader.delete()
    for folder in (load.STATE, os.path.dirname(table.SSH)):
        shutil.rmtree(loader.tree.at(folder), ignore_errors=True)
    load.remove(loader.tree, load.PROGRAM)
    # Other modules keep their programs there.
    with contextlib.suppress(OSError):
        os.rmdir(loader.tree.at(os.path.dirname(load.PROGRAM)))


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["loaded", "confirmed", "absent"], "default": "loaded"},
            "seconds": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    with module_lock(module, "firewall_load"):
        run(module)


def run(module: AnsibleModule) -> None:
    state = module.params["state"]
    loader = load.Loader(functools.partial(module.run_command, path_prefix=load.PROGRAMS), Tree(ROOT))
    changed = state == "loaded" or (state == "absent" and is_there(module, loader))
    if module.check_mode:
        module.exit_json(changed=changed)
    try:
        if state == "loaded":
            program = bundle.bundle(load.ENTRY)
            if loader.tree.bytes(load.PROGRAM) != program:
                load.write(loader.tree, load.PROGRAM, program, 0o644)
            loader.try_out(module.params["seconds"])
        elif state == "confirmed":
            loader.confirm()
        elif changed:
            remove(module, loader)
    except load.Failed as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, **({"goes_back_after": module.params["seconds"]} if state == "loaded" else {}))


if __name__ == "__main__":
    main()
