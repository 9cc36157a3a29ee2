#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: samba_users
short_description: Manage the users of Samba and their passwords
description:
  - Adds, changes, enables, disables and removes all users of Samba's database in one run.
  - A password is compared by its NT hash with the output of C(pdbedit -L -w). One that has changed is set, one that has not is left alone,
    and no password is tried on the server.
  - Passwords go to C(pdbedit) by its standard input, hashes to Samba's own Python binding in the same way. Neither is ever an argument, and
    neither is in a result or a difference.
  - Removed are users with O(users[].state=absent), and those whom this module has added and who are no longer listed. Users whom somebody
    else has added stay.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - Where Samba is not installed yet, all users count as to be added.
  diff_mode:
    support: full
    details:
      - Each user and whether they are enabled. That a password changes is said, the password is not.
options:
  users:
    description:
      - The users. Each is a user of the host as well, and not root.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the user.
        type: str
        required: true
      password:
        description: The password, of any letters but line breaks and control characters, and at most 254 bytes long. Text in quotes.
        type: raw
      nt_hash:
        description:
          - The NT hash instead of the password, 32 hexadecimal digits. It is as good as the password, to be kept as well.
          - To set one, the host needs C(python3-samba).
        type: raw
      state:
        description: Whether Samba knows the user.
        type: str
        choices: [present, absent]
        default: present
      enabled:
        description: Whether the user can log in.
        type: bool
        default: true
  plan:
    description:
      - What the plan of the role P(rigwright.workstation.samba#role) has found to do. It is done without another look at the database,
        unless the record of users has changed since. What comes out is compared with O(users) in any case.
    type: dict
notes:
  - Run it as root.
"""

EXAMPLES = r"""
- name: Add Alice and remove Bob
  rigwright.workstation.samba_users:
    users:
      - name: alice
        password: "{{ vault_alice_smb }}"
      - name: bob
        state: absent
"""

RETURN = r"""
changes:
  description: What was done, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: ["bob: removed", "alice: password changed"]
"""

from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.record import Damaged
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import user_database, users
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.options import USER
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.user_database import Database


def main() -> None:
    module = HostModule(
        argument_spec={
            "users": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": USER,
            },
            "plan": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    with module_lock(module, "samba_users"):
        run(module)


def run(module: HostModule) -> None:
    wrong = list(
        users.problems_of_request(
            module.params["users"], accounts.uids_of(user["name"] for user in module.params["users"])
        )
    )
    if wrong:
        module.fail_json(
            msg="; ".join(f"`users` {row['problem']}: {row['remedy']}" for row in wrong) + ". Nothing was changed."
        )
    try:
        record = user_database.read_record(Tree())
    except Damaged as error:
        module.fail_json(msg=f"{error}. Nothing was changed.")
    database, wanted = Database(module), module.params["users"]
    plan = users.Plan.of(module.params["plan"]) if module.params["plan"] else None
    if plan is None or plan.recorded != tuple(sorted(record)):
        plan = users.plan(database.read(), wanted, record)
    changes, before = list(plan.changes), list(plan.before)
    if not module.check_mode:
        on_record = record
        # Once more where the database has changed since the plan.
        for _round in range(2):
            # The record comes first: an interrupted run must not leave users that nothing removes.
            if set(plan.record) - set(on_record):
                on_record = sorted({*on_record, *plan.record})
                user_database.write_record(on_record)
            if not plan.changes:
                break
            database.apply(plan)
            plan = users.plan(database.read(), wanted, plan.record)
            changes += [change for change in plan.changes if change not in changes]
        if plan.changes:
            module.fail_json(msg=f"Samba did not take it, as `pdbedit -L -w` shows: {', '.join(plan.changes)}")
        if list(plan.record) != on_record:
            user_database.write_record(plan.record)
    module.exit_json(
        changed=bool(changes),
        changes=changes,
        diff={
            "before": "".join(f"{line}\n" for line in before),
            "after": "".join(f"{change}\n" for change in changes),
        },
    )


if __name__ == "__main__":
    main()
