# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The prefix of a generation: read what is in it and what changed since it was installed, and close it to users."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import stat
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._conda import plan as conda
from ansible_collections.rigwright.workstation.plugins.module_utils._conda import rattler
from ansible_collections.rigwright.workstation.plugins.module_utils._core import writable
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import open_file

# How many changed files are reported by name.
MANY = 20
# Ends of the names of directories whose files are checked otherwise: by digest, by name, or never, since Python rewrites them.
ELSEWHERE = ("__pycache__", "conda-meta", ".dist-info")
CHANGED = "was changed"
REMOVED = "was removed"
# CEP 22: conda and mamba refuse to change an environment with this file, and show its message.
KEPT = "conda-meta/frozen"
FROZEN = {
    "message": "Ansible keeps this environment and undoes changes by hand. Ask for packages in conda_environments,"
    " or make an environment of your own: conda create --name NAME --clone THIS"
}


class Changed(t.NamedTuple):
    """A changed file or directory: its path below the prefix, its package if it has one, and what happened to it."""

    path: str
    package: str
    fate: str


def list_names(directory: str) -> list[str]:
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else []


def read_records(prefix: str) -> dict[str, str]:
    """Return conda's records in a prefix with their SHA-256. Digests take a tenth of the time of parsing."""
    folder = os.path.join(prefix, "conda-meta")
    records = {}
    for name in list_names(folder):
        if name.endswith(".json"):
            with open(open_file(os.path.join(folder, name)), "rb") as file:
                records[name] = hashlib.sha256(file.read()).hexdigest()
    return records


def read_record(prefix: str, record: str) -> tuple[str, conda.Package]:
    path = os.path.join(prefix, "conda-meta", record)
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        return data["name"], conda.Package(data["version"], data["build"], data.get("sha256") or "")
    except (ValueError, KeyError, TypeError):
        # It does not belong there, whatever it is.
        return record, conda.Package("unreadable")


class Packaged(t.NamedTuple):
    """The package of a file, and its SHA-256 as installed; empty for a link."""

    package: str
    sha256: str


NOBODYS = Packaged("", "")


def read_packaged(prefix: str) -> dict[str, Packaged]:
    """Return the files that conda installed, by their paths below the prefix."""
    files = {}
    for record in read_records(prefix):
        with (
            contextlib.suppress(ValueError, KeyError, TypeError),
            open(open_file(os.path.join(prefix, "conda-meta", record)), encoding="utf-8") as file,
        ):
            data = json.load(file)
            for row in data["paths_data"]["paths"]:
                digest = row.get("sha256_in_prefix") or row.get("sha256") or ""
                files[row["_path"]] = Packaged(data["name"], "" if row["path_type"] == "softlink" else digest)
    return files


def describe_changes(prefix: str, changed: t.Sequence[Changed]) -> list[str]:
    """Describe changed files, a line for each of the first."""
    lines = [f"{path or prefix}{f' of {package}' if package else ''} {fate}" for path, package, fate in changed]
    rest = [f"{len(lines) - MANY} more files are not as they were installed"] if len(lines) > MANY else []
    return [*lines[:MANY], *rest]


def site_packages(prefix: str) -> list[str]:
    return glob.glob(os.path.join(glob.escape(prefix), "lib", "python3*", "site-packages"))


def read_distributions(prefix: str) -> list[str]:
    """Return the distributions that Python's own tools find, also those of other tools."""
    names = {
        name
        for place in site_packages(prefix)
        for name in list_names(place)
        if name.endswith((".dist-info", ".egg-info"))
    }
    return sorted(names)


def scan(prefix: str) -> t.Iterator[tuple[str, os.stat_result]]:
    """Yield everything in a prefix by its path below it; the path of the prefix itself is empty."""
    yield "", os.lstat(prefix)
    for folder, folders, names in os.walk(prefix):
        for path in (os.path.join(folder, name) for name in (*folders, *names)):
            yield os.path.relpath(path, prefix), os.lstat(path)


