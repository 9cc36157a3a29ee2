# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Load the table, keep the rules in force when that fails, and restore them when nobody confirms a change.

``rigwright-firewall.service`` runs this as a program, and the module firewall_load runs the same code for a playbook.

* ``/var/lib/rigwright_firewall/good.nft``: the last rules that were loaded and, if by a playbook, confirmed. A boot loads them when the
  files have an error: without any rules the machine would be open.
* ``/var/lib/rigwright_firewall/unconfirmed``: a playbook has loaded other rules and not confirmed them by a new connection. While this
  file exists, only the good rules are loaded, also after a reboot.
* ``/var/lib/rigwright_firewall/confirmed.nft``: the confirmed content of the file in /etc/nftables.d, without its includes. A file that a
  killed run has written and not loaded differs from it, and neither a boot nor a declaration loads that.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import shutil
import sys
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import programs
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import ssh_ports as ssh
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import table

# The file that firewall_load installs as a program. The module imports it, so that Ansible ships it.
ENTRY = "_firewall.apply"
PROGRAM = "/usr/local/lib/rigwright/firewall.pyz"
STATE = "/var/lib/rigwright_firewall"
GOOD = f"{STATE}/good.nft"
UNCONFIRMED = f"{STATE}/unconfirmed"
CONFIRMED = f"{STATE}/confirmed.nft"
UNDO = "rigwright-firewall-undo"
# The content of UNCONFIRMED once the former rules are restored. A full or read-only disk does not take it, but /run does.
UNDONE = "undone"
UNDONE_NOTE = "/run/rigwright-firewall/undone"
INCLUDE = re.compile(r'^[ \t]*include "([^"]+)"[ \t]*$', re.MULTILINE)
NOT_THERE = 127
# The directory of nft and iptables; the PATH of a user who has become root may lack it.
PROGRAMS = "/usr/sbin"

Run = t.Callable[[list[str]], tuple[int, str, str]]


class LoadError(Exception):
    """The rules were not loaded, confirmed or deleted; the text names the rules in force."""


def flat(tree: Tree, text: str) -> str:
    """Return the text with its included files in it, in the order of their names as in nft."""

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
    """The table of one host. *run* runs a command and returns exit status, output and errors."""

    def __init__(self, run: Run, tree: Tree | None = None) -> None:
        self.run, self.tree = run, tree or Tree()

    def in_force(self) -> list[t.Any]:
        """Return the table of the kernel in comparable form; empty for none."""
        rc, out, _err = self.run(["nft", "--stateless", "--json", "list", "table", *table.TABLE])
        return comparable(out) if rc == 0 else []

    def load(self) -> str:
        """Load the files, as a boot and a reload do.

        :raises LoadError: other rules than those of the files are in force.
        """
        if self.tree.exists(UNCONFIRMED):
            if not self.in_force():
                self._go_back()
            raise LoadError("the last change was not confirmed, the rules before it are in force: run the role again")
        if self.tree.exists(CONFIRMED) and self.tree.text(CONFIRMED) != self.tree.text(table.RULES):
            restored = self.in_force() or self._go_back()
            kept = "the rules before it are in force" if restored else "there are no rules"
            raise LoadError(f"{table.RULES} is not what was confirmed, {kept}: run the role again")
        problem = self._load_files()
        if not problem:
            try:
                self._keep()
            except OSError as error:
                return f"loaded, but not kept for a boot at which the files have an error: {error}"
            return "loaded"
        if self.in_force():
            raise LoadError(f"{problem}: the rules before are still in force")
        raise LoadError(f"{problem}: {'the last good rules are in force' if self._go_back() else 'there are no rules'}")

    def try_out(self, seconds: int) -> None:
        """Load a change, which a timer reverts without :meth:`confirm`.

        :raises LoadError: nothing was changed.
        """
        waiting = self.tree.exists(UNCONFIRMED)
        self.disarm()
        remove(self.tree, UNDONE_NOTE)
        write(self.tree, UNCONFIRMED, b"")
        # The timer has to stop while a laptop sleeps; --on-active does.
        timer = ["systemd-run", "--quiet", "--collect", f"--unit={UNDO}", f"--on-active={seconds}"]
        rc, _out, err = self.run([*timer, "--timer-property=AccuracySec=1s", *command("undo")])
        problem = f"systemd-run: {err.strip()}" if rc else self._load_files()
        if problem:
            self.disarm()
            if not waiting:
                remove(self.tree, UNCONFIRMED)
            raise LoadError(f"{problem}: the rules before are still in force")

    def confirm(self) -> None:
        """Keep the rules that were tried out.

        :raises LoadError: the former rules are restored already.
        """
        self.disarm()
        if UNDONE in (self.tree.text(UNCONFIRMED), self.tree.text(UNDONE_NOTE)):
            raise LoadError("nobody confirmed the change in time, the rules before it are in force")
        write(self.tree, CONFIRMED, self.tree.text(table.RULES).encode())
        remove(self.tree, UNCONFIRMED)
        # Load the declarations that roles have written since.
        self.load()

    def undo(self) -> str:
        """Restore the rules before a change that nobody confirmed. No note that cannot be written prevents it."""
        if not self.tree.exists(UNCONFIRMED):
            return "no change waits for a confirmation"
        self._note(UNDONE_NOTE)
        restored = self._go_back()
        if not restored:
            self.delete()
        self._note(UNCONFIRMED)
        before = "the rules before it are in force again" if restored else "and there were no rules before it"
        return f"nobody confirmed the change, {before}"

    def _note(self, path: str) -> None:
        with contextlib.suppress(OSError):
            write(self.tree, path, UNDONE.encode())

    def delete(self) -> None:
        """Delete the table and nothing else.

        :raises LoadError: it still exists.
        """
        # Some of the kernels lack `destroy`: create the table first, so that `delete` always finds one.
        name = " ".join(table.TABLE)
        rc, _out, err = self.run(["nft", f"add table {name}; delete table {name}"])
        if rc and rc != NOT_THERE:
            raise LoadError(f"nft: {err.strip()}")

    def _load_files(self) -> str:
        """Load the files in /etc in one transaction. Return the error of nft, empty for none."""
        content = table.ssh_text(ssh.ports(self.tree))
        try:
            if self.tree.text(table.SSH) != content:
                write(self.tree, table.SSH, content.encode())
        except OSError as error:
            return f"{table.SSH}: {error}"
        rc, _out, err = self.run(["nft", "--file", self.tree.at(table.RULES)])
        return err.strip() or f"nft ended with {rc}" if rc else ""

    def _keep(self) -> None:
        write(self.tree, GOOD, flat(self.tree, self.tree.text(table.RULES)).encode())

    def _go_back(self) -> bool:
        return self.tree.exists(GOOD) and self.run(["nft", "--file", self.tree.at(GOOD)])[0] == 0

    def disarm(self) -> None:
        """Stop the timer that restores the former rules, and wait for a running undo."""
        self.run(["systemctl", "--quiet", "stop", f"{UNDO}.timer"])
        self.run(["systemctl", "--quiet", "stop", f"{UNDO}.service"])


