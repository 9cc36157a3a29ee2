# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Datasets where they come from, and what the copy of one may not hold."""

from __future__ import annotations

import errno
import grp
import hashlib
import os
import re
import stat
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.failures import Exit, Failed
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.settings import Settings
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.text import shown
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.tree import (
    Entry,
    Fingerprint,
    entry_of,
    walk,
)

# Two changes within one tick of the kernel's clock (4 to 10 ms) leave the same times behind.
TICK_NS = 50_000_000
ATTEMPTS = 20


class Survey(t.NamedTuple):
    fingerprint: str
    entries: list[Entry]


def reads_as_corrupt(error: OSError) -> bool:
    return error.errno in (errno.EIO, errno.EILSEQ, errno.EUCLEAN, errno.ESTALE, errno.ENODATA, errno.EBADMSG)


def source_failed(path: str, error: OSError) -> Failed:
    """Return the failure to read a source, with the status for the user who can fix it."""
    if reads_as_corrupt(error):
        return Failed(Exit.CORRUPT, f"{shown(path)} cannot be read: {error.strerror}; check its disk")
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        return Failed(
            Exit.CHANGED, f"{shown(path)} went away while it was looked at; try again when nothing changes it"
        )
    return Failed(Exit.SOURCE, f"{shown(path)} cannot be copied: {error.strerror}")


def take_survey(top: str, keep: bool) -> Survey:
    """Read names, sizes and times of a source; with *keep*, return its entries."""
    for _attempt in range(ATTEMPTS):
        found, entries = Fingerprint(), []
        try:
            for entry in walk(top):
                found.add(entry)
                if keep:
                    entries.append(entry)
        except OSError as error:
            raise source_failed(os.path.join(top, str(error.filename or "")), error) from None
        # A file that changes within the tick of its last change would take_survey the same afterwards.
        if not 0 <= time.time_ns() - found.newest < TICK_NS:
            return Survey(found.hash.hexdigest(), entries)
        time.sleep(TICK_NS / 1e9)
    raise Failed(Exit.CHANGED, f"{shown(top)} is being written: get it when nothing writes it")


def is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


class Source:
    """A dataset where it comes from: a folder or a file, named by its real path."""

    def __init__(self, given: str, settings: Settings) -> None:
        self.path = os.path.realpath(given)
        self.name = os.path.basename(self.path)
        cache = os.path.realpath(settings.cache)
        allowed = [os.path.realpath(path) for path in settings.sources]
        if not any(is_inside(self.path, path) for path in allowed):
            raise Failed(
                Exit.SOURCE, f"{shown(self.path)} is not inside of {', '.join(map(shown, allowed))} (`sources`)"
            )
        if is_inside(self.path, cache) or is_inside(cache, self.path):
            raise Failed(Exit.SOURCE, f"{shown(self.path)} holds the cache or is in it")
        slug = re.sub(r"[^A-Za-z0-9._]+", "_", self.name)[:40].lstrip(".") or "dataset"
        self.set = f"{slug}-{hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]}"

    def require(self) -> None:
        try:
            status = os.stat(self.path)
        except OSError as error:
            raise Failed(
                Exit.CORRUPT if reads_as_corrupt(error) else Exit.SOURCE,
                f"{shown(self.path)}: {error.strerror}; with --offline a copy is served without its source",
            ) from None
        if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
            raise Failed(Exit.SOURCE, f"{shown(self.path)} is neither a folder nor a file")

    def place(self, entry: Entry) -> str:
        return os.path.join(self.path, entry.path) if entry.path else self.path


def check_entries(source: Source, entries: list[Entry], gid: int | None) -> None:
    """Refuse what cannot be copied, and with *gid* what that group may not read."""
    for entry in entries:
        if entry.kind == "other":
            raise Failed(Exit.SOURCE, f"{shown(source.place(entry))} is a device, a socket or a pipe: take it out")
    if gid is None:
        return
    above = [entry_of("", os.stat(path)) for path in ancestors(source.path)]
    for entry in above:
        if not may_read(entry, gid, 1):
            raise private(source.path, gid)
    for entry in entries:
        if entry.kind != "link" and not may_read(entry, gid, 4):
            raise private(source.place(entry), gid)


def ancestors(path: str) -> list[str]:
    found = []
    while os.path.dirname(path) != path:
        path = os.path.dirname(path)
        found.append(path)
    return found


def may_read(entry: Entry, gid: int, bits: int) -> bool:
    return bool(entry.mode & bits or (entry.gid == gid and entry.mode & bits << 3))


def private(path: str, gid: int) -> Failed:
    try:
        group = grp.getgrgid(gid).gr_name
    except KeyError:
        group = str(gid)
    return Failed(Exit.SOURCE, f"{shown(path)} may not be read by the group {group}, its copy could: chmod, or --share")


def copied_target(source: Source, entry: Entry) -> str:
    """Return the target of a symbolic link in the copy: the same file of the copy. One that leads out of the source is refused."""
    folder = os.path.dirname(source.place(entry))
    real = os.path.realpath(os.path.join(folder, entry.target))
    if not is_inside(real, source.path):
        raise Failed(
            Exit.SOURCE,
            f"{shown(source.place(entry))} is a link out of the source, to {shown(entry.target)}: "
            "name a source that holds both, or put the file in its place",
        )
    plain = os.path.normpath(os.path.join(os.path.dirname(entry.path), entry.target))
    if plain.startswith(("/", "../")) or plain == "..":
        return os.path.relpath(real, folder)
    return entry.target
