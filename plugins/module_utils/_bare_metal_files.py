# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""What has to change in restored files so that the system starts on other disks. Pure: a file's text in, its text out.

The file systems have the UUIDs they had, so little has to: names of disks become UUIDs, since a disk's name is another one here; and
what is not there must not hold up the boot.
"""

from __future__ import annotations

import re
import typing as t

References = t.Mapping[str, t.Mapping[str, str]]

# systemd waits 90 s for a device, and then asks for root's password.
PATIENT = ("nofail", "x-systemd.device-timeout=10s")


def find(word: str, references: References) -> str:
    """The device that a word of fstab or crypttab stands for, or empty: a path, ``UUID=`` or ``LABEL=``."""
    kind, equals, value = word.partition("=")
    value = value.strip("\"'")
    for name, reference in references.items():
        if equals and kind.upper() in ("UUID", "LABEL"):
            if value and value.lower() == reference[kind.lower()].lower():
                return name
        elif word in reference["paths"].split() or (
            reference["uuid"] and word == f"/dev/disk/by-uuid/{reference['uuid']}"
        ):
            return name
    return ""


def stable(word: str, references: References) -> str:
    """The word, or the UUID of its device where it is the name of a disk or partition, which changes from machine to machine."""
    reference = references.get(find(word, references))
    if reference is None or not word.startswith("/dev/") or word.startswith("/dev/disk/by-uuid/"):
        return word
    return word if reference["stable"] or not reference["uuid"] else f"UUID={reference['uuid']}"


def edit_fstab(text: str, references: References, absent: t.Collection[str]) -> str:
    """The table of file systems: disks by UUID, and without those that are not here the boot goes on."""
    return _edit_table(text, 0, 3, references, absent)


def edit_crypttab(text: str, references: References, absent: t.Collection[str]) -> str:
    return _edit_table(text, 1, 3, references, absent)


def _edit_table(text: str, device: int, options: int, references: References, absent: t.Collection[str]) -> str:
    lines = []
    for line in text.splitlines(keepends=True):
        # The blanks stay as they are: the file is a person's.
        words = re.split(r"(\s+)", line.rstrip("\n"))
        if words and words[0] == "":
            words = ["".join(words[:3]), *words[3:]]
        fields = words[::2]
        if len(fields) <= device or fields[0].lstrip().startswith("#") or not line.strip():
            lines.append(line)
            continue
        missing = find(fields[device], references) in absent
        words[device * 2] = stable(fields[device], references)
        if missing:
            _add_options(words, options, PATIENT)
        lines.append("".join(words) + ("\n" if line.endswith("\n") else ""))
    return "".join(lines)


def _add_options(words: list[str], column: int, added: t.Sequence[str]) -> None:
    while words and not words[-1]:
        words.pop()
    while len(words[::2]) <= column:
        # The columns before it, of crypttab the key file, as if they had been left out.
        words += [" ", "none" if len(words[::2]) < column else "defaults"]
    present = words[column * 2].split(",")
    words[column * 2] = ",".join([*present, *(option for option in added if option not in present)])


def edit_resume(text: str, references: References, absent: t.Collection[str]) -> str:
    """Where the initramfs looks for a hibernated system: it waits for a device that is not there."""

    def replaced(found: re.Match[str]) -> str:
        word = found.group(2).strip("\"'")
        return f"{found.group(1)}{'none' if find(word, references) in absent else stable(word, references)}"

    return re.sub(r"^(RESUME=)(\S+)", replaced, text, flags=re.MULTILINE)


def edit_grub(text: str, references: References, absent: t.Collection[str]) -> str:
    """``resume=`` and ``root=`` of the kernel's command line in /etc/default/grub."""

    def replaced(found: re.Match[str]) -> str:
        word = found.group(2)
        return "" if find(word, references) in absent else f"{found.group(1)}{stable(word, references)}"

    return re.sub(r"\b((?:resume|root)=)([^\s\"']+)", replaced, text)


EDITS: dict[str, t.Callable[[str, References, t.Collection[str]], str]] = {
    "fstab": edit_fstab,
    "crypttab": edit_crypttab,
    "resume": edit_resume,
    "grub": edit_grub,
}
