# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Directories with owner, mode, default access control list and project. No link is followed: other users may write in their parents."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import re
import stat
import struct
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import acl, lines
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import (
    Rights,
    UnsafePath,
    open_directory,
    open_file,
    read_rights,
    write_rights,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import directory as opened
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.request import (
    Directory,
    Entry,
    mount_of,
)

# FS_IOC_FSGETXATTR and its struct fsxattr: flags, two sizes, the project, another size, padding.
_GET_PROJECT = 0x801C581F
_FSXATTR = struct.Struct("=IIIII8x")
FIRST_PROJECT = 1000
TAG = "CACHEDIR.TAG"
TAGGED = "Signature: 8a477f597d28d172789f06886806bc55\n# Copies of datasets, made by dataset-cache.\n"


@dataclasses.dataclass(frozen=True)
class State(Rights):
    """A directory as it is. ``limit``: bytes that its project may have, 0 for no limit."""

    project: int = 0
    limit: int = 0


def read(path: str) -> State | None:
    """Return the state of a directory, without the limit; None for a missing one."""
    try:
        handle = open_directory(path)
    except FileNotFoundError:
        return None
    try:
        rights, project = read_rights(handle), 0
        with contextlib.suppress(OSError):
            project = _FSXATTR.unpack(fcntl.ioctl(handle, _GET_PROJECT, bytes(_FSXATTR.size)))[3]
        return State(rights.uid, rights.gid, rights.mode, rights.acl, project)
    finally:
        os.close(handle)


def write(path: str, wanted: State) -> None:
    """Create a directory where it is missing, and set owner, mode and list. xfs_quota sets the project of the whole tree."""
    with opened(path, make=True) as handle:
        write_rights(handle, wanted)


def exchangeable(path: str) -> list[str]:
    """Return the directories in *path* where users can exchange what belongs to others: an older release made such caches."""
    found = []
    with opened(path) as handle:
        for name in sorted(os.listdir(handle)):
            with contextlib.suppress(FileNotFoundError):
                mode = os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode) and mode & 0o022 and not mode & stat.S_ISVTX:
                    found.append(name)
    return found


def make_sticky(path: str) -> None:
    """Set the sticky bit, so that each user can change only their own files in these directories."""
    with opened(path) as handle:
        for name in exchangeable(path):
            # One of them may go meanwhile, or be exchanged.
            with contextlib.suppress(FileNotFoundError, UnsafePath), opened(name, dir_fd=handle) as found:
                os.fchmod(found, stat.S_IMODE(os.fstat(found).st_mode) | stat.S_ISVTX)


def is_tagged(path: str) -> bool:
    with opened(path) as handle:
        return TAG in os.listdir(handle)


def tag(path: str) -> None:
    """Mark a directory as a cache, which backups leave out (bford.info/cachedir)."""
    with opened(path) as handle, contextlib.suppress(FileExistsError):
        file = open_file(TAG, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=handle)
        with open(file, "w", encoding="ascii") as text:
            text.write(TAGGED)


def wanted_state(directory: Directory, number: t.Callable[[int, str], int], project: int) -> State:
    entries = acl.complete(directory.acl, directory.mode & 0o777, directory.shared)
    return State(
        uid=number(acl.USER, directory.owner),
        gid=number(acl.GROUP, directory.group) if directory.group else number(acl.GROUP, f"of {directory.owner}"),
        mode=directory.mode,
        acl=acl.encode(entries, number),
        project=project,
        limit=directory.quota // 1024 * 1024,
    )


def names(directory: Directory) -> t.Iterator[tuple[int, str]]:
    """Yield the users and groups that a directory names."""
    yield acl.USER, directory.owner
    if directory.group:
        yield acl.GROUP, directory.group
    for text in directory.acl:
        parsed = acl.parse_entry(text)
        if parsed and parsed[0][1]:
            yield parsed[0]


def requirements(
    directories: t.Sequence[Directory],
    entries: t.Sequence[Entry],
    sizes: t.Mapping[str, int],
    unknown: t.Collection[tuple[int, str]],
) -> t.Iterator[Problem]:
    """Yield the problems of directories on this host.

    :param sizes: bytes of the disk at each mount point.
    :param unknown: users and groups that are not there.
    """
    for directory in directories:
        entry = mount_of(directory.path, entries)
        size = sizes.get(entry.mount, 0) if entry else 0
        if directory.quota and size and directory.quota > size:
            text = f"has a quota of {directory.quota} bytes for {directory.path}, more than its disk, which has {size}"
            yield problem("storage_directories", text, "set a smaller one")
        if directory.quota and re.search(r"[\s\"]", directory.path):
            text = f"has a quota for {directory.path!r}, which xfs_quota takes for two words"
            yield problem("storage_directories", text, "choose a path without spaces")
        for entry_text in directory.acl:
            if acl.parse_entry(entry_text) is None:
                text = f"has {directory.path} with the default ACL entry {entry_text!r}"
                yield problem("storage_directories", text, "write it as group:ml:rwx, user:bob:r-x or other::---")
        for tag, name in sorted({*names(directory)} & {*unknown}):
            kind = "user" if tag == acl.USER else "group"
            text = (
                f"has {directory.path} for the {kind} {name}, who is not there"
                if kind == "user"
                else (f"has {directory.path} for the group {name}, which is not there")
            )
            yield problem("storage_directories", text, f"make the {kind} first: `{kind}add {name}`")


def next_projects(directories: t.Sequence[Directory], states: t.Mapping[str, State | None]) -> dict[str, int]:
    """Return the project of each directory with a quota: its own one, or the next free number."""
    had = {path: state.project for path, state in states.items() if state and state.project}
    following = max([FIRST_PROJECT, *(number + 1 for number in had.values())])
    chosen: dict[str, int] = {}
    for directory in directories:
        if directory.quota:
            number = had.get(directory.path, 0)
            # A new directory inherits its parent's project.
            if not number or number in chosen.values():
                number, following = following, following + 1
            chosen[directory.path] = number
    return chosen


def parse_limits(report: str) -> dict[int, int]:
    """Return bytes by project, of ``xfs_quota -c 'report -p -b -n -N'``, which counts KiB."""
    forms = {"project": r"#(?P<id>\d+)\s+\d+\s+\d+\s+(?P<limit>\d+)\s.*"}
    return {int(match["id"]): int(match["limit"]) * 1024 for _name, match in lines.parse("xfs_quota", report, forms)}


def commands(path: str, mount: str, fs: str, had: State | None, wanted: State) -> t.Iterator[list[str]]:
    """Yield the commands that give the whole tree its project, and the project its limit."""
    quota = ["xfs_quota", "-x", *([] if fs == "xfs" else ["-f"])]
    if wanted.limit and (had is None or had.project != wanted.project):
        yield [*quota, "-c", f"project -s -p {path} {wanted.project}", mount]
    if wanted.limit and (had is None or (had.project, had.limit) != (wanted.project, wanted.limit)):
        yield [*quota, "-c", f"limit -p bhard={wanted.limit // 1024}k {wanted.project}", mount]
    if not wanted.limit and had and had.limit:
        yield [*quota, "-c", f"limit -p bhard=0 {had.project}", mount]
