# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of a host that keep NVIDIA's modules from loading (modprobe.d(5), the kernel's parameters)."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._system import modprobe

# The modules without which nothing computes, by all names that they have: Debian's packages rename theirs.
_MODULES = re.compile(r"nvidia(_current|_tesla(_\d+)?)?(_open)?(_uvm)?")
# What runs in the place of the module, and loads nothing.
_NOTHING = re.compile(r"(/usr)?(/bin/)?(true|false|:)|/dev/null")


def read_obstacles(tree: Tree) -> list[modprobe.Setting]:
    """Return the settings that keep a module from loading. A `blacklist` alone does not: modprobe loads the module by its name."""
    found: list[modprobe.Setting] = []
    ruled: set[str] = set()
    for setting in modprobe.settings(tree):
        fields = setting.setting.split()
        # Of several rules for a module, modprobe takes the first.
        again = fields[:1] == ["install"] and fields[1] in ruled if len(fields) > 1 else False
        if not again and _prevents(fields):
            found.append(setting)
        if fields[:1] == ["install"]:
            ruled.update(fields[1:2])
    for setting in modprobe.parameters(tree):
        name, _sign, value = setting.setting.partition("=")
        # The kernel's own list. The one of modprobe is as a file's.
        if name.replace("-", "_") == "module_blacklist" and any(map(_is_needed, value.split(","))):
            found.append(setting)
    return found


def _prevents(fields: t.Sequence[str]) -> bool:
    if len(fields) < 3 or not _is_needed(fields[1]):
        return False
    # An alias to a module that does not exist: modprobe looks for one called `off`.
    return (fields[0] == "alias" and fields[2] in ("off", "null")) or (
        fields[0] == "install" and bool(_NOTHING.fullmatch(fields[2]))
    )


def _is_needed(module: str) -> bool:
    return bool(_MODULES.fullmatch(module.replace("-", "_")))
