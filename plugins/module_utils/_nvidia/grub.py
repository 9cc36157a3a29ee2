# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel of GRUB's default entry, as GRUB finds it: grub-core/normal/menu.c and grub-mkconfig of GRUB 2.12."""

from __future__ import annotations

import dataclasses
import os
import re

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree

MENU, ENVIRONMENT = "/boot/grub/grub.cfg", "/boot/grub/grubenv"
SETTINGS = "/etc/default/grub"

_HEAD = re.compile(r"\s*(menuentry|submenu)\s+(.*)\{\s*$")
_NAME = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_KERNEL = re.compile(r"\s*linux\S*\s+(\S*vmlinuz-\S+)")
_DEFAULT = re.compile(r"^\s*set default=([\"']?)(.*?)\1\s*$", re.MULTILINE)
_SETTING = re.compile(r"^\s*GRUB_DEFAULT=(?:\"([^\"]*)\"|'([^']*)'|([^\s#;<>]*))", re.MULTILINE)


@dataclasses.dataclass
class Entry:
    """An entry of a menu: its title and id, its kernel, and for a submenu the entries in it."""

    names: set[str]
    entries: list[Entry] | None = None
    kernel: str = ""


def read_menu(text: str) -> list[Entry]:
    """Return the entries of grub.cfg. An entry that boots no Linux has no kernel."""
    top: list[Entry] = []
    # For each open block of braces its entry; None for a function.
    blocks: list[Entry | None] = []
    for line in text.splitlines():
        head, kernel = _HEAD.match(line), _KERNEL.match(line)
        if head:
            submenus = [block.entries for block in blocks if block and block.entries is not None]
            names = {name for pair in _NAME.findall(head[2]) for name in pair} - {""}
            entry = Entry(names, [] if head[1] == "submenu" else None)
            (submenus[-1] if submenus else top).append(entry)
            blocks.append(entry)
        elif line.rstrip().endswith("{"):
            blocks.append(None)
        elif line.strip() == "}" and blocks:
            blocks.pop()
        elif kernel and blocks and blocks[-1] and not blocks[-1].kernel:
            blocks[-1].kernel = os.path.basename(kernel[1])[len("vmlinuz-") :]
    return top


def select(entries: list[Entry], default: str) -> Entry | None:
    """Return the entry that GRUB boots by default. A name or number that the menu lacks leads to its first entry."""
    # A title with a greater-than sign has it twice.
    first, _sign, rest = default.replace(">>", "\0").partition(">")
    name = first.strip().replace("\0", ">")
    found = next((entry for entry in entries if name in entry.names), None)
    if not found and name.isdecimal():
        found = entries[int(name)] if int(name) < len(entries) else None
    found = found or next(iter(entries), None)
    return select(found.entries, rest.replace("\0", ">>")) if found and found.entries is not None else found


def default_of(tree: Tree) -> str:
    """Return the default that GRUB takes at the next boot. What /etc/default/grub says counts once update-grub has run."""
    environment = dict(line.partition("=")[::2] for line in tree.text(ENVIRONMENT).splitlines() if "=" in line)
    settings = [value for _quote, value in _DEFAULT.findall(tree.text(MENU)) if value != "${next_entry}"]
    if not settings:
        drop_ins = [f"{SETTINGS}.d/{name}" for name in sorted(tree.names(f"{SETTINGS}.d")) if name.endswith(".cfg")]
        for path in (SETTINGS, *drop_ins):
            settings += [next(filter(None, values), "") for values in _SETTING.findall(tree.text(path))]
    default = settings[-1] if settings else "0"
    if default in ("saved", "${saved_entry}"):
        default = environment.get("saved_entry", "")
    return environment.get("next_entry") or default or "0"


def kernel_of_default(tree: Tree) -> str:
    """Return the kernel of GRUB's default entry, empty if it is unknown."""
    default = default_of(tree)
    # Another variable's value is not known before GRUB runs.
    entry = None if "$" in default else select(read_menu(tree.text(MENU)), default)
    return entry.kernel if entry else ""
