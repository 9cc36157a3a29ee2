# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole cache: eviction that users request from root, and entries that do not belong to the cache."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.eviction import Eviction
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.failures import NoRoom
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.folder import READ, Flock, Folder
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.store import POLL_S
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.text import say, shown

SERVICE_S = 120.0


class Cache(Eviction):
    """The cache that the commands work with."""

    def sweep(self) -> None:
        """Take out entries of users that no program of ours made: they could block locks, or keep root busy for ever."""
        for folder in (self.locks, self.requests, self.sets):
            for name in folder.names():
                status = folder.lstat(name)
                if status is None:
                    continue
                is_folder = stat.S_ISDIR(status.st_mode)
                is_file = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
                if not (is_folder if folder is self.sets else is_file):
                    self.expel(folder, name, is_folder)
        for name in self.top.names():
            if name.startswith(".odd-"):
                try:
                    os.rmdir(name, dir_fd=self.top.fd)
                except OSError:
                    with contextlib.suppress(OSError):
                        self.discard(self.top, name)

    def expel(self, folder: Folder, name: str, is_folder: bool) -> None:
        try:
            if not is_folder:
                lock = None
                if folder is self.locks and stat.S_ISREG(t.cast(os.stat_result, folder.lstat(name)).st_mode):
                    lock = Flock.take(os.open(name, READ, dir_fd=folder.fd), wait=False)
                    if lock is None:
                        say(f"the lock {shown(name)} is held, and has other names: it stays")
                        return
                with lock or contextlib.nullcontext():
                    folder.unlink(name)
                return
            # Users cannot follow it there, and it may be what one of them has of another: that is kept.
            moved = f".odd-{secrets.token_hex(6)}"
            os.rename(name, moved, src_dir_fd=folder.fd, dst_dir_fd=self.top.fd)
            say(f"the folder {shown(name)} was no part of the cache and is {shown(self.at(moved))} now")
        except OSError as error:
            say(f"{shown(name)} is no part of the cache and cannot be removed: {error.strerror}")

    def ask_for_room(self, need: int) -> None:
        """Request that root's service removes copies of other users."""
        name = f"{need}-{os.getpid()}-{secrets.token_hex(4)}"
        os.close(self.requests.file_or_new(name))
        end = time.monotonic() + SERVICE_S
        try:
            while self.requests.lstat(name):
                if time.monotonic() > end:
                    raise NoRoom("the service that evicts for users did not answer (dataset-cache-evict.service)")
                time.sleep(POLL_S)
        finally:
            with contextlib.suppress(OSError):
                self.requests.unlink(name)
