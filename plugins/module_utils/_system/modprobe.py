# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of modprobe and of the kernel's parameters, with the file that has each (modprobe.d(5))."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree

# The first directory with a file of a name has it (modprobe.d(5), kmod 34).
DIRECTORIES = (
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
)
COMMAND_LINE = "/proc/cmdline"


class Setting(t.NamedTuple):
    """A line of a file, or a parameter of the kernel, and the file that has it."""

    setting: str
    file: str


def settings(tree: Tree) -> list[Setting]:
    """Return the lines of modprobe.d, in the order in which modprobe reads them."""
    files: dict[str, str] = {}
    for directory in DIRECTORIES:
        for name in tree.names(directory):
            if name.endswith(".conf"):
                files.setdefault(name, f"{directory}/{name}")
    return [Setting(line, path) for _name, path in sorted(files.items()) for line in _lines(tree.text(path))]


def parameters(tree: Tree) -> list[Setting]:
    """Return the parameters that the kernel was started with."""
    return [Setting(word, COMMAND_LINE) for word in tree.text(COMMAND_LINE).split()]


def option(tree: Tree, module: str, name: str) -> str:
    """Return the value of a module's option. The last one counts, and the kernel's parameters come last."""
    value = ""
    for line in settings(tree):
        fields = line.setting.split()
        if fields[:1] == ["options"] and _same(fields[1:2], module):
            value = next((word.partition("=")[2] for word in fields[2:] if word.startswith(f"{name}=")), value)
    for word in parameters(tree):
        key, _sign, given = word.setting.partition("=")
        owner, _dot, key = key.partition(".")
        value = given if key == name and _same([owner], module) else value
    return value.strip("\"'")


def _same(names: t.Sequence[str], module: str) -> bool:
    return [name.replace("-", "_") for name in names] == [module]


def _lines(text: str) -> list[str]:
    joined = re.sub(r"\\\n", " ", text)
    return [" ".join(line.split()) for line in joined.splitlines() if not line.lstrip().startswith("#")]
