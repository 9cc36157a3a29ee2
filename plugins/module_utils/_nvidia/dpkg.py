# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packages of the host as dpkg has them, and dpkg's locks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import (
    EXTENDED_STATES,
    parse_automatic,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import Entry, Run, Stuck

# Seconds to wait for another apt or dpkg.
LOCK_TIMEOUT = 300
DPKG_LOCKS = "/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock"
CONFIGURE = ("dpkg", "--force-confdef", "--force-confold")
# Two sets of packages fit together each, but not while one replaces the other.
FORCED = (
    *CONFIGURE,
    *(f"--force-{problem}" for problem in ("depends", "breaks", "remove-reinstreq", "hold", "overwrite")),
)
# dpkg asks no questions, and only the role restarts services.
ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "APT_LISTCHANGES_FRONTEND": "none",
    "NEEDRESTART_SUSPEND": "1",
}


def command_runner(run_command: t.Callable[..., tuple[int, str, str]]) -> Run:
    """Return what runs commands in this environment by ``run_command`` of a module."""

    def run(command: t.Sequence[str]) -> tuple[int, str, str]:
        rc, out, err = run_command(list(command), environ_update=ENVIRONMENT)
        return rc, out, err

    return run


class Dpkg:
    """The packages of this host, and dpkg's lock."""

    def __init__(self, run: Run, tree: Tree) -> None:
        self.run = run
        self.tree = tree

    def packages(self) -> dict[str, Entry]:
        """Return every package of which something is installed, by name. One of a foreign architecture is ``name:architecture``."""
        form = "${Package}\t${Architecture}\t${Version}\t${db:Status-Want}\t${db:Status-Status}\n"
        native = self.must(["dpkg", "--print-architecture"]).strip()
        automatic = parse_automatic(self.tree.text(EXTENDED_STATES), native)
        found = {}
        for line in self.must(["dpkg-query", "--show", f"--showformat={form}"]).splitlines():
            name, architecture, version, want, status = line.split("\t")
            if status not in ("not-installed", "config-files"):
                key = name if architecture in (native, "all") else f"{name}:{architecture}"
                found[key] = {
                    "version": version,
                    "architecture": architecture,
                    "automatic": key in automatic,
                    "hold": want == "hold",
                    "whole": status == "installed",
                }
        return found

    @contextlib.contextmanager
    def owned(self) -> t.Iterator[Run]:
        """Hold dpkg's lock as apt does, so that no other program changes packages between the commands. apt-get would wait for itself.

        :raises Stuck: another one does not end.
        """
        frontend, database = map(self.tree.at, DPKG_LOCKS)
        with _locked(frontend):
            # A killed apt leaves a dpkg that continues its work.
            with _locked(database):
                pass
            yield lambda command: self.run(["env", "DPKG_FRONTEND_LOCKED=1", *command])

    def must(self, command: t.Sequence[str]) -> str:
        """Return the output of a command.

        :raises Stuck: it failed.
        """
        return must(self.run, command)


def must(run: Run, command: t.Sequence[str]) -> str:
    """Return the output of a command.

    :raises Stuck: the command failed.
    """
    rc, out, err = run(command)
    if rc != 0:
        raise Stuck(f"`{' '.join(command[:3])} ...` ended with {rc}: {last_lines(out + err)}")
    return out


@contextlib.contextmanager
def _locked(path: str) -> t.Iterator[None]:
    """Hold one of dpkg's locks.

    :raises Stuck: another process held it for ``LOCK_TIMEOUT``.
    """
    end = time.monotonic() + LOCK_TIMEOUT
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640), "w", encoding="ascii") as lock:
        while True:
            try:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if time.monotonic() > end:
                    raise Stuck(f"another dpkg has been running for {LOCK_TIMEOUT} s") from error
                time.sleep(1)
        yield


def last_lines(text: str) -> str:
    """Return the errors in the output of dpkg or apt, or its last lines."""
    lines = [line for line in text.splitlines() if re.match(r"E: |dpkg: error|Error", line)] or text.splitlines()[-3:]
    return " ".join(" ".join(lines).split())[-800:]
