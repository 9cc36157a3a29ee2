# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command `verify`: it reads copies again and compares them with their manifest."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.cache import Cache
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.commands import chosen, open_cache
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.content import hash_file
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.failures import Exit, Failed
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.folder import Folder
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.progress import Progress
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.records import (
    Copy,
    ManifestRow,
    Record,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.text import is_name, say, shown
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.workers import Buffer, Workers


def verify(args: argparse.Namespace) -> Exit:
    cache = open_cache(args)
    wrong, failed = 0, Exit.DONE
    for dataset in chosen(cache, args.sources):
        for copy in dataset.copies:
            try:
                with cache.opened(dataset.set) as folder:
                    wrong += bool(folder) and not verified(cache, t.cast(Folder, folder), copy, args)
            except (OSError, ValueError, MemoryError, Failed) as error:
                # What a user has made so that it cannot be read keeps nobody from the others.
                say(f"{shown(copy.path)} cannot be verified: {error}")
                failed = error.status if isinstance(error, Failed) else Exit.CACHE
    return Exit.WRONG if wrong else failed


def verified(cache: Cache, folder: Folder, copy: Copy, args: argparse.Namespace) -> bool:
    with cache.lock(copy.set, "lock"):
        lock = cache.share(folder, copy) if copy.record and not copy.damaged else None
    if lock is None:
        if not folder.lstat(copy.name):
            return True
        if copy.record and not copy.damaged:
            raise Failed(Exit.BUSY, "somebody has locked it")
        say(f"{shown(copy.path)}: {shown(copy.damaged) or 'no record'}")
        return False
    with lock, folder.folder(copy.name) as copied:
        # Others may have made it so that root would read what they may not.
        with cache.acting_as(copied.status.st_uid):
            found = Verifying(cache, folder, copy, copied, args).run()
        if found:
            with cache.lock(copy.set, "lock"):
                cache.mark_damaged(folder, copy, found)
        elif not args.quiet:
            sys.stdout.write(f"{shown(t.cast(Record, copy.record).source)}: as it was copied\n")
        return not found


class Verifying:
    """Reads a copy again, and with --source its source too."""

    def __init__(self, cache: Cache, folder: Folder, copy: Copy, copied: Folder, args: argparse.Namespace) -> None:
        self.cache, self.folder, self.copy, self.made = cache, folder, copy, copied
        self.record = t.cast(Record, copy.record)
        self.top = os.path.join(copied.path, "data", self.record.name)
        self.with_source = args.with_source
        self.progress = Progress(self.record.name, args.quiet, "verifying")
        self.workers = Workers(args.jobs or cache.settings.jobs or max(2, min(8, os.cpu_count() or 2)))
        self.buffer = Buffer()

    def run(self) -> str:
        """Return what is wrong with the copy; an empty text for a correct one."""
        wrong = self.cache.wrong(self.folder, self.copy)
        if wrong:
            return wrong
        try:
            with open(self.made.file("manifest"), "rb") as file:
                text = file.read()
            if hashlib.sha256(text).hexdigest() != self.record.manifest:
                return "its manifest has changed"
            rows = [json.loads(line) for line in text.splitlines()]
            files = [row for row in rows if row["kind"] == "file"]
            if not all(isinstance(row["path"], str) and is_name(row["path"]) and row["hash"] for row in files):
                return "its manifest is none"
            self.progress.total = sum(row["size"] for row in files)
        except OSError as error:
            return f"its manifest cannot be read: {error.strerror}"
        except (ValueError, TypeError, KeyError, RecursionError):
            return "its manifest is none"
        self.progress.passes = 2 if self.with_source else 1
        try:
            self.workers.each(self.check, files, self.progress.tick)
        except Failed as error:
            return str(error)
        finally:
            self.progress.end()
        return ""

    def check(self, row: ManifestRow) -> None:
        for top in (self.top, self.record.source) if self.with_source else (self.top,):
            path = os.path.join(top, row["path"]) if row["path"] else top
            try:
                found = hash_file(path, self.record.algorithm, row["size"], self.buffer.view, self.workers.check)
            except OSError as error:
                raise Failed(Exit.WRONG, f"{shown(path)} cannot be read: {error.strerror}") from None
            if found != row["hash"]:
                raise Failed(Exit.WRONG, f"{shown(path)} is not what was copied")
            self.progress.add(row["size"])
