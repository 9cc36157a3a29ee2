#!/usr/bin/python

# Copyright: the Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: group_members
short_description: Keep groups and who belongs to them
description:
  - Makes groups and fills them with members, all in one module run.
  - Nothing is changed when one of the members does not exist.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - Unknown members are a warning in check mode, because an earlier task may make them.
  diff_mode:
    support: full
options:
  groups:
    description:
      - The groups. Others are left alone.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description:
          - Name of the group.
        type: str
        required: true
      state:
        description:
          - V(present) makes the group when it is missing and gives it its members.
          - V(absent) removes it, unless it is the primary group of a user.
        type: str
        choices: [present, absent]
        default: present
      system:
        description:
          - Give a group that is made an id from the system's range. An existing group keeps its id.
        type: bool
        default: false
      members:
        description:
          - Users that belong to the group.
        type: list
        elements: str
        default: []
      append:
        description:
          - Keep members that are not listed. V(false) makes O(groups[].members) the whole list.
        type: bool
        default: true
notes:
  - A session that is open keeps the groups it began with. New members log in again.
seealso:
  - module: ansible.builtin.group
  - module: ansible.builtin.user
"""

EXAMPLES = r"""
- name: Let the owner log in and use docker
  rigwright.workstation.group_members:
    groups:
      - name: ssh-users
        system: true
        members: [owner]
      - name: docker
        members: [owner]
"""

RETURN = r"""
groups:
  description: The members of each group, or null for one that is absent. In check mode what they would be.
  returned: success
  type: dict
  sample: {ssh-users: [owner], docker: [owner]}
"""

import grp
import pwd

from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._system.groups import (
    Members,
    commands,
    find_problems,
    named_users,
    plan,
)


def read_members(name: str) -> Members:
    """Return the members that a group lists; None for a group that does not exist."""
    return accounts.members_of(name) if accounts.group(name) else None


def find_primary(names: list[str]) -> list[str]:
    """Say which of the groups are the primary group of a user, and therefore cannot be removed."""
    ids = {grp.getgrnam(name).gr_gid: name for name in names}
    return [
        f"{ids[user.pw_gid]} is the primary group of {user.pw_name}" for user in pwd.getpwall() if user.pw_gid in ids
    ]


def main() -> None:
    module = HostModule(
        argument_spec={
            "groups": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
                    "system": {"type": "bool", "default": False},
                    "members": {"type": "list", "elements": "str", "default": []},
                    "append": {"type": "bool", "default": True},
                },
            },
        },
        supports_check_mode=True,
    )
    with module_lock(module, "group_members"):
        run(module)


def run(module: HostModule) -> None:
    groups = module.params["groups"]
    faults = find_problems(groups)
    unknown = [user for user in named_users(groups) if not accounts.user(user)]
    current = {group["name"]: read_members(group["name"]) for group in groups}
    wanted = plan(current, groups)
    faults += find_primary([name for name in wanted if wanted[name] is None and current[name] is not None])
    if faults:
        module.fail_json(msg=f"{'; '.join(faults)}. Set `groups` accordingly. Nothing was changed.")
    if unknown and module.check_mode:
        module.warn(f"There is no user {', '.join(unknown)}: the run is refused unless an earlier task makes them.")
    elif unknown:
        module.fail_json(
            msg=f"There is no user {', '.join(unknown)}. Make them, or set `groups` to existing members. Nothing was changed."
        )

    system = {group["name"] for group in groups if group["system"]}
    if not module.check_mode:
        for program, *arguments in commands(current, wanted, system):
            module.run_command([module.get_bin_path(program, required=True), *arguments], check_rc=True)
    module.exit_json(changed=current != wanted, groups=wanted, diff={"before": current, "after": wanted})


if __name__ == "__main__":
    main()
