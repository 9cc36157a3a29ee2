# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""List the files of directories that a program reads one after the other."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree

# The first directory with a file of a name has it (modprobe.d(5), kmod 34).
MODPROBE = ("/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d")


def module_options(line: str) -> t.Iterator[tuple[str, str, str]]:
    """Yield the options that a line of modprobe.d sets: module, name and value. A module has underscores, as the kernel names it."""
    command, *pieces = line.split() or [""]
    if command == "options" and pieces:
        for word in pieces[1:]:
            name, _sign, value = word.partition("=")
            yield pieces[0].replace("-", "_"), name, value


def by_name(tree: Tree, folders: t.Iterable[str], ending: str) -> list[str]:
    """Return the files of all folders in the order of their names. Of one name, that of the first folder counts."""
    found: dict[str, str] = {}
    for folder in folders:
        for name in tree.names(folder):
            if name.endswith(ending):
                found.setdefault(name, f"{folder}/{name}")
    return [found[name] for name in sorted(found)]
