# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Default access control lists (acl(5)) as the kernel keeps them, so that no program of the package acl is needed."""

from __future__ import annotations

import errno
import os
import re
import struct
import typing as t

ATTRIBUTE = "system.posix_acl_default"
_VERSION = 2
_NOBODY = 0xFFFFFFFF
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
_NAMED = {"user": USER, "group": GROUP}
_OWN = {"user": USER_OBJ, "group": GROUP_OBJ, "other": OTHER}

# Tag and, for a named one, the name; what it permits.
Entries = dict[tuple[int, str], int]


def permissions(letters: str) -> int:
    """Return the bits of letters such as ``r-x``."""
    return sum(bit for letter, bit in zip(letters, (4, 2, 1)) if letter != "-")


def parse_entry(text: str) -> tuple[tuple[int, str], int] | None:
    """Return tag, name and rights of ``group:ml:rwx``, ``user::rwx`` or ``other::r-x``; None for anything else."""
    fields = text.split(":")
    if len(fields) != 3 or not re.fullmatch(r"[r-][w-][x-]", fields[2]):
        return None
    kind, name, letters = fields
    if name and kind in _NAMED:
        return (_NAMED[kind], name), permissions(letters)
    if not name and kind in _OWN:
        return (_OWN[kind], ""), permissions(letters)
    return None


def complete(wanted: t.Iterable[str], mode: int, shared: bool) -> Entries:
    """Return all entries that a default list has to have; none where neither an entry nor *shared* asks for one.

    The mode of the directory gives the entries that *wanted* does not name. *shared* adds no entry: the kernel ignores the umask
    where a directory has a default list, and so the group can write new files.
    """
    named = [entry for entry in map(parse_entry, wanted) if entry]
    if not named and not shared:
        return {}
    entries: Entries = {(USER_OBJ, ""): mode >> 6 & 7, (GROUP_OBJ, ""): mode >> 3 & 7, (OTHER, ""): mode & 7}
    entries.update(named)
    group_class = [bits for (tag, _name), bits in entries.items() if tag in (USER, GROUP_OBJ, GROUP)]
    if any(tag in (USER, GROUP) for tag, _name in entries):
        entries[(MASK, "")] = 0
        for bits in group_class:
            entries[(MASK, "")] |= bits
    return entries


def encode(entries: Entries, number: t.Callable[[int, str], int]) -> bytes:
    """Return the bytes of the attribute; nothing for no entries.

    :param number: returns the id of a user (tag ``USER``) or group by its name.
    """
    if not entries:
        return b""
    rows = sorted((tag, number(tag, name) if name else _NOBODY, bits) for (tag, name), bits in entries.items())
    return struct.pack("<I", _VERSION) + b"".join(struct.pack("<HHI", tag, bits, who) for tag, who, bits in rows)


def read(handle: int) -> bytes:
    """Return the default list of an open directory; nothing where it has none, or its file system has no lists."""
    try:
        return os.getxattr(handle, ATTRIBUTE)
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.ENOTSUP):
            raise
        return b""


def write(handle: int, entries: bytes) -> None:
    """Give an open directory this default list; nothing removes the list.

    :raises OSError: the file system has no lists, or is read-only.
    """
    if entries == read(handle):
        return
    if entries:
        os.setxattr(handle, ATTRIBUTE, entries)
    else:
        os.removexattr(handle, ATTRIBUTE)
