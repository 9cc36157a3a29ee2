# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Edit restored files so that the system starts on other disks. Pure: a file's text in, its text out.

The file systems keep their UUIDs, so little changes: names of disks become UUIDs, since disks have other names here. A device that is
absent must not hold up the boot.
"""

from __future__ import annotations

import fnmatch
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import (
    BY,
    DEVICE_OPTIONS,
    TAGS,
    device_name,
    is_within,
    unescape,
)

# By device, as device_references of the steps has them.
References = t.Mapping[str, JsonObject]

# The columns up to the options, as they are where a person has left them out.
FSTAB = ("", "", "auto", "defaults")
CRYPTTAB = ("", "", "none", "")

# systemd waits 90 s for a device, and then asks for root's password.
NO_WAIT = "nofail"
PATIENCE = (NO_WAIT, "x-systemd.device-timeout=10s")
# What these are mounted from is a path of another file system, or has one in its options.
_FROM_A_PATH = ("bind", "rbind", "loop")
_PATH_OPTIONS = ("lowerdir", "upperdir", "workdir", "loop")
_IN_MEMORY = re.compile(r"/dev/z?ram\d")
# A device that is encrypted with a key of these is written to at each boot.
_RANDOM = ("/dev/urandom", "/dev/random", "/dev/hwrng")
_WRITES = ("swap", "tmp", "plain")
TOP_LEVEL = "5"


def normal(word: str) -> str:
    """Return a device or a directory of a file in one form."""
    return device_name(unescape(word))


def find(word: str, references: References) -> str:
    """Return the device that a word of fstab or crypttab names, or an empty string."""
    name = normal(word)
    return next((device for device, reference in references.items() if name in reference["names"]), "")


def is_tag(word: str) -> bool:
    """Return whether a word names a device by what is written on it, which the new one has too."""
    return normal(word).startswith(tuple(f"{BY}{kind.lower()}/" for kind in TAGS))


def stable(word: str, device: str, references: References, by_content: bool = True) -> str:
    """Return the word, or what the new device has too: the UUID of its content, or of its partition.

    :param by_content: false where the content is made at each boot, so that its UUID is another one.
    """
    if not device or not word.startswith(("/dev/", "ID=")) or is_tag(word):
        return word
    reference = references[device]
    if normal(word) in reference["lasting_names"]:
        return word
    if by_content and reference["uuid"]:
        return f"UUID={reference['uuid']}"
    if reference["partuuid"]:
        return f"PARTUUID={reference['partuuid']}"
    return next(iter(reference["lasting_names"]), word)


class Row:
    """One line of fstab or crypttab. Blanks stay as the user wrote them."""

    def __init__(self, line: str, columns: t.Sequence[str]) -> None:
        self.line, self.columns = line, columns
        self.parts = re.split(r"(\s+)", line.rstrip("\n"))
        if self.parts and self.parts[0] == "":
            self.parts = ["".join(self.parts[:3]), *self.parts[3:]]
        fields = [word.strip() for word in self.parts[::2]]
        self.is_entry = len(fields) >= 2 and not fields[0].startswith("#")
        self.fields = [*fields, *columns[len(fields) :]] if self.is_entry else fields

    @property
    def options(self) -> list[str]:
        return [option for option in self.fields[len(self.columns) - 1].split(",") if option]

    def replace(self, column: int, word: str) -> None:
        """Set a word; columns that are missing before it are written with what they mean."""
        if word == self.fields[column]:
            return
        while self.parts and not self.parts[-1]:
            self.parts.pop()
        while len(self.parts[::2]) <= column:
            self.parts += [" ", self.columns[len(self.parts[::2])]]
        self.parts[2 * column] = self.parts[2 * column].replace(self.fields[column], word) or word
        self.fields[column] = word

    def add(self, *options: str) -> None:
        present = self.options
        added = [*present, *(option for option in options if option not in present)]
        self.replace(len(self.columns) - 1, ",".join(added))

    def text(self, comment: str = "") -> str:
        end = "\n" if self.line.endswith("\n") else ""
        return "".join(self.parts) + end if not comment else f"# {comment}: {''.join(self.parts).strip()}{end}"


def edit_fstab(text: str, references: References, absent: t.Collection[str]) -> str:
    """Edit fstab: disks by UUID, subvolumes by path; the boot does not wait for what is absent."""
    rows = [Row(line, FSTAB) for line in text.splitlines(keepends=True)]
    entries = [row for row in rows if row.is_entry]
    # A name that is unknown today is identified by its mount point.
    mounted = {target: name for name, reference in references.items() for target in reference["targets"]}
    found = [_device(row, references, mounted) for row in entries]
    _find_swap(entries, found, references)
    missing = {row.fields[1] for row, device in zip(entries, found) if device in absent}
    missing |= {target for target, device in mounted.items() if device in absent}
    for row, device in zip(entries, found):
        row.replace(0, stable(row.fields[0], device, references))
        if row.fields[2] == "btrfs" and device:
            _by_path(row, references[device])
        _edit_options(row, references)
        if device in absent:
            row.add(*PATIENCE)
    _follow(entries, missing)
    return "".join(row.text() for row in rows)


def _device(row: Row, references: References, mounted: t.Mapping[str, str]) -> str:
    is_disk = row.fields[0].startswith("/dev/") or is_tag(row.fields[0])
    return find(row.fields[0], references) or (mounted.get(normal(row.fields[1]), "") if is_disk else "")


def _find_swap(entries: t.Sequence[Row], found: list[str], references: References) -> None:
    """Give swap by an unknown name its device, if only one was in use that no other line names."""
    unnamed = [name for name, reference in references.items() if reference["swap"] and name not in found]
    unknown = [
        number
        for number, row in enumerate(entries)
        if not found[number]
        and row.fields[2] == "swap"
        and row.fields[0].startswith("/dev/")
        and not is_tag(row.fields[0])
        and not _IN_MEMORY.match(row.fields[0])
    ]
    if len(unnamed) == len(unknown) == 1:
        found[unknown[0]] = unnamed[0]


def _by_path(row: Row, reference: JsonObject) -> None:
    """Name a subvolume by its path: its number is another one on a new file system, and its default is the top level."""
    root = reference["subvolumes"].get(normal(row.fields[1]), "")
    number = next((option for option in row.options if option.startswith("subvolid=")), "")
    if number == f"subvolid={TOP_LEVEL}":
        return
    options = [option for option in row.options if option != number]
    if root and root != "/" and not any(option.startswith("subvol=") for option in options):
        options.append(f"subvol={root}")
    if number and options and not any(option.startswith("subvol=") for option in options):
        options.append(NO_WAIT)
    if options != row.options:
        row.replace(len(FSTAB) - 1, ",".join(options) or FSTAB[-1])


def _edit_options(row: Row, references: References) -> None:
    """Replace disks in options by what the new ones have too. btrfs needs none: udev finds its devices."""
    options = []
    for option in row.options:
        name, _sign, value = option.partition("=")
        if name in (*DEVICE_OPTIONS, "header") and find(value, references):
            # An option takes a path: mount(8) looks for a tag in the first column alone.
            lasting = stable(value, find(value, references), references)
            kind, _equals, tag = lasting.partition("=")
            option = f"{name}={lasting}" if lasting.startswith("/") else f"{name}={BY}{kind.lower()}/{tag}"
            if name == "device":
                continue
        options.append(option)
    if options != row.options:
        row.replace(len(row.columns) - 1, ",".join(options) or row.columns[-1])


def _follow(entries: t.Sequence[Row], missing: set[str]) -> None:
    """Let the boot wait for no line whose source is on a file system that it does not wait for."""
    targets = set(missing)
    while True:
        more = [
            row
            for row in entries
            if NO_WAIT not in row.options
            and any(_is_of(source, target) for source in _sources(row) for target in targets)
        ]
        if not more:
            return
        for row in more:
            row.add(NO_WAIT)
            targets.add(normal(row.fields[1]))


def _is_of(source: str, target: str) -> bool:
    """Return whether a directory, which may have wildcards, is one of a file system or has one below them."""
    return is_within(re.split(r"[*?\[{]", source)[0].rstrip("/") or "/", target) or fnmatch.fnmatchcase(target, source)


def _sources(row: Row) -> list[str]:
    """Return the directories and files of other file systems that a line needs."""
    values = dict(option.partition("=")[::2] for option in row.options)
    found = [value for name in _PATH_OPTIONS for value in values.get(name, "").split(":")]
    # mount.fuse(8): the program may be in front, as in `mhddfs#/mnt/a,/mnt/b`.
    program = re.match(r"[\w.-]+#", row.fields[0])
    source = row.fields[0][program.end() if program else 0 :]
    if source.startswith("/") and not source.startswith("/dev/"):
        # A pool (mergerfs, mhddfs) has several, with wildcards.
        parts = re.split("[:,]" if program else ":", source)
        found += parts
    return [normal(path) for path in found if path.startswith("/")]


def edit_crypttab(text: str, references: References, absent: t.Collection[str]) -> str:
    """Edit crypttab: devices by what is written on them. A line that would encrypt a disk of an unknown name is switched off."""
    lines = []
    for line in text.splitlines(keepends=True):
        row = Row(line, CRYPTTAB)
        if not row.is_entry:
            lines.append(line)
            continue
        device = find(row.fields[1], references)
        writes = row.fields[2] in _RANDOM or any(option.partition("=")[0] in _WRITES for option in row.options)
        row.replace(1, stable(row.fields[1], device, references, by_content=not writes))
        _edit_options(row, references)
        if device in absent:
            row.add(*PATIENCE)
        is_old = row.fields[1].startswith("/dev/") and not is_tag(row.fields[1])
        if writes and is_old and (not device or normal(row.fields[1]) not in references[device]["lasting_names"]):
            lines.append(row.text(comment="a name of the old machine, and another disk's here"))
        else:
            lines.append(row.text())
    return "".join(lines)


def edit_resume(text: str, references: References, absent: t.Collection[str]) -> str:
    """Edit the initramfs's resume device: it waits for a device that is absent."""

    def replaced(found: re.Match[str]) -> str:
        word = found.group(2).strip("\"'")
        device = find(word, references)
        return f"{found.group(1)}{'none' if device in absent else stable(word, device, references)}"

    return re.sub(r"^(RESUME=)(\S+)", replaced, text, flags=re.MULTILINE)


def edit_grub(text: str, references: References, absent: t.Collection[str]) -> str:
    """Edit ``resume=``, ``root=`` and the subvolume in ``rootflags=`` of the kernel's command line in /etc/default/grub."""

    def replaced(found: re.Match[str]) -> str:
        word, device = found.group(2), find(found.group(2), references)
        return "" if device in absent else f"{found.group(1)}{stable(word, device, references)}"

    def flags(found: re.Match[str]) -> str:
        row = Row(f"root / btrfs {found.group(2)}", FSTAB)
        of_root = next((reference for reference in references.values() if "/" in reference["targets"]), None)
        if of_root and of_root["subvolumes"]:
            _by_path(row, of_root)
        return f"{found.group(1)}{row.fields[3]}"

    text = re.sub(r"\b(rootflags=)([^\s\"']+)", flags, text)
    return re.sub(r"\b((?:resume|root)=)([^\s\"']+)", replaced, text)


EDITS: dict[str, t.Callable[[str, References, t.Collection[str]], str]] = {
    "fstab": edit_fstab,
    "crypttab": edit_crypttab,
    "resume": edit_resume,
    "grub": edit_grub,
}
