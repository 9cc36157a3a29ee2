# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Who may write into the top directory of a share, and which rights new files there have.

The state of a directory is read and written with its default ACL (acl(5)), in the form in which the kernel keeps it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import grp
import os
import pwd
import stat
import struct
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import directory

RECORD = "/var/lib/rigwright_samba/directories.json"
# What no group has: for one that is not there yet.
NO_GID = 2**32 - 2
ACL = "system.posix_acl_default"

# linux/posix_acl_xattr.h: a version, then tag, rights and id of each entry.
_VERSION, _NOBODY = 2, 0xFFFFFFFF
_USER, _GROUP, _OTHER = 0x01, 0x04, 0x20


@dataclasses.dataclass(frozen=True)
class State:
    """A directory. ``acl`` is empty where new files have the rights that their maker's umask leaves them."""

    uid: int
    gid: int
    mode: int
    acl: bytes = b""

    def words(self) -> str:
        return f"{self.mode:04o} {self.uid}:{self.gid}{' default ACL' if self.acl else ''}"

    def data(self) -> list[t.Any]:
        return [self.uid, self.gid, self.mode, self.acl.hex()]

    @classmethod
    def of(cls, data: t.Sequence[t.Any]) -> State:
        return cls(data[0], data[1], data[2], bytes.fromhex(data[3]))


class Wanted(t.NamedTuple):
    """What a directory is to be; None for what it may stay. ``mount``: where its disk is mounted, empty for the root file system's."""

    uid: int | None = None
    gid: int | None = None
    mode: int | None = None
    default_acl: bool = False
    mount: str = ""


class Original(t.NamedTuple):
    """What a directory was before the role."""

    state: State
    mount: str = ""


@dataclasses.dataclass(frozen=True)
class Plan:
    """States to bring about by path, and the record afterwards."""

    states: dict[str, State]
    record: dict[str, Original]


def default_acl(mode: int) -> bytes:
    """New files have at most the rights of *mode*, and whatever the umask of their maker says."""
    entries = ((_USER, mode >> 6 & 7), (_GROUP, mode >> 3 & 7), (_OTHER, mode & 7))
    return struct.pack("<I", _VERSION) + b"".join(struct.pack("<HHI", tag, rights, _NOBODY) for tag, rights in entries)


def target_of(wanted: Wanted, found: State) -> State:
    mode = found.mode if wanted.mode is None else wanted.mode
    return State(
        found.uid if wanted.uid is None else wanted.uid,
        found.gid if wanted.gid is None else wanted.gid,
        mode,
        default_acl(mode) if wanted.default_acl else found.acl,
    )


def plan(found: t.Mapping[str, State], wanted: t.Mapping[str, Wanted], record: t.Mapping[str, Original]) -> Plan:
    """What has to be done. A directory that is not *found* (its disk is not mounted, or it is gone) is left, and stays on record.

    One that is no longer wanted is given back; without a default ACL that the record does not have.
    """
    kept, states = dict(record), {}
    for path, one in wanted.items():
        if path not in found:
            continue
        # What was there before counts, not what an earlier run has made of it.
        before = record[path].state if path in record else found[path]
        after = target_of(one, found[path])
        if not one.default_acl and path in record:
            after = dataclasses.replace(after, acl=before.acl)
        if after != found[path]:
            states[path] = after
        if after != before:
            kept[path] = Original(before, one.mount)
        else:
            kept.pop(path, None)
    for path, original in record.items():
        if path not in wanted and path in found:
            if original.state != found[path]:
                states[path] = original.state
            del kept[path]
    return Plan(states, kept)


def read(path: str, mount: str) -> State | None:
    """The state of a directory, None where it is not there, or its disk is not."""
    if mount and not os.path.ismount(mount):
        return None
    with contextlib.ExitStack() as stack:
        try:
            handle = stack.enter_context(directory(path))
        except OSError:
            return None
        info = os.fstat(handle)
        try:
            acl = os.getxattr(handle, ACL)
        except OSError as error:
            # None there, or none possible.
            if error.errno not in (errno.ENODATA, errno.ENOTSUP):
                raise
            acl = b""
        return State(info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode), acl)


def write(path: str, before: State, after: State) -> None:
    """:raises OSError: the file system has no ACLs, is read-only, the directory is gone, ..."""
    with directory(path) as handle:
        if (before.uid, before.gid) != (after.uid, after.gid):
            os.chown(handle, after.uid, after.gid)
        # After the owner: a change of it takes the bit away that hands the group down.
        os.chmod(handle, after.mode)
        if before.acl != after.acl:
            if after.acl:
                os.setxattr(handle, ACL, after.acl)
            else:
                os.removexattr(handle, ACL)


def load(data: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, Original]:
    """:raises KeyError, TypeError, ValueError: that is no record."""
    return {path: Original(State.of(entry["state"]), entry["mount"]) for path, entry in data.items()}


def dump(record: t.Mapping[str, Original]) -> dict[str, dict[str, t.Any]]:
    return {path: {"state": one.state.data(), "mount": one.mount} for path, one in record.items()}


def _gid(name: str, planned: t.Collection[str]) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        if name in planned:
            return NO_GID
        raise


def wanted_of(entries: t.Iterable[t.Mapping[str, t.Any]], planned: t.Collection[str] = ()) -> dict[str, Wanted]:
    """
    :param planned: groups that an earlier task would have made, in check mode.
    :raises KeyError: there is no such user or group.
    """
    return {
        os.path.normpath(entry["path"]): Wanted(
            pwd.getpwnam(entry["owner"]).pw_uid if entry["owner"] else None,
            _gid(entry["group"], planned) if entry["group"] else None,
            int(entry["mode"], 8) if entry["mode"] else None,
            entry["default_acl"],
            entry["mount"],
        )
        for entry in entries
    }


def look(wanted: t.Mapping[str, Wanted], record: t.Mapping[str, Original]) -> dict[str, State]:
    """The directories that are there."""
    mounts = {**{path: one.mount for path, one in record.items()}, **{path: one.mount for path, one in wanted.items()}}
    seen = {path: read(path, mount) for path, mount in mounts.items()}
    return {path: state for path, state in seen.items() if state}
