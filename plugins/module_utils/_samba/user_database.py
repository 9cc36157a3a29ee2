# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Samba's users: Samba's own programs read and write them. A record names the users that the role has added."""

from __future__ import annotations

import json
import os
import secrets
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core import record
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


def read_record(tree: Tree) -> list[str]:
    """Return the names on record.

    :raises Damaged: the record is damaged.
    """
    remedy = "restore it, or remove it, and Samba's users stay when the role is removed"
    return t.cast("list[str]", record.read(tree.at(RECORD), remedy, [str]) or [])


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
        # A user who is gone since the plan is no failure: what is left to do is seen afterwards.
        for name in plan.remove:
            self._try([PDBEDIT, "-x", "-u", name])
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
        for option, names in (("-d", plan.disable), ("-e", plan.enable)):
            for name in names:
                self._try([SMBPASSWD, option, name])

    def _try(self, command: list[str]) -> None:
        self.module.run_command(command, binary_data=True)

    def _run(self, command: list[str], data: str | None = None, remedy: str = "") -> str:
        rc, out, err = self.module.run_command(command, data=data, binary_data=True)
        if rc != 0:
            output = " ".join((err or out).split()[-40:])
            self.module.fail_json(
                msg=f"`{' '.join(command[:2])}` ended with {rc}: {output}" + (f". Do this: {remedy}" if remedy else "")
            )
        return str(out)
