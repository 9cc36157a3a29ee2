# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Threads that copy and hash files at the same time."""

from __future__ import annotations

import threading
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.failures import Stopped
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.store import POLL_S

# What is read, hashed and written in one go: larger ones fall out of the processor's caches, smaller ones cost calls.
CHUNK = 1 << 20


class Workers:
    """Threads that take work from one list; the first failure stops all of them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.stop = threading.Event()
        self.failures: list[BaseException] = []

    def each(self, work: t.Callable[[t.Any], None], items: t.Iterable[t.Any], tick: t.Callable[[], None]) -> None:
        waiting = iter(items)
        guard = threading.Lock()

        def run() -> None:
            with self:
                while not self.stop.is_set():
                    with guard:
                        item = next(waiting, None)
                    if item is None:
                        return
                    work(item)

        threads = [threading.Thread(target=run, daemon=True) for _number in range(self.count)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(POLL_S)
                    tick()
        except BaseException:
            self.stop.set()
            for thread in threads:
                thread.join()
            raise
        if self.failures:
            raise self.failures[0]

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        """Keep the failure of a thread: the main thread raises it again."""
        if error is not None:
            self.failures.append(error)
            self.stop.set()
        return True

    def check(self) -> None:
        if self.stop.is_set():
            raise Stopped(0)


class Buffer(threading.local):
    """One for each thread."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(CHUNK))
