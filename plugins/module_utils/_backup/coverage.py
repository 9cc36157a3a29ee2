# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Whether backups have all that can be lost: restic leaves out without a word what is mounted below its paths.

Every mounted file system is in a job, at least in part, or is excluded by one.
"""

from __future__ import annotations

import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import excludes
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Job
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.excludes import excluded
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import Mount, holds_data, is_within

# Where that lies in the file system of /run, what `InaccessiblePaths=` and its like put over a directory or a file.
INACCESSIBLE = "/systemd/inaccessible/"
# A mount of one of these shows one subvolume: it holds nothing of the others, though they lie below it.
SUBVOLUMES = ("btrfs", "bcachefs")


def left_out(mounts: t.Iterable[Mount], jobs: t.Iterable[Job], repositories: t.Collection[str] = ()) -> list[Mount]:
    """Return the mounted file systems of which no job has anything, and which none excludes by its patterns.

    :param repositories: directories on this machine that backups go to. What is mounted there is no source.
    """
    asked = [job for job in jobs if job.paths]
    real = [mount for mount in mounts if holds_data(mount) and (mount.directory or _is_below(mount, asked))]
    return [
        mount
        for mount in real
        # A directory that is mounted a second time, by hand or by systemd for a service, is no file system of its own.
        if not any(_shows(other, mount) for other in real)
        and not any(_reaches(job, mount, real) or excluded(mount.target, job.excludes) for job in asked)
        and not any(is_within(mount.target, place) for place in repositories)
    ]


def beside(mounts: t.Sequence[Mount], paths: t.Iterable[str], repository: str) -> list[str]:
    """Return the paths on the file system of a repository on this machine; none where it is elsewhere, or unknown."""
    home = _home(repository, mounts) if repository else None
    return [path for path in paths if home and _home(path, mounts) == home]


def not_mounted(job: Job, places: t.Iterable[str], mounts: t.Sequence[Mount]) -> list[str]:
    """Return the places at, above or below the paths of a job that should be mounted, as by fstab, and are not."""
    return [
        place
        for place in places
        if not _is_mounted(place, mounts)
        and any(is_within(path, place) or is_within(place, path) for path in job.paths)
        and not excluded(place, job.excludes)
    ]


def sources(job: Job, mounts: t.Sequence[Mount]) -> list[str]:
    """Return where file systems are mounted of which a job has files. What restic leaves out below a path may change."""
    return [
        mount.target
        for mount in mounts
        if holds_data(mount) and draws_from(job, mount.target) and not _is_upon_itself(mount, mounts)
    ]


def draws_from(job: Job, place: str) -> bool:
    """Return whether a job has files of what is mounted at a place."""
    above = any(is_within(path, place) for path in job.paths)
    below = not job.one_file_system and any(is_within(place, path) for path in job.paths)
    return (above or below) and not excluded(place, job.excludes)


def by_sets_alone(jobs: t.Iterable[Job], fstab: t.Iterable[str], repositories: t.Collection[str] = ()) -> list[str]:
    """Return mount points of fstab of which no job has anything, and which only a set excludes."""
    asked = [job for job in jobs if job.paths]
    return [
        place
        for place in fstab
        if any(excludes.by_sets_alone(place, job.excludes) for job in asked)
        and all(excludes.by_sets_alone(place, job.excludes) or not excluded(place, job.excludes) for job in asked)
        and not any(is_within(path, place) for job in asked for path in job.paths)
        and not any(is_within(place, path) and not excluded(place, job.excludes) for job in asked for path in job.paths)
        and not any(is_within(repository, place) for repository in repositories)
    ]


def hidden(job: Job, mounts: t.Sequence[Mount]) -> list[str]:
    """Return paths of the job that systemd hides from this unit behind an empty directory."""
    return [
        mount.target
        for mount in mounts
        if mount.root.startswith(INACCESSIBLE)
        and _is_below(mount, [job])
        and not excluded(mount.target, job.excludes)
        # What is made up, such as /proc, is no loss.
        and any(holds_data(home) for home in [_home(os.path.dirname(mount.target), mounts)] if home)
    ]


def missing(paths: t.Iterable[str]) -> list[str]:
    """Return the paths that do not exist."""
    return [path for path in paths if not os.path.lexists(path)]


def links(paths: t.Iterable[str]) -> dict[str, str]:
    """Return the targets of paths that are symbolic links: restic backs up a link, and not its target."""
    return {path: os.path.realpath(path) for path in paths if os.path.islink(path)}


def _is_below(mount: Mount, jobs: t.Iterable[Job]) -> bool:
    return any(is_within(mount.target, path) for job in jobs for path in job.paths)


def _reaches(job: Job, mount: Mount, mounts: t.Sequence[Mount]) -> bool:
    """Return whether a path of the job is on the file system, wherever else that is mounted."""
    if not job.one_file_system and _is_below(mount, [job]):
        return True
    homes = [_home(path, mounts) for path in job.paths]
    return any(home == mount or _shows(mount, home) for home in homes if home)


def _home(path: str, mounts: t.Sequence[Mount]) -> Mount | None:
    """Return the file system of a path."""
    around = [mount for mount in mounts if is_within(path, mount.target)]
    return max(around, key=lambda mount: len(mount.target), default=None)


def _is_mounted(place: str, mounts: t.Sequence[Mount]) -> bool:
    """Return whether a place is mounted, or will be by autofs at the first access."""
    home = _home(place, mounts)
    if home and home.target == place:
        return not _is_upon_itself(home, mounts)
    return home is not None and home.fstype == "autofs"


def _is_upon_itself(mount: Mount, mounts: t.Sequence[Mount]) -> bool:
    """Return whether a mount shows what is there without it: systemd gives units rights so (`ProtectHome=`, `ReadWritePaths=`)."""
    below = _home(os.path.dirname(mount.target), mounts)
    if not below or below == mount or not mount.device:
        return False
    inside = os.path.join(below.root, os.path.relpath(mount.target, below.target))
    return (mount.device, mount.subvolume, mount.root) == (below.device, below.subvolume, inside)


def _shows(one: Mount, other: Mount) -> bool:
    """Return whether all of *other* is visible through *one*, the first mount that shows it."""
    if not one.device or one.device != other.device:
        return False
    if one.root == other.root:
        return one.target < other.target
    return one.fstype not in SUBVOLUMES and is_within(other.root, one.root)
