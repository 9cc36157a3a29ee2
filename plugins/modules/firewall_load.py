#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: firewall_load
short_description: Load the table inet rigwright, and revert it unless a new connection confirms it
description:
  - Loads C(/etc/nftables.d/rigwright.nft) and what it includes in one transaction. No other table changes.
  - A timer of systemd restores the former rules after O(seconds), unless the module runs again with O(state=confirmed). A reboot in
    between restores them as well. Confirm by a new connection, after C(meta=reset_connection), because the present one stays open
    under any rules.
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
      - V(loaded) loads the files in any case. The plan of the role P(rigwright.workstation.firewall#role) reports whether that is needed.
      - V(confirmed) keeps the loaded rules, and fails when they are reverted already.
      - V(absent) removes the table and the files of this module.
    type: str
    choices: [loaded, confirmed, absent]
    default: loaded
  seconds:
    description:
      - Seconds to wait for the confirmation.
    type: int
    default: 60
seealso:
  - module: rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Load the rules
  rigwright.workstation.firewall_load:

- name: Close the connection
  ansible.builtin.meta: reset_connection

- name: Confirm the rules by a new connection
  rigwright.workstation.firewall_load:
    state: confirmed
"""

RETURN = r"""
goes_back_after:
  description: Seconds after which the former rules are restored, unless the change is confirmed.
  returned: O(state=loaded)
  type: int
"""

import functools

from ansible_collections.rigwright.workstation.plugins.module_utils._core import bundle
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import apply

ROOT = "/"


def main() -> None:
    module = HostModule(
        argument_spec={
            "state": {"type": "str", "choices": ["loaded", "confirmed", "absent"], "default": "loaded"},
            "seconds": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    with module_lock(module, "firewall_load"):
        run(module)


def run(module: HostModule) -> None:
    state = module.params["state"]
    has_nft = module.get_bin_path("nft") is not None
    loader = apply.Loader(functools.partial(module.run_command, path_prefix=apply.PROGRAMS), Tree(ROOT))
    changed = state == "loaded" or (state == "absent" and apply.is_present(loader, has_nft))
    if module.check_mode:
        module.exit_json(changed=changed)
    try:
        if state == "loaded":
            program = bundle.bundle(apply.ENTRY)
            if loader.tree.bytes(apply.PROGRAM) != program:
                apply.write(loader.tree, apply.PROGRAM, program, 0o644)
            loader.try_out(module.params["seconds"])
        elif state == "confirmed":
            loader.confirm()
        elif changed:
            apply.remove_all(loader, has_nft)
    except apply.LoadError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, **({"goes_back_after": module.params["seconds"]} if state == "loaded" else {}))


if __name__ == "__main__":
    main()
