# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Which mounted file systems the jobs of a backup reach: each is in a job, or excluded by name, or the backup is refused.

A separate /home that ``--one-file-system`` passes over in silence is found by nobody until it is needed. So a file system that is
in no job has to be named. Pure: /proc/self/mountinfo and jobs in, verdicts out.
"""

from __future__ import annotations

import dataclasses
import posixpath
import re
import typing as t

# What the kernel or a program makes up, what is gone with the next boot, and images that are a file of another file system.
MADE_UP = frozenset(
    [
        "autofs",
        "binfmt_misc",
        "bpf",
        "cgroup",
        "cgroup2",
        "configfs",
        "debugfs",
        "devpts",
        "devtmpfs",
        "efivarfs",
        "fusectl",
        "hugetlbfs",
        "mqueue",
        "nfsd",
        "nsfs",
        "pipefs",
        "proc",
        "pstore",
        "ramfs",
        "rootfs",
        "rpc_pipefs",
        "securityfs",
        "selinuxfs",
        "sockfs",
        "sysfs",
        "tmpfs",
        "tracefs",
        "squashfs",
        "erofs",
        "iso9660",
        "udf",
        "fuse.gvfsd-fuse",
        "fuse.portal",
        "fuse.lxcfs",
        "fuse.snapfuse",
        "fuse.squashfuse",
        "fuse.xrdp-chansrv",
    ]
)
# Its files lie in the directories that it is made of. Only as / it is what a container has for a disk.
LAYERED = ("overlay", "aufs")
# A mount of one of these shows one subvolume: it holds nothing of the others, though they lie below it.
SUBVOLUMES = ("btrfs", "bcachefs")

WHOLE, PART, EXCLUDED, MISSING = "whole", "part", "excluded", "missing"

Requirement = dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Mount:
    """A line of mountinfo. ``root``: which directory of the file system is mounted; ``directory``: whether the target is one."""

    target: str
    source: str = ""
    fstype: str = ""
    root: str = "/"
    device: str = ""
    directory: bool = True


@dataclasses.dataclass(frozen=True)
class Job:
    """What matters here of a job: absolute paths and excludes, and whether it stays on the file systems of its paths."""

    name: str
    paths: tuple[str, ...]
    excludes: tuple[str, ...] = ()
    one_file_system: bool = True


@dataclasses.dataclass(frozen=True)
class Verdict:
    """``by``: the jobs that reach the file system, or that exclude it, or the name in the list of those that are left out."""

    mount: Mount
    state: str
    by: tuple[str, ...] = ()


def parse_mountinfo(text: str) -> list[Mount]:
    """The mounts in the order of their targets, of several on one target the last: it hides the others."""
    found: dict[str, Mount] = {}
    for line in text.splitlines():
        left, dash, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if not dash or len(fields) < 6 or len(kind) < 2:
            continue
        target = _plain(fields[4])
        found[target] = Mount(target, _plain(kind[1]), kind[0], _plain(fields[3]), fields[2])
    return [found[target] for target in sorted(found)]


def holds_data(mount: Mount) -> bool:
    """Whether a file system is one that can be lost."""
    if mount.fstype in LAYERED:
        return mount.target == "/"
    return mount.directory and mount.fstype not in MADE_UP


def judge(mounts: t.Iterable[Mount], jobs: t.Sequence[Job], excluded: t.Sequence[str] = ()) -> list[Verdict]:
    """What becomes of every mounted file system that can be lost.

    :param excluded: mount points that are left out by name, with what is mounted below them. No patterns: who leaves a disk out
        says which.
    """
    real = [mount for mount in mounts if holds_data(mount)]
    verdicts = {mount.target: _judge(mount, real, jobs, excluded) for mount in real}
    # A directory that is mounted a second time is reached where it is mounted the first time.
    for mount in real:
        if verdicts[mount.target].state == MISSING:
            twin = next((one for one in real if verdicts[one.target].state == WHOLE and _holds(one, mount)), None)
            if twin:
                verdicts[mount.target] = Verdict(mount, WHOLE, verdicts[twin.target].by)
    return [verdicts[mount.target] for mount in real]


def requirements(
    mounts: t.Iterable[Mount],
    jobs: t.Sequence[Job],
    excluded: t.Sequence[str] = (),
    jobs_variable: str = "backup_jobs",
    excluded_variable: str = "backup_excluded_mounts",
) -> list[Requirement]:
    """For the action `require`: one for each file system that is in no job and not excluded by name."""
    return [
        {
            "ok": False,
            "variable": jobs_variable,
            "problem": f"leave out {verdict.mount.target} ({verdict.mount.fstype} on {verdict.mount.source}), which is mounted here",
            "remedy": f"add {verdict.mount.target} to the paths of a job, or to {excluded_variable} if it need not be saved",
        }
        for verdict in judge(mounts, jobs, excluded)
        if verdict.state == MISSING
    ]


def is_within(path: str, directory: str) -> bool:
    """Whether a path is a directory or lies below it."""
    return directory == "/" or path == directory or path.startswith(f"{directory}/")


def _judge(mount: Mount, mounts: t.Sequence[Mount], jobs: t.Sequence[Job], excluded: t.Sequence[str]) -> Verdict:
    # In order of strength: a job that has all of it counts even where another job has a part.
    whole = tuple(job.name for job in jobs if _has_whole(job, mount))
    if whole:
        return Verdict(mount, WHOLE, whole)
    part = tuple(job.name for job in jobs if any(_home(path, mounts) == mount for path in _paths(job)))
    if part:
        return Verdict(mount, PART, part)
    named = tuple(name for name in map(_normal, excluded) if is_within(mount.target, name) and name != "/")
    if named:
        return Verdict(mount, EXCLUDED, named)
    by_job = tuple(job.name for job in jobs if _excludes(job, mount.target))
    return Verdict(mount, EXCLUDED, by_job) if by_job else Verdict(mount, MISSING)


def _has_whole(job: Job, mount: Mount) -> bool:
    if _excludes(job, mount.target):
        return False
    paths = _paths(job)
    return mount.target in paths or (not job.one_file_system and any(is_within(mount.target, path) for path in paths))


def _excludes(job: Job, target: str) -> bool:
    """Whether a job's excludes name the mount point or a directory above it. A pattern names nothing."""
    literal = (_normal(one) for one in job.excludes if one.startswith("/") and not re.search(r"[*?\[\\]", one))
    return any(is_within(target, one) for one in literal)


def _home(path: str, mounts: t.Sequence[Mount]) -> Mount | None:
    """The file system that a path lies on."""
    around = [mount for mount in mounts if is_within(path, mount.target)]
    return max(around, key=lambda mount: len(mount.target), default=None)


def _holds(one: Mount, other: Mount) -> bool:
    """Whether everything of *other* is seen through *one* too."""
    if one.target == other.target or not one.device or one.device != other.device:
        return False
    return one.root == other.root if one.fstype in SUBVOLUMES else is_within(other.root, one.root)


def _paths(job: Job) -> list[str]:
    return [_normal(path) for path in job.paths]


def _normal(path: str) -> str:
    # Two slashes at the front stay with normpath: POSIX leaves their meaning open.
    return re.sub(r"^//", "/", posixpath.normpath(path))


def _plain(field: str) -> str:
    """A field without the octal escapes that the kernel puts in for blanks."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), field)
