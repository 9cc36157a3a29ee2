# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Content of files: its extents and its hash."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.folder import READ
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.workers import CHUNK

ZEROS = memoryview(bytes(CHUNK))


def extents(fd: int, size: int) -> t.Iterator[tuple[int, int]]:
    """Yield start and end of each part of a file that has data."""
    position = 0
    while position < size:
        try:
            start = os.lseek(fd, position, os.SEEK_DATA)
            end = os.lseek(fd, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            if error.errno != errno.EINVAL:
                raise
            start, end = position, size
        if start < size:
            yield start, min(end, size)
        position = end


def feed_zeros(digest: t.Any, count: int, check: t.Callable[[], None]) -> None:
    while count > 0:
        digest.update(ZEROS[: min(count, CHUNK)])
        count -= CHUNK
        check()


def hash_file(path: str, algorithm: str, size: int, buffer: memoryview, check: t.Callable[[], None]) -> str:
    """Return the hash of a file as the disk has it; a text that is no hash where the size differs."""
    fd = os.open(path, READ)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        digest, position = hashlib.new(algorithm), 0
        while stat.S_ISREG(os.fstat(fd).st_mode):
            count = os.preadv(fd, [buffer], position)
            if count == 0:
                return digest.hexdigest() if position == size else f"{position} bytes"
            digest.update(buffer[:count])
            position += count
            check()
        return "no file"
    finally:
        os.close(fd)
