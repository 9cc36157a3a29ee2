# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Descriptions of files, with everything that a bad backup loses: owner, mode, capabilities, ACLs, attributes, hard links.

A list of some files is made right after a backup; the drill restores these and compares. A file that has changed since the backup
looked at it is not put on the list, so that a difference is always a loss.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import re
import stat
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic_outcome import nanoseconds
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.results import Described
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject

# Files that a system cannot do without; they are always on the list where the job has them.
ALWAYS = ("/etc/passwd", "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/fstab", "/etc/machine-id")
LARGEST = 256 << 20  # bytes of a file that is drawn by lot
LIMIT = 1 << 30  # bytes of all that are drawn
# Rare kinds come first; a large file is drawn only if there is no other.
_KINDS = ("attributes", "links", "other", "sparse", "plain", "large")
_SPECIAL = 20  # how many files of each rare kind: with attributes, with hard links, sparse, neither file nor directory


def describe(path: str, content: bool = True) -> Described:
    """Describe a file.

    :raises OSError: it cannot be read.
    """
    found = os.lstat(path)
    facts: Described = {
        "type": stat.S_IFMT(found.st_mode),
        "mode": stat.S_IMODE(found.st_mode),
        "uid": found.st_uid,
        "gid": found.st_gid,
        "mtime": found.st_mtime_ns,
        "attributes": _attributes(path),
    }
    if stat.S_ISREG(found.st_mode):
        facts["size"] = found.st_size
        if content:
            facts["sha256"] = _digest(path, found)
    elif stat.S_ISLNK(found.st_mode):
        facts["target"] = os.readlink(path)
    elif stat.S_ISBLK(found.st_mode) or stat.S_ISCHR(found.st_mode):
        facts["device"] = found.st_rdev
    return facts


def _attributes(path: str) -> dict[str, str]:
    """Return the extended attributes, which include capabilities and ACLs."""
    try:
        names = os.listxattr(path, follow_symlinks=False)
        return {name: os.getxattr(path, name, follow_symlinks=False).hex() for name in sorted(names)}
    except OSError:  # a file system without attributes
        return {}


def _digest(path: str, described: os.stat_result) -> str:
    """Return the SHA-256 of the file that was described; another user may have replaced it by a FIFO or a link.

    :raises OSError: it is another one now.
    """
    digest = hashlib.sha256()
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        now = os.fstat(file.fileno())
        if (now.st_dev, now.st_ino, stat.S_IFMT(now.st_mode)) != (described.st_dev, described.st_ino, stat.S_IFREG):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), path)
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def differences(before: Described, after: Described) -> list[str]:
    """Return what a restored file lacks, as messages."""
    found = []
    for key, message in (
        ("type", "is of another kind"),
        ("sha256", "has another content"),
        ("size", "has another size"),
        ("target", "leads elsewhere"),
        ("device", "is another device"),
        ("mode", "has another mode"),
        ("uid", "has another owner"),
        ("gid", "has another group"),
        ("mtime", "has another time"),
    ):
        if before.get(key) != after.get(key):
            details = (
                f": {_show(key, after.get(key))}, not {_show(key, before.get(key))}"
                if key in ("mode", "uid", "gid", "size")
                else ""
            )
            found.append(message + details)
    for name in sorted({*before["attributes"], *after["attributes"]}):
        if before["attributes"].get(name) != after["attributes"].get(name):
            kind = {
                "security.capability": "capabilities",
                "system.posix_acl_access": "ACL",
                "system.posix_acl_default": "default ACL",
            }
            found.append(f"has {'lost its' if name not in after['attributes'] else 'other'} {kind.get(name, name)}")
    return found


def _show(key: str, value: t.Any) -> str:
    return f"{value:04o}" if key == "mode" and value is not None else str(value)


