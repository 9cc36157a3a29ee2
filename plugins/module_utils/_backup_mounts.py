# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Which mounted file systems a job would silently leave out.

restic with --one-file-system does not enter a mount below a path that it is given. A disk of its own below /home is then in no backup,
and nobody is told. And a disk that is not mounted leaves an empty directory, which is backed up without a word.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import typing as t

# What is no storage: it goes with the machine, or shows what lies elsewhere.
PASSING = {
    "autofs": "mounts when somebody comes by",
    "binfmt_misc": "of the kernel",
    "bpf": "of the kernel",
    "cgroup": "of the kernel",
    "cgroup2": "of the kernel",
    "configfs": "of the kernel",
    "debugfs": "of the kernel",
    "devpts": "of the kernel",
    "devtmpfs": "of the kernel",
    "efivarfs": "of the firmware",
    "fuse.gvfsd-fuse": "of a desktop session",
    "fuse.portal": "of a desktop session",
    "fuse.xrdp-chansrv": "drives of the one who is logged in by RDP",
    "fusectl": "of the kernel",
    "hugetlbfs": "memory",
    "mqueue": "memory",
    "nsfs": "of the kernel",
    "overlay": "layers of a container, which lie elsewhere",
    "proc": "of the kernel",
    "pstore": "of the firmware",
    "ramfs": "memory",
    "rpc_pipefs": "of the kernel",
    "securityfs": "of the kernel",
    "squashfs": "an image that lies elsewhere, such as a snap",
    "swap": "memory",
    "sysfs": "of the kernel",
    "tmpfs": "memory",
    "tracefs": "of the kernel",
}


class Mount(t.NamedTuple):
    """A mounted file system."""

    path: str
    device: str
    kind: str


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def parse_mountinfo(text: str) -> list[Mount]:
    """The mounts of proc(5), the last one of those that lie over each other."""
    found: dict[str, Mount] = {}
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        words = before.split()
        if separator and len(words) >= 5:
            path = _unescape(words[4])
            found[path] = Mount(path, words[2], after.split()[0])
    return list(found.values())


def read_mounts(mountinfo: str) -> list[Mount]:
    """The mounts as they are now. Subvolumes of Btrfs have devices of their own, which only stat(2) tells."""
    with open(mountinfo, encoding="utf-8", errors="surrogateescape") as file:
        found = parse_mountinfo(file.read())
    for number, mount in enumerate(found):
        if mount.kind == "btrfs":
            with contextlib.suppress(OSError):
                found[number] = mount._replace(device=str(os.stat(mount.path).st_dev))
    return found


def parse_fstab(text: str) -> list[str]:
    """Where fstab(5) mounts storage by itself at boot."""
    found = []
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if len(words) < 4 or not words[1].startswith("/"):
            continue
        options = words[3].split(",")
        if words[2] not in PASSING and not {"noauto", "x-systemd.automount"} & set(options) and "bind" not in options:
            found.append(_unescape(words[1]).rstrip("/") or "/")
    return found


def below(path: str, other: str) -> bool:
    """Whether a path is another one or lies in it."""
    return path == other or path.startswith(other.rstrip("/") + "/")


def excluded(path: str, patterns: t.Iterable[str]) -> bool:
    """Whether a pattern of restic's leaves out a directory, by its name or that of one above it."""
    parts = path.strip("/").split("/")
    aboves = ["/" + "/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
    for pattern in patterns:
        if pattern.startswith("!"):
            continue
        if pattern.startswith("/"):
            if any(_matches(above, pattern) for above in aboves):
                return True
        elif any(_matches_end(above, pattern) for above in aboves):
            return True
    return False


def _matches(path: str, pattern: str) -> bool:
    """By parts, as restic does: * stays within a name, ** spans any number of them."""
    return _parts_match(path.strip("/").split("/"), pattern.strip("/").split("/"))


def _matches_end(path: str, pattern: str) -> bool:
    names = path.strip("/").split("/")
    wanted = pattern.strip("/").split("/")
    return any(_parts_match(names[start:], wanted) for start in range(len(names)))


def _parts_match(names: t.Sequence[str], wanted: t.Sequence[str]) -> bool:
    if not wanted:
        return not names
    if wanted[0] == "**":
        return any(_parts_match(names[start:], wanted[1:]) for start in range(len(names) + 1))
    return bool(names) and fnmatch.fnmatchcase(names[0], wanted[0]) and _parts_match(names[1:], wanted[1:])


def _over(path: str, places: t.Iterable[str]) -> str:
    """The innermost of the places that a path lies in."""
    return max((place for place in places if below(path, place)), key=len, default="")


def uncovered(
    paths: t.Sequence[str], excludes: t.Sequence[str], covered: t.Iterable[str], mounts: t.Sequence[Mount]
) -> list[Mount]:
    """The mounts below the paths of a job that are in no job, and excluded by none of its patterns.

    :param covered: the paths of all jobs of the host.
    """
    by_path = {mount.path: mount for mount in mounts}
    devices = {by_path[place].device for place in (_over(path, by_path) for path in paths) if place}
    taken = set(covered)
    return [
        mount
        for mount in sorted(mounts)
        if any(below(mount.path, path) and mount.path != path for path in paths)
        and mount.kind not in PASSING
        # The same file system once more, as a bind mount: restic enters it.
        and mount.device not in devices
        and mount.path not in taken
        and not excluded(mount.path, excludes)
    ]


def not_mounted(
    paths: t.Sequence[str], excludes: t.Sequence[str], fstab: t.Iterable[str], mounts: t.Sequence[Mount]
) -> list[str]:
    """What fstab mounts at, above or below the paths of a job, and is not mounted."""
    there = {mount.path for mount in mounts}
    return [
        place
        for place in fstab
        if place not in there
        and any(below(path, place) or below(place, path) for path in paths)
        and not excluded(place, excludes)
    ]


def missing(paths: t.Iterable[str]) -> list[str]:
    """The paths that are not there."""
    return [path for path in paths if not os.path.lexists(path)]
