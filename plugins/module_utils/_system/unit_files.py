# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read a unit as systemd does, where systemd cannot be asked: at boot, or below another root (systemd.unit(5))."""

from __future__ import annotations

import re
import typing as t

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree

# From the strongest. Of two files with one name, systemd reads the one in the earlier directory.
FOLDERS = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/generator.early",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
)
LOCAL = ("/etc/", "/run/")


def _folders(manager: str) -> list[str]:
    return [folder.replace("systemd/system", f"systemd/{manager}") for folder in FOLDERS]


def instances(tree: Tree, template: str, manager: str = "system") -> list[str]:
    """Return the instances of a template, ``x@.service``, that have files of their own."""
    prefix, _at, kind = template.partition("@")
    pattern = re.compile(rf"({re.escape(prefix)}@.+{re.escape(kind)})(\.d)?")
    matches = (pattern.fullmatch(name) for folder in _folders(manager) for name in tree.names(folder))
    return sorted({match[1] for match in matches if match})


def files(tree: Tree, name: str, manager: str = "system") -> list[str]:
    """Return the unit file and its drop-ins, in the order in which systemd reads them; nothing for a masked unit.

    :param manager: ``user`` for a unit of the users' managers.
    """
    folders = _folders(manager)
    stem, _dot, kind = name.rpartition(".")
    prefix, at, instance = stem.partition("@")
    names = [name, f"{prefix}@.{kind}"] if instance else [name]
    units = (f"{folder}/{each}" for each in names for folder in folders)
    unit = next(filter(tree.exists, units), "")
    if unit and tree.resolve(unit) == "/dev/null":
        return []
    drop_ins: dict[str, str] = {}
    # Those of all units whose names begin alike, up to a dash, and at last those of all units of the type.
    dashes = [index for index in range(len(prefix) - 2, 0, -1) if prefix[index] == "-"]
    names += [f"{prefix[: index + 1]}{at}.{kind}" for index in dashes]
    places = [f"{folder}/{each}.d" for folder in folders for each in names]
    for place in [*places, *(f"{folder}/{kind}.d" for folder in folders)]:
        for file in tree.names(place):
            if file.endswith(".conf"):
                drop_ins.setdefault(file, f"{place}/{file}")
    return [*([unit] if unit else []), *(drop_ins[file] for file in sorted(drop_ins))]


def joined(text: str, comments: str) -> list[str]:
    """Return the lines of a text in which one that ends with a backslash goes on in the next (systemd.syntax(7)), without comments."""
    # A comment does not go on in the next line, and is none of a line that does.
    text = re.sub(rf"^[^\S\n]*[{comments}].*\n?", "", text, flags=re.MULTILINE)
    return [line for line in map(str.strip, re.sub(r"\\\n", " ", text).split("\n")) if line]


def values(texts: t.Iterable[str], key: str) -> list[str]:
    """Return the values of a setting that can be given several times: an empty one takes back those before it."""
    found: list[str] = []
    for text in texts:
        for line in joined(text, "#;"):
            name, equals, value = line.partition("=")
            if equals and name.strip() == key:
                found = [*found, value.strip()] if value.strip() else []
    return found


def is_enabled(tree: Tree, name: str) -> bool:
    """Return whether another unit starts this one: it is linked from its ``.wants`` or ``.requires``."""
    return any(
        tree.exists(f"{folder}/{other}/{name}")
        for folder in FOLDERS
        for other in tree.names(folder)
        if other.endswith((".wants", ".requires"))
    )
