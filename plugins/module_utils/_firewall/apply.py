# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Loads the table, keeps what was in force where that fails, and goes back to it where nobody confirms a change.

``rigwright-firewall.service`` runs this as a program; the module firewall_load has the same code do what a playbook asks.

* ``/var/lib/rigwright_firewall/good.nft``: the last rules that were loaded and, where a playbook loaded them, confirmed. A boot that
  finds something broken takes them, since no rules at all would be an open machine.
* ``/var/lib/rigwright_firewall/unconfirmed``: a playbook has loaded other rules and not come back by a new connection. As long as it
  lies there nothing but the good ones is loaded, after a reboot too.
* ``/var/lib/rigwright_firewall/confirmed.nft``: the file in /etc/nftables.d as it was confirmed, without what it includes. One that a run
  has put there and not come to load, since it was killed, is loaded by no boot and no declaration.
"""

from __future__ import annotations

import glob
import json
import os
import re
import subprocess
import sys
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import ssh_ports as ssh
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import table

# The private module that firewall_load puts in place as a program; it has to import it, so that Ansible sends it along.
ENTRY = "_firewall.apply"
PROGRAM = "/usr/local/lib/rigwright/firewall.pyz"
STATE = "/var/lib/rigwright_firewall"
GOOD = f"{STATE}/good.nft"
UNCONFIRMED = f"{STATE}/unconfirmed"
CONFIRMED = f"{STATE}/confirmed.nft"
UNDO = "rigwright-firewall-undo"
# What the mark says once the rules have gone back.
UNDONE = "undone"
INCLUDE = re.compile(r'^[ \t]*include "([^"]+)"[ \t]*$', re.MULTILINE)
NOT_THERE = 127
# Where nft and iptables lie, which the PATH of a user who has become root may not name.
PROGRAMS = "/usr/sbin"

Run = t.Callable[[list[str]], tuple[int, str, str]]


class Failed(Exception):
    """Something was not done; the text says what is in force instead."""


def flat(tree: Tree, text: str) -> str:
    """The text with its includes in it, as nft reads them: in the order of their names."""

    def content(found: re.Match[str]) -> str:
        return "".join(tree.text(path[len(tree.root) :]) for path in sorted(glob.glob(tree.at(found[1]))))

    return INCLUDE.sub(content, text)


def write(tree: Tree, path: str, content: bytes, mode: int = 0o600) -> None:
    place = tree.at(path)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    replace_file(place, content, mode)


def remove(tree: Tree, path: str) -> None:
    if tree.exists(path):
        os.unlink(tree.at(path))


class Loader:
    """The table of one host. *run* takes a command and gives exit status, output and errors."""

    def __init__(self, run: Run, tree: Tree | None = None) -> None:
        self.run, self.tree = run, tree or Tree()

    def in_force(self) -> list[t.Any]:
        """The table as the kernel has it, without what differs each time; empty for none."""
        rc, out, _err = self.run(["nft", "--stateless", "--json", "list", "table", *table.TABLE])
        return comparable(out) if rc == 0 else []

    def load(self) -> str:
        """What a boot and a reload do. :raises Failed: what should be in force is not."""
        if self.tree.exists(UNCONFIRMED):
            if not self.in_force():
                self._go_back()
            raise Failed("the last change was not confirmed, the rules before it are in force: run the role again")
        if self.tree.exists(CONFIRMED) and self.tree.text(CONFIRMED) != self.tree.text(table.RULES):
            known = self.in_force() or self._go_back()
            kept = "the rules before it are in force" if known else "there are no rules"
            raise Failed(f"{table.RULES} is not what was confirmed, {kept}: run the role again")
        problem = self._load_files()
        if not problem:
            self._keep()
            return "loaded"
        if self.in_force():
            raise Failed(f"{problem}: the rules before are still in force")
        raise Failed(f"{problem}: {'the last good rules are in force' if self._go_back() else 'there are no rules'}")

    def try_out(self, seconds: int) -> None:
        """Load a change that goes back by itself unless :meth:`confirm` comes. :raises Failed: nothing was changed."""
        waiting = self.tree.exists(UNCONFIRMED)
        self.disarm()
        write(self.tree, UNCONFIRMED, b"")
        # Calendar time stands still while a laptop sleeps, and so should this.
        timer = ["systemd-run", "--quiet", "--collect", f"--unit={UNDO}", f"--on-active={seconds}"]
        rc, _out, err = self.run([*timer, "--timer-property=AccuracySec=1s", *command("undo")])
        problem = f"systemd-run: {err.strip()}" if rc else self._load_files()
        if problem:
            self.disarm()
            if not waiting:
                remove(self.tree, UNCONFIRMED)
            raise Failed(f"{problem}: the rules before are still in force")

    def confirm(self) -> None:
        """Keep what was tried out. :raises Failed: the rules have gone back already."""
        self.disarm()
        if self.tree.text(UNCONFIRMED) == UNDONE:
            raise Failed("nobody confirmed the change in time, the rules before it are in force")
        write(self.tree, CONFIRMED, self.tree.text(table.RULES).encode())
        remove(self.tree, UNCONFIRMED)
        # What a role declared meanwhile has waited.
        self.load()

    def undo(self) -> str:
        """Go back to what was in force before a change that nobody confirmed."""
        if not self.tree.exists(UNCONFIRMED):
            return "nothing waits to be confirmed"
        write(self.tree, UNCONFIRMED, UNDONE.encode())
        if self._go_back():
            return "nobody confirmed the change, the rules before it are in force again"
        self.delete()
        return "nobody confirmed the change, and there were no rules before it"

    def delete(self) -> None:
        """Take the table away, and nothing else. :raises Failed: it is still there."""
        # `destroy` is younger than some of these kernels: made where it is not there, so that there is one to delete.
        name = " ".join(table.TABLE)
        rc, _out, err = self.run(["nft", f"add table {name}; delete table {name}"])
        if rc and rc != NOT_THERE:
            raise Failed(f"nft: {err.strip()}")

    def _load_files(self) -> str:
        """Load what lies in /etc, all or nothing. Gives nft's complaint, empty for none."""
        ports = ssh.ports(self.tree)
        write(self.tree, table.SSH, table.ssh_text(ports).encode())
        rc, _out, err = self.run(["nft", "--file", self.tree.at(table.RULES)])
        return err.strip() or f"nft ended with {rc}" if rc else ""

    def _keep(self) -> None:
        write(self.tree, GOOD, flat(self.tree, self.tree.text(table.RULES)).encode())

    def _go_back(self) -> bool:
        return self.tree.exists(GOOD) and self.run(["nft", "--file", self.tree.at(GOOD)])[0] == 0

    def disarm(self) -> None:
        """Have nothing go back by itself. An undo that is at its work is waited for."""
        self.run(["systemctl", "--quiet", "stop", f"{UNDO}.timer"])
        self.run(["systemctl", "--quiet", "stop", f"{UNDO}.service"])


def comparable(listing: str) -> list[t.Any]:
    """nft's JSON of a table without its version and the numbers that it gives to rules."""
    rows = [row for row in json.loads(listing)["nftables"] if "metainfo" not in row]
    return [
        {kind: {key: value for key, value in body.items() if key != "handle"} for kind, body in row.items()}
        for row in rows
    ]


def command(what: str) -> list[str]:
    return ["/usr/bin/python3", "-I", "-B", PROGRAM, what]


def run(command: list[str]) -> tuple[int, str, str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # pylint: disable=ansible-bad-function
    except OSError as error:
        return NOT_THERE, "", str(error)
    return done.returncode, done.stdout, done.stderr


def main(arguments: t.Sequence[str] = (), loader: Loader | None = None) -> int:
    """The program: load, undo or delete. What it says goes to the journal."""
    loader = loader or Loader(run)
    (what,) = arguments or sys.argv[1:]
    try:
        said = {"load": loader.load, "undo": loader.undo, "delete": loader.delete}[what]() or "done"
    except Failed as error:
        os.write(2, f"{error}\n".encode())
        return 1
    os.write(1, f"{said}\n".encode())
    return 0