class Sampler:
    """Draws files from the list of a snapshot: at random, and rare kinds first."""

    def __init__(
        self, wanted: int, always: t.Iterable[str] = (), seed: int | None = None, roots: t.Iterable[str] = ()
    ) -> None:
        self.wanted = wanted
        self.always = {*ALWAYS, *always}
        self.drawn: dict[str, list[str]] = {kind: [] for kind in _KINDS}
        self.seen = dict.fromkeys(self.drawn, 0)
        self.named: list[str] = []
        self.met: set[str] = set()  # of those that are always on the list
        self.directories: set[str] = set()  # of those that are directories: to restore one would restore all below it
        self.linked: dict[tuple[int, int], list[str]] = {}
        self.total = 0
        # Paths of which the snapshot has nothing, as restic prints them: U+FFFD for each byte that is not UTF-8.
        self.lacking = {re.sub("[\udc80-\udcff]", "\ufffd", root): root for root in roots}
        self._random = random.Random(seed)  # noqa: S311 - a lot, no secret

    def take(self, line: str) -> None:
        """Read a line of `restic ls --json`."""
        if '"struct_type":"node"' not in line and '"message_type":"node"' not in line:
            return
        node = json.loads(line)
        path = node.get("path", "")
        for root in tuple(self.lacking):
            if path.startswith(f"{root.rstrip('/')}/") or (path == root and node.get("type") != "dir"):
                del self.lacking[root]
        if node.get("type") == "dir":
            self.directories |= {path} & self.always
            return
        self.total += 1
        if path in self.always:
            self.met.add(path)
        try:
            found = os.lstat(path)
        except OSError:
            return
        if not unchanged(node, found):
            return
        if path in self.always:
            self.named.append(path)
            return
        self._draw(self._kind(path, found), path, found)

    def _kind(self, path: str, found: os.stat_result) -> str:
        if not stat.S_ISREG(found.st_mode):
            return "other"
        if found.st_nlink > 1:
            return "links"
        if found.st_size > LARGEST:
            return "large"
        try:
            if os.listxattr(path, follow_symlinks=False):
                return "attributes"
        except OSError:
            return ""
        return "sparse" if found.st_blocks * 512 < found.st_size else "plain"

    def _draw(self, kind: str, path: str, found: os.stat_result) -> None:
        if not kind:
            return
        if kind == "links":
            names = self.linked.setdefault((found.st_dev, found.st_ino), [])
            if names:
                names.append(path)
                return
            names.append(path)
        drawn, limit = self.drawn[kind], self.wanted if kind == "plain" else min(_SPECIAL, self.wanted)
        self.seen[kind] += 1
        if len(drawn) < limit:
            drawn.append(path)
        else:
            place = self._random.randrange(self.seen[kind])
            if place < limit:
                drawn[place] = path

    def files(self, limit_bytes: int = LIMIT) -> dict[str, Described]:
        """Return the list of drawn files. `links` names other names of the same file."""
        found: dict[str, Described] = {}
        remaining = limit_bytes
        names = [*self.named, *(path for kind in _KINDS for path in self.drawn[kind])]
        same = {paths[0]: paths for paths in self.linked.values() if len(paths) > 1}
        for path in names:
            if len(found) >= self.wanted + len(self.named) or (found and path in self.drawn["large"]):
                break
            try:
                before = os.lstat(path)
                if stat.S_ISREG(before.st_mode) and before.st_size > remaining and path not in self.always:
                    continue
                description = describe(path)
                after = os.lstat(path)
            except OSError:
                continue
            # It changed while it was read: what the snapshot contains is not known.
            if (before.st_ctime_ns, before.st_size) != (after.st_ctime_ns, after.st_size):
                continue
            remaining -= description.get("size", 0)
            found[path] = {**description, "links": same[path][1:4]} if path in same else description
        return found


def unchanged(node: JsonObject, found: os.stat_result) -> bool:
    """Return whether a file is as the backup read it; only its access time may differ."""
    return node.get("size", 0) in (0, found.st_size) and nanoseconds(node.get("ctime", "")) == found.st_ctime_ns


def compare(wanted: t.Mapping[str, Described], root: str) -> list[str]:
    """Return the differences of restored files below a directory."""
    lost = []
    for path, before in wanted.items():
        place = root + path
        try:
            after = describe(place)
        except OSError as error:
            lost.append(f"{path} is not there ({error.strerror})")
            continue
        lost += [f"{path} {message}" for message in differences(before, after)]
        for other in before.get("links", []):
            if not (os.path.lexists(root + other) and os.path.samefile(place, root + other)):
                lost.append(f"{path} and {other} are no longer one file")
    return lost
