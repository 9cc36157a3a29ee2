# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Exclude directories that programs have tagged as caches (CACHEDIR.TAG), but no path that a job names, and no virtual environment.

`--exclude-caches` of restic has no exceptions: with a tag in a path of a job, or above it, its snapshot has the tag alone, and everyone who
may write there can cause it.
"""

from __future__ import annotations

import contextlib
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Job
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.excludes import literal
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import is_within

TAG = "CACHEDIR.TAG"
SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55"
# uv and virtualenv tag their environments, which often have no lock.
OF_ENVIRONMENTS = "pyvenv.cfg"
# restic matches each file with each pattern: what more directories have is stored.
MOST = 500


def patterns(job: Job, mounted: t.Collection[str] = ()) -> list[str]:
    """Return the patterns that exclude what is in tagged directories.

    :param mounted: mount points, below which a job of one file system reads nothing.
    """
    found: list[str] = []
    for count, folder in enumerate(tagged(job, mounted)):
        if count == MOST:
            break
        found += [f"{literal(folder)}/*", f"!{literal(folder)}/{TAG}"]
        found += [f"!{literal(path)}" for path in job.paths if is_within(path, folder)]
    return found


def as_file(rows: t.Iterable[str]) -> str:
    """Return patterns as a file of restic, which would take a dollar for a variable. A name with a line break would be two patterns."""
    return "".join(f"{row.replace('$', '$$')}\n" for row in rows if not {*row} & {"\n", "\r"})


def tagged(job: Job, mounted: t.Collection[str] = ()) -> t.Iterator[str]:
    """Yield the tagged directories below the paths of a job."""
    keeps = _Kept(job, mounted)
    waiting = [(path, _device(path)) for path in job.paths if os.path.isdir(path)]
    while waiting:
        folder, device = waiting.pop()
        # A nested subvolume of Btrfs is another device, and no mount.
        if job.one_file_system and _device(folder) != device:
            continue
        names: set[str] = set()
        below: list[str] = []
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                names.add(entry.name)
                if entry.is_dir(follow_symlinks=False):
                    below.append(entry.path)
        if TAG in names and OF_ENVIRONMENTS not in names and folder not in job.paths and _is_tag(f"{folder}/{TAG}"):
            yield folder
        else:
            waiting += [(path, device) for path in below if keeps(path)]


def _device(folder: str) -> int:
    """Return the device of a directory, which is 0 for one that is gone."""
    try:
        return os.stat(folder, follow_symlinks=False).st_dev
    except OSError:
        return 0


def _is_tag(path: str) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.read(handle, len(SIGNATURE)) == SIGNATURE
    except OSError:
        return False
    finally:
        os.close(handle)


class _Kept:
    """Whether a directory is worth a walk: a directory that is excluded, and walked all the same, costs time alone."""

    def __init__(self, job: Job, mounted: t.Collection[str]) -> None:
        # A path of the job is walked by itself.
        self.skipped = {*job.paths, *(mounted if job.one_file_system else ())}
        self.paths = tuple(job.paths)
        plain = [pattern.rstrip("/") for pattern in job.excludes if not {*pattern} & {*"*?[\\!"}]
        self.excluded = {pattern for pattern in plain if pattern.startswith("/")}
        self.names = {pattern for pattern in plain if "/" not in pattern}
        self.ends = tuple(f"/{pattern}" for pattern in plain if "/" in pattern and not pattern.startswith("/"))
        # All in a directory, such as /proc/*.
        self.emptied = {pattern[:-2] for pattern in job.excludes if pattern[:1] == "/" and pattern[-2:] == "/*"}

    def __call__(self, path: str) -> bool:
        folder, _slash, name = path.rpartition("/")
        if path in self.skipped:
            return False
        if name in self.names or path in self.excluded or folder in self.emptied or path.endswith(self.ends):
            return any(is_within(root, path) for root in self.paths)
        return True
