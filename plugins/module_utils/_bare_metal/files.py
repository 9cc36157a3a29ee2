# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Edit restored files so that the system starts on other disks. Pure: a file's text in, its text out.

The file systems keep their UUIDs, so little changes: names of disks become UUIDs, since disks have other names here. A device that is
absent must not hold up the boot.
"""

from __future__ import annotations

import re
import typing as t

# By device, as device_references of the steps has them.
References = t.Mapping[str, t.Mapping[str, t.Any]]

BY = "/dev/disk/by-"
TAGS = ("UUID", "LABEL", "PARTUUID", "PARTLABEL")
# The columns up to the options, as they are where a person has left them out.
FSTAB = ("", "", "auto", "defaults")
CRYPTTAB = ("", "", "none", "")

# systemd waits 90 s for a device, and then asks for root's password.
PATIENCE = ("nofail", "x-systemd.device-timeout=10s")


def normal(word: str) -> str:
    """Return a device's name in one form: ``UUID=x``, ``uuid="X"`` and ``/dev/disk/by-uuid/x`` are the same."""
    kind, equals, value = word.partition("=")
    if equals and kind.upper() in TAGS:
        word = f"{BY}{kind.lower()}/" + value.strip("\"'")
    # A blank is written as the one in fstab, and as the other by udev.
    word = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), word)
    word = re.sub(r"\\x([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), word)
    return word.lower() if word.startswith((f"{BY}uuid/", f"{BY}partuuid/")) else word


def find(word: str, references: References) -> str:
    """Return the device that a word of fstab or crypttab names, or an empty string."""
    name = normal(word)
    return next((device for device, reference in references.items() if name in reference["names"]), "")


def stable(word: str, device: str, references: References) -> str:
    """Return the word, or the UUID of its device where it is a name of a disk or partition, which differs between machines."""
    if not device or not word.startswith("/dev/") or word.startswith(tuple(f"{BY}{kind.lower()}/" for kind in TAGS)):
        return word
    reference = references[device]
    return word if reference["lasting"] or not reference["uuid"] else f"UUID={reference['uuid']}"


def edit_fstab(text: str, references: References, absent: t.Collection[str]) -> str:
    """Edit fstab: disks by UUID; the boot does not wait for absent ones."""
    # A name that is unknown today is identified by its mount point.
    mounted = {target: name for name, reference in references.items() for target in reference["targets"]}

    def device(fields: t.Sequence[str]) -> str:
        is_disk = fields[0].startswith("/dev/") or fields[0].upper().startswith(tuple(f"{tag}=" for tag in TAGS))
        return find(fields[0], references) or (mounted.get(normal(fields[1]), "") if is_disk else "")

    return _edit_table(text, 0, FSTAB, device, references, absent)


def edit_crypttab(text: str, references: References, absent: t.Collection[str]) -> str:
    return _edit_table(text, 1, CRYPTTAB, lambda fields: find(fields[1], references), references, absent)


def _edit_table(
    text: str,
    column: int,
    left_out: t.Sequence[str],
    device: t.Callable[[t.Sequence[str]], str],
    references: References,
    absent: t.Collection[str],
) -> str:
    lines = []
    for line in text.splitlines(keepends=True):
        # Blanks stay as the user wrote them.
        parts = re.split(r"(\s+)", line.rstrip("\n"))
        if parts and parts[0] == "":
            parts = ["".join(parts[:3]), *parts[3:]]
        fields = [word.strip() for word in parts[::2]]
        if len(fields) < 2 or fields[0].startswith("#"):
            lines.append(line)
            continue
        found = device(fields)
        parts[column * 2] = parts[column * 2].replace(fields[column], stable(fields[column], found, references))
        if found in absent:
            _add_options(parts, left_out)
        lines.append("".join(parts) + ("\n" if line.endswith("\n") else ""))
    return "".join(lines)


def _add_options(parts: list[str], left_out: t.Sequence[str]) -> None:
    while parts and not parts[-1]:
        parts.pop()
    while len(parts[::2]) < len(left_out):
        parts += [" ", left_out[len(parts[::2])]]
    place = 2 * (len(left_out) - 1)
    present = [option for option in parts[place].split(",") if option]
    parts[place] = ",".join([*present, *(option for option in PATIENCE if option not in present)])


def edit_resume(text: str, references: References, absent: t.Collection[str]) -> str:
    """Edit the initramfs's resume device: it waits for a device that is absent."""

    def replaced(found: re.Match[str]) -> str:
        word = found.group(2).strip("\"'")
        device = find(word, references)
        return f"{found.group(1)}{'none' if device in absent else stable(word, device, references)}"

    return re.sub(r"^(RESUME=)(\S+)", replaced, text, flags=re.MULTILINE)


def edit_grub(text: str, references: References, absent: t.Collection[str]) -> str:
    """Edit ``resume=`` and ``root=`` of the kernel's command line in /etc/default/grub."""

    def replaced(found: re.Match[str]) -> str:
        word, device = found.group(2), find(found.group(2), references)
        return "" if device in absent else f"{found.group(1)}{stable(word, device, references)}"

    return re.sub(r"\b((?:resume|root)=)([^\s\"']+)", replaced, text)


EDITS: dict[str, t.Callable[[str, References, t.Collection[str]], str]] = {
    "fstab": edit_fstab,
    "crypttab": edit_crypttab,
    "resume": edit_resume,
    "grub": edit_grub,
}