def is_present(loader: Loader, has_nft: bool) -> bool:
    """Return whether files or the table of the firewall exist on the host."""
    kept = any(loader.tree.exists(path) for path in (PROGRAM, STATE, os.path.dirname(table.SSH)))
    return kept or (has_nft and loader.in_force() != [])


def remove_all(loader: Loader, has_nft: bool) -> None:
    """Remove the table and all files. The program goes last: while it exists, the next run completes an interrupted one."""
    loader.disarm()
    if has_nft:
        loader.delete()
    for folder in (STATE, os.path.dirname(table.SSH)):
        shutil.rmtree(loader.tree.at(folder), ignore_errors=True)
    remove(loader.tree, PROGRAM)
    # Other modules keep their programs in the same directory.
    with contextlib.suppress(OSError):
        os.rmdir(loader.tree.at(os.path.dirname(PROGRAM)))


def comparable(listing: str) -> list[t.Any]:
    """Return nft's JSON of a table without its version and the handles of rules."""
    rows = [row for row in json.loads(listing)["nftables"] if "metainfo" not in row]
    return [
        {kind: {key: value for key, value in body.items() if key != "handle"} for kind, body in row.items()}
        for row in rows
    ]


def command(action: str) -> list[str]:
    return ["/usr/bin/python3", "-I", "-B", PROGRAM, action]


def run(command: list[str]) -> tuple[int, str, str]:
    try:
        done = programs.run(command)
    except OSError as error:
        return NOT_THERE, "", str(error)
    return done.returncode, done.stdout, done.stderr


def main(arguments: t.Sequence[str] = (), loader: Loader | None = None) -> int:
    """Run the program: load, undo or delete. The journal gets its output."""
    loader = loader or Loader(run)
    (action,) = arguments or sys.argv[1:]
    try:
        message = {"load": loader.load, "undo": loader.undo, "delete": loader.delete}[action]() or "done"
    except LoadError as error:
        os.write(2, f"{error}\n".encode())
        return 1
    os.write(1, f"{message}\n".encode())
    return 0
