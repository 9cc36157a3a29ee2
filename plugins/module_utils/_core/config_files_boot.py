# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recover configuration files at boot, after a power cut in the middle of a transaction.

Without it, services would start with a part of the new files and a part of the old ones until the role runs again. The unit is on the
host only while a transaction is open.
"""

from __future__ import annotations

import contextlib
import os
import sys

from ansible_collections.rigwright.workstation.plugins.module_utils._core import bundle, programs
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import clear_unfinished, replace_link
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import Store
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_state import (
    RECOVERY_UNIT,
    STORE,
    open_sets,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Refused
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree

ROOT = "/"
UNIT = RECOVERY_UNIT
LINK = "/etc/systemd/system/sysinit.target.wants/rigwright-recover.service"
PROGRAM = f"{os.path.dirname(STORE)}/recover.pyz"

_TEXT = """\
# Ansible managed
# Restores files that a run was changing when the power failed. This unit exists only while a run changes files.

[Unit]
Description=Recovery of configuration files after an interrupted Ansible run
DefaultDependencies=no
After=local-fs.target
Before=sysinit.target

[Service]
Type=oneshot
ExecStart={python} -I -B {program}
"""


def arm(root: str | None = None) -> None:
    """Enable the unit that recovers open transactions at boot. The program is on the disk before the link to the unit."""
    tree = Tree(ROOT if root is None else root)
    text = _TEXT.format(python=sys.executable, program=PROGRAM).encode()
    for path, content in ((PROGRAM, bundle.bundle("_core.config_files_boot")), (UNIT, text)):
        if tree.bytes(path) != content:
            tree.replace(path, content)
    os.makedirs(os.path.dirname(tree.at(LINK)), exist_ok=True)
    if tree.link(LINK) != UNIT:
        replace_link(tree.at(LINK), UNIT)


def disarm(root: str | None = None) -> None:
    """Remove the unit, unless a transaction of another set is open."""
    tree = Tree(ROOT if root is None else root)
    # Under the lock of the sets, nobody writes them now.
    for path in (UNIT, PROGRAM):
        clear_unfinished(*os.path.split(tree.at(path)))
    armed = [path for path in (LINK, UNIT, PROGRAM) if tree.exists(path)]
    if not armed or open_sets(tree.at(STORE)):
        return
    for path in armed:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(tree.at(path))
    for path in (os.path.dirname(LINK), os.path.dirname(PROGRAM)):
        with contextlib.suppress(OSError):  # something else is there
            os.rmdir(tree.at(path))


def main(root: str | None = None) -> int:
    """Recover every set whose transaction is open, and log it to the journal."""
    place = Tree(ROOT if root is None else root).at(STORE)
    recovered = refused = False
    for name in open_sets(place):
        store = Store(name, place)
        with store.locked():
            try:
                if store.recover():
                    recovered = True
                    sys.stdout.write(f"{name}: files of an interrupted run were put back\n")
            except (Refused, OSError) as error:
                # A set that cannot be restored stops no other.
                refused = True
                sys.stdout.write(f"{name}: files of an interrupted run were not put back: {error}\n")
            for kept in store.rescued:
                sys.stdout.write(f"{name}: a file that was edited meanwhile is kept as {kept}\n")
    # Before the unit of this program goes: a daemon-reload would lose the unit that it runs as.
    reloaded = not recovered or reload_units()
    disarm(root)
    return 0 if reloaded and not refused else 1


def reload_units() -> bool:
    """Let systemd read unit files and fstab again: it has loaded them before this program restored the old ones."""
    command = ["systemctl", "daemon-reload"]
    done = programs.run(command)
    if done.returncode != 0:
        sys.stdout.write(f"systemd runs with unit files that were put back since: {done.stderr.strip()}\n")
    return done.returncode == 0