def read_files(prefix: str) -> dict[str, list[int]]:
    """Return mode, owner, size and time of change of every file and link, except files that are checked otherwise.

    A directory has mode and owner. The mark of the prefix has no time, since no package has its SHA-256.
    """
    files = {}
    for path, found in scan(prefix):
        if stat.S_ISDIR(found.st_mode):
            files[path] = _state(found)[:2]
        elif path == KEPT:
            files[path] = _state(found)[:3]
        elif not any(folder.endswith(ELSEWHERE) for folder in path.split("/")[:-1]):
            files[path] = _state(found)
    return files


def _state(found: os.stat_result) -> list[int]:
    return [found.st_mode, found.st_uid, found.st_size, found.st_mtime_ns]


def _fate(path: str, row: list[int]) -> str:
    """Return what has happened to a file or a directory since it was recorded; empty for nothing."""
    try:
        found = os.lstat(path)
    except OSError:
        # A directory is no more than the files in it.
        return "" if stat.S_ISDIR(row[0]) else REMOVED
    state = _state(found)[: len(row)]
    if state == row:
        return ""
    if not (writable.is_roots(found) or stat.S_ISLNK(found.st_mode)):
        return "may be written by others"
    is_same = state[2:] == row[2:] and stat.S_IFMT(state[0]) == stat.S_IFMT(row[0])
    return "has another mode or owner" if is_same else CHANGED


def _is_whole(path: str, row: list[int], packaged: Packaged) -> bool:
    """Return whether a file has its content as installed: it was only touched, or restored from a backup."""
    found = os.lstat(path)
    is_same = stat.S_ISREG(found.st_mode) and _state(found)[:3] == row[:3] and packaged.sha256
    return bool(is_same) and rattler.file_digest(path) == packaged.sha256


def open_to_users(prefix: str) -> None:
    """Let everybody read conda's records, let only root write anything, and mark the prefix as frozen."""
    lock = os.path.join(prefix, ".lock")
    if os.path.lexists(lock):
        os.unlink(lock)
    folder = os.path.join(prefix, "conda-meta")
    for name in list_names(folder):
        os.chmod(os.path.join(folder, name), 0o644)
    with open(os.path.join(prefix, KEPT), "w", encoding="utf-8") as file:
        json.dump(FROZEN, file)
    # Archives may have files that a group may write. In the cache, the same files may have another owner.
    for name, found in scan(prefix):
        if not (writable.is_roots(found) or stat.S_ISLNK(found.st_mode)):
            path = os.path.join(prefix, name)
            os.chown(path, os.geteuid(), os.getegid())
            os.chmod(path, stat.S_IMODE(found.st_mode) & ~0o022)


def read_changed(prefix: str, installed: t.Mapping[str, list[int]]) -> list[Changed]:
    """Return the files and directories that are not as they were installed.

    :param installed: what ``read_files`` returned then.
    """
    fates = {path: _fate(f"{prefix}/{path}", row) for path, row in installed.items()}
    found = {path: fate for path, fate in fates.items() if fate}
    packaged = read_packaged(prefix) if found else {}
    return [
        Changed(path, packaged.get(path, NOBODYS).package, found[path])
        for path in sorted(found)
        if found[path] != CHANGED or not _is_whole(f"{prefix}/{path}", installed[path], packaged.get(path, NOBODYS))
    ]


def processes_in(prefix: str) -> list[int]:
    """Return the processes that run from a prefix, or have its libraries loaded."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/maps", encoding="utf-8", errors="replace") as file:
                loaded = f"{prefix}/" in file.read()
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                called = f"{prefix}/".encode() in file.read()
        except OSError:
            # The process has ended.
            continue
        if (loaded or called) and int(entry) != os.getpid():
            found.append(int(entry))
    return sorted(found)
