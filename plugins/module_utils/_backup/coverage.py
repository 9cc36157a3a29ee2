# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that the backups cover all data: restic silently leaves out what is mounted below its paths.

Every mounted file system is in a job, at least in part, or is excluded by one.
"""

from __future__ import annotations

import dataclasses
import os
import stat
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import excludes
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Job
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.excludes import excluded
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import Mount, holds_data, is_within
from ansible_collections.rigwright.workstation.plugins.module_utils._system.servers import unanswered

# In the file system of /run: what systemd mounts over a path for `InaccessiblePaths=` and similar settings.
INACCESSIBLE = "/systemd/inaccessible/"
# A mount of one of these shows one subvolume: it holds nothing of the others, even of those below it.
SUBVOLUMES = ("btrfs", "bcachefs")


def left_out(mounts: t.Iterable[Mount], jobs: t.Iterable[Job], repositories: t.Collection[str] = ()) -> list[Mount]:
    """Return the mounted file systems that no job backs up or excludes by its patterns.

    :param repositories: directories on this machine that backups go to. What is mounted there is no source.
    """
    with_paths = [job for job in jobs if job.paths]
    real = [mount for mount in mounts if holds_data(mount) and (mount.directory or _is_below(mount, with_paths))]
    return [
        mount
        for mount in real
        # A directory that is mounted a second time, by hand or by systemd for a service, is no file system of its own.
        if not is_snapshot(mount)
        and not any(_shows(other, mount) for other in real)
        and not any(_reaches(job, mount, real) or excluded(mount.target, job.excludes, job.paths) for job in with_paths)
        and not any(is_within(mount.target, place) for place in repositories)
    ]


def is_snapshot(mount: Mount, of: Mount | None = None) -> bool:
    """Return whether a mount is a snapshot of ZFS (of this one): it is mounted as soon as a program reads ``.zfs/snapshot``."""
    dataset, sign, _name = mount.source.partition("@")
    return bool(mount.fstype == "zfs" and sign) and (of is None or of.source == dataset)


def on_file_system_of(mounts: t.Sequence[Mount], paths: t.Iterable[str], repository: str) -> list[str]:
    """Return the paths on the same file system as a repository on this machine; none where the repository is elsewhere."""
    home = _home(repository, mounts) if repository else None
    return [path for path in paths if home and _home(path, mounts) == home]


def not_mounted(job: Job, places: t.Iterable[str], mounts: t.Sequence[Mount]) -> list[str]:
    """Return the places at, above or below the paths of a job that should be mounted, as by fstab, and are not."""
    return [
        place
        for place in places
        if not _is_mounted(place, mounts)
        and any(is_within(path, place) or is_within(place, path) for path in job.paths)
        and not excluded(place, job.excludes, job.paths)
    ]


def sources(job: Job, mounts: t.Sequence[Mount]) -> list[str]:
    """Return where the file systems that a job reads are mounted. A place that restic leaves out may be unmounted without loss."""
    return [
        mount.target
        for mount in mounts
        if holds_data(dataclasses.replace(mount, user=0) if names(job, mount) else mount)
        and draws_from(job, mount.target)
        and not _is_self_bind(mount, mounts)
    ]


def names(job: Job, mount: Mount) -> bool:
    """Return whether a job asks for what is mounted, by a path at or in it: then it counts like a mount of root."""
    return any(is_within(path, mount.target) for path in job.paths)


def reads(job: Job, place: str, mounts: t.Sequence[Mount]) -> bool:
    """Return whether a job reads the file system of a place below its paths: a job of one file system reads no other there."""
    homes = [_home(path, mounts) for path in job.paths if is_within(place, path)]
    own = _home(place, mounts)
    return not job.one_file_system or any(
        not home or not own or own == home or (own.device and own.device == home.device) for home in homes
    )


def draws_from(job: Job, place: str) -> bool:
    """Return whether a job has files of what is mounted at a place."""
    above = any(is_within(path, place) for path in job.paths)
    below = not job.one_file_system and any(is_within(place, path) for path in job.paths)
    return (above or below) and not excluded(place, job.excludes, job.paths)


def by_sets_alone(jobs: t.Iterable[Job], fstab: t.Iterable[str], repositories: t.Collection[str] = ()) -> list[str]:
    """Return mount points of fstab that no job backs up, and that only a set of patterns excludes."""
    with_paths = [job for job in jobs if job.paths]
    return [
        place
        for place in fstab
        if any(excludes.by_sets_alone(place, job.excludes) for job in with_paths)
        and all(
            excludes.by_sets_alone(place, job.excludes) or not excluded(place, job.excludes, job.paths)
            for job in with_paths
        )
        and not any(is_within(path, place) for job in with_paths for path in job.paths)
        and not any(
            is_within(place, path) and not excluded(place, job.excludes, job.paths)
            for job in with_paths
            for path in job.paths
        )
        and not any(is_within(repository, place) for repository in repositories)
    ]


def hidden(job: Job, mounts: t.Sequence[Mount]) -> list[str]:
    """Return what the job should back up and cannot see: systemd has mounted an empty directory over it, for this unit only."""
    return [
        mount.target
        for mount in mounts
        if mount.root.startswith(INACCESSIBLE)
        and _is_below(mount, [job])
        and not excluded(mount.target, job.excludes, job.paths)
        # A virtual file system such as /proc is no loss.
        and any(holds_data(home) for home in [_home(os.path.dirname(mount.target), mounts)] if home)
    ]


def unusable(job: Job, mounts: t.Sequence[Mount]) -> str:
    """Return why no snapshot of the paths may be made: a server is gone, a path is missing, or is a link; empty if none is."""
    gone = sorted({*unanswered([*job.paths, *sources(job, mounts)], mounts).values()})
    if gone:
        return f"the server of {', '.join(gone)} does not answer"
    missing = [path for path in job.paths if not os.path.lexists(path)]
    if missing:
        return f"missing: {', '.join(missing)}"
    listed = ", ".join(f"{path} is a link to {real}" for path, real in links(job.paths).items())
    return f"{listed}: name that instead" if listed else ""


def links(paths: t.Iterable[str]) -> dict[str, str]:
    """Return the targets of paths that are symbolic links: restic backs up the link itself, not its target."""
    return {path: os.path.realpath(path) for path in paths if os.path.islink(path)}


def _is_below(mount: Mount, jobs: t.Iterable[Job]) -> bool:
    return any(is_within(mount.target, path) for job in jobs for path in job.paths)


def _reaches(job: Job, mount: Mount, mounts: t.Sequence[Mount]) -> bool:
    """Return whether a path of the job is on the file system, wherever else that is mounted."""
    if not job.one_file_system and _is_below(mount, [job]):
        return True
    homes = [_home(path, mounts) for path in job.paths]
    return any(home == mount or _shows(mount, home) or is_snapshot(home, mount) for home in homes if home)


def _home(path: str, mounts: t.Sequence[Mount]) -> Mount | None:
    """Return the file system that a path is on."""
    around = [mount for mount in mounts if is_within(path, mount.target)]
    return max(around, key=lambda mount: len(mount.target), default=None)


def _is_mounted(place: str, mounts: t.Sequence[Mount]) -> bool:
    """Return whether something is mounted at a place, or autofs will mount it on access."""
    home = _home(place, mounts)
    if home and home.target == place:
        return not _is_self_bind(home, mounts)
    return home is not None and home.fstype == "autofs"


def _is_self_bind(mount: Mount, mounts: t.Sequence[Mount]) -> bool:
    """Return whether a directory is mounted on itself, as systemd does for rights of units (`ProtectHome=read-only`, `ReadWritePaths=`)."""
    below = _home(os.path.dirname(mount.target), mounts)
    if not below or below == mount or not mount.device:
        return False
    inside = os.path.join(below.root, os.path.relpath(mount.target, below.target))
    return (mount.device, mount.subvolume, mount.root) == (below.device, below.subvolume, inside)


def _shows(mount: Mount, other: Mount) -> bool:
    """Return whether everything of *other* is visible through *mount*, which is the first of those that show it."""
    if not mount.device or mount.device != other.device:
        return False
    if mount.root == other.root:
        return mount.target < other.target
    return mount.fstype not in SUBVOLUMES and is_within(other.root, mount.root)


def names_in(job: Job, path: str) -> set[str]:
    """Return the names in a directory that a backup has to store; of a file its own."""
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            return {path}
        with os.scandir(path) as entries:
            # restic stores no sockets.
            found = {entry.name for entry in entries if _is_stored(entry)}
    except OSError:
        return set()
    return {name for name in found if not excluded(os.path.join(path, name), job.excludes, job.paths)}


def _is_stored(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is no socket. A directory is not looked at: a mount may be there, whose server is gone."""
    if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False) or entry.is_symlink():
        return True
    return not stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
