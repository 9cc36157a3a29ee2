# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rights of the top directory of a share, and of new files in it.

The state of a directory is read and written with its default ACL (acl(5)), in the form in which the kernel keeps it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pwd
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts, acl, record
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import (
    Rights,
    directory,
    read_rights,
    write_rights,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree

RECORD = "/var/lib/rigwright_samba/directories.json"
# What no group has: for one that is not there yet.
NO_GID = 2**32 - 2


@dataclasses.dataclass(frozen=True)
class State(Rights):
    """A directory as it is, or is to be."""

    def describe(self) -> str:
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
    """Return the default list that gives new files at most the rights of *mode*, whatever the umask of their creator is."""
    return acl.encode(acl.complete((), mode, shared=True), lambda _tag, _name: NO_GID)


def target_of(wanted: Wanted, found: State) -> State:
    mode = found.mode if wanted.mode is None else wanted.mode
    return State(
        found.uid if wanted.uid is None else wanted.uid,
        found.gid if wanted.gid is None else wanted.gid,
        mode,
        default_acl(mode) if wanted.default_acl else found.acl,
    )


def plan(found: t.Mapping[str, State], wanted: t.Mapping[str, Wanted], record: t.Mapping[str, Original]) -> Plan:
    """Plan the states of directories. A missing directory, or one whose disk is not mounted, stays on record.

    One that is no longer requested gets its original state back, without a default ACL that the record does not have.
    """
    kept, states = dict(record), {}
    for path, target in wanted.items():
        if path not in found:
            continue
        # What was there before counts, not what an earlier run has made of it.
        before = record[path].state if path in record else found[path]
        after = target_of(target, found[path])
        if not target.default_acl and path in record:
            after = dataclasses.replace(after, acl=before.acl)
        if after != found[path]:
            states[path] = after
        if after != before:
            kept[path] = Original(before, target.mount)
        else:
            kept.pop(path, None)
    for path, original in record.items():
        if path not in wanted and path in found:
            if original.state != found[path]:
                states[path] = original.state
            del kept[path]
    return Plan(states, kept)


def read(path: str, mount: str) -> State | None:
    """Return the state of a directory; None where it is missing, reached through a link, or its disk is not mounted."""
    if mount and not os.path.ismount(mount):
        return None
    with contextlib.ExitStack() as stack:
        try:
            handle = stack.enter_context(directory(path))
        except OSError:
            return None
        rights = read_rights(handle)
        return State(rights.uid, rights.gid, rights.mode, rights.acl)


def write(path: str, after: State) -> None:
    """Give a directory this state.

    :raises OSError: the file system has no ACLs or is read-only, or the directory is missing.
    """
    with directory(path) as handle:
        write_rights(handle, after)


def read_record(tree: Tree) -> dict[str, Original]:
    """Return the directories on record, as they were before the role.

    :raises Damaged: the record is damaged.
    """
    path, remedy = (
        tree.at(RECORD),
        "restore it, or remove it, and the directories keep their rights when the role is removed",
    )
    found = record.read(path, remedy, {str: {"state": list, "mount": str}}) or {}
    try:
        return {name: Original(State.of(entry["state"]), entry["mount"]) for name, entry in found.items()}
    except (IndexError, TypeError, ValueError) as error:
        raise record.Damaged(path, error, remedy) from error


def dump(record: t.Mapping[str, Original]) -> dict[str, dict[str, t.Any]]:
    return {path: {"state": original.state.data(), "mount": original.mount} for path, original in record.items()}


def _gid(name: str, planned: t.Collection[str]) -> int:
    gid = accounts.gid_of(name)
    if gid is None and name not in planned:
        raise KeyError(f"getgrnam(): name not found: {name!r}")
    return NO_GID if gid is None else gid


def wanted_of(entries: t.Iterable[t.Mapping[str, t.Any]], planned: t.Collection[str] = ()) -> dict[str, Wanted]:
    """Return the requested states by path.

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


def read_all(wanted: t.Mapping[str, Wanted], record: t.Mapping[str, Original]) -> dict[str, State]:
    """Return the states of the directories that exist."""
    mounts = {
        **{path: entry.mount for path, entry in record.items()},
        **{path: entry.mount for path, entry in wanted.items()},
    }
    states = {path: read(path, mount) for path, mount in mounts.items()}
    return {path: state for path, state in states.items() if state}
