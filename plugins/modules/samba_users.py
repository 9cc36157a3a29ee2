#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: samba_users
short_description: Have Samba know these users, by these passwords
description:
  - Adds, changes, enables, disables and removes all users of Samba's database in one run.
  - A password is compared by its NT hash with what C(pdbedit -L -w) tells. One that has changed is set, one that has not is left alone,
    and no password is tried on the server.
  - Passwords go to C(pdbedit) by its standard input, hashes to Samba's own Python binding in the same way. Neither is ever an argument, and
    neither stands in a result or a difference.
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
        description: The password, of any letters but line breaks and control characters, and at most 254 bytes long.
        type: str
      nt_hash:
        description:
          - The NT hash instead of the password, 32 hexadecimal digits. It is as good as the password, to be kept as well.
          - To set one, the host needs C(python3-samba).
        type: str
      state:
        description: Whether Samba knows the user.
        type: str
        choices: [present, absent]
        default: present
      enabled:
        description: Whether the user can log in.
        type: bool
        default: true
notes:
  - Run it as root.
"""

EXAMPLES = r"""
- name: Let Alice in, and Bob no more
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

import contextlib
import json
import os
import pwd
import secrets
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import users

PDBEDIT = "/usr/bin/pdbedit"
SMBPASSWD = "/usr/bin/smbpasswd"
RECORD = users.RECORD

# pdbedit takes a hash as an argument only, which everybody on the host can read.
SET_HASHES = """
import json, sys
from samba.samba3 import param, passdb
context = param.get_context()
context.load(sys.argv[1])
database = passdb.PDB(context.get("passdb backend"))
for name, digest in json.load(sys.stdin).items():
    account = database.getsampwnam(name)
    account.nt_passwd = bytes.fromhex(digest)
    database.update_sam_account(account)
"""
CONFIGURATION = "/etc/samba/smb.conf"


def uids_of(names: t.Iterable[str]) -> dict[str, int]:
    """Those who are users of the host; one by one, as a directory service may not list all of its own."""
    found = {}
    for name in names:
        with contextlib.suppress(KeyError):
            found[name] = pwd.getpwnam(name).pw_uid
    return found


def read_record() -> list[str]:
    """:raises ValueError: the record is damaged."""
    if not os.path.exists(RECORD):
        return []
    with open(RECORD, encoding="utf-8") as file:
        found = json.load(file)
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise ValueError("no list of names")
    return found


def write_record(names: t.Iterable[str]) -> None:
    listed = sorted(set(names))
    Tree().replace(RECORD, json.dumps(listed).encode() if listed else None)


class Database:
    """Samba's users, read and written by Samba's own programs."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.wanted = {user["name"]: user for user in module.params["users"]}

    def read(self) -> dict[str, users.Account]:
        if not os.path.exists(PDBEDIT):
            if self.module.params["users"] and not self.module.check_mode:
                self.module.fail_json(msg=f"there is no {PDBEDIT}: install samba first")
            return {}
        return users.parse_accounts(self._run([PDBEDIT, "-L", "-w"]))

    def apply(self, plan: users.Plan) -> None:
        for name in plan.remove:
            self._run([PDBEDIT, "-x", "-u", name])
        hashes = {}
        for name in (*plan.add, *plan.password):
            password = self.wanted[name]["password"]
            if not password:
                hashes[name] = self.wanted[name]["nt_hash"]
            if password or name in plan.add:
                # Until its hash is set, a user who was just added has a password that nobody knows.
                line = f"{password or secrets.token_hex(32)}\n"
                self._run([PDBEDIT, "-a", "-t", "-u", name], line * 2)
        if hashes:
            python = ["/usr/bin/python3", "-I", "-c", SET_HASHES, CONFIGURATION]
            self._run(python, json.dumps(hashes), "install python3-samba, which sets a hash, or give passwords")

    def switch(self, plan: users.Plan) -> None:
        """Who may log in. After the passwords: with a new one pdbedit lets a user in again."""
        for option, names in (("-d", plan.disable), ("-e", plan.enable)):
            for name in names:
                self._run([SMBPASSWD, option, name])

    def _run(self, command: list[str], words: str | None = None, remedy: str = "") -> str:
        rc, out, err = self.module.run_command(
            command, data=words, binary_data=True, environ_update={"LC_ALL": "C.UTF-8"}
        )
        if rc != 0:
            said = " ".join((err or out).split()[-40:])
            self.module.fail_json(
                msg=f"`{' '.join(command[:2])}` ended with {rc}: {said}" + (f". Do this: {remedy}" if remedy else "")
            )
        return str(out)


def shown(accounts: t.Mapping[str, users.Account], names: t.Collection[str]) -> str:
    return "".join(
        f"{name}: {'enabled' if account.enabled else 'disabled'}\n"
        for name, account in sorted(accounts.items())
        if name.lower() in names
    )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "users": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "password": {"type": "str", "no_log": True},
                    "nt_hash": {"type": "str", "no_log": True},
                    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
                    "enabled": {"type": "bool", "default": True},
                },
            }
        },
        supports_check_mode=True,
    )
    with module_lock(module, "samba_users"):
        run(module)


def run(module: AnsibleModule) -> None:
    wrong = list(users.faults(module.params["users"], uids_of(user["name"] for user in module.params["users"])))
    if wrong:
        module.fail_json(
            msg="; ".join(f"`users` {one['problem']}: {one['remedy']}" for one in wrong) + ". Nothing was changed."
        )
    try:
        record = read_record()
    except ValueError as error:
        module.fail_json(msg=f"{RECORD} is damaged ({error}): restore it, or remove it. Nothing was changed.")
    database = Database(module)
    before = database.read()
    plan = users.plan(before, module.params["users"], record)
    if not module.check_mode:
        # First on record: whom a run that is cut short has added is removed one day.
        if set(plan.record) - set(record):
            write_record([*record, *plan.record])
        if plan.changes:
            database.apply(plan)
            database.switch(users.plan(database.read(), module.params["users"], plan.record))
            left = users.plan(database.read(), module.params["users"], plan.record).changes
            if left:
                module.fail_json(msg=f"Samba did not take it, as `pdbedit -L -w` shows: {', '.join(left)}")
        if list(plan.record) != record:
            write_record(plan.record)
    known = {name.lower() for change in plan.changes for name in [change.partition(":")[0]]}
    module.exit_json(
        changed=bool(plan.changes),
        changes=plan.changes,
        diff={"before": shown(before, known), "after": "".join(f"{change}\n" for change in plan.changes)},
    )


if __name__ == "__main__":
    main()
