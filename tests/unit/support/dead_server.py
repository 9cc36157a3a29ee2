# SPDX-License-Identifier: GPL-3.0-or-later
"""A mount whose server never answers, as a hard mount of NFS: FUSE, and nobody reads what the kernel asks."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

LIBC = ctypes.CDLL(None, use_errno=True)
DETACH = 2


@contextlib.contextmanager
def mounted(target: Path) -> Iterator[str]:
    """Mount it, and yield the line of mountinfo; each process that looks there waits until the end."""
    try:
        server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        pytest.skip(f"/dev/fuse: {error.strerror}")
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
    try:
        if LIBC.mount(b"nas:/export", os.fsencode(target), b"fuse.sshfs", 0, options):
            pytest.skip(f"mount: {os.strerror(ctypes.get_errno())}")
        try:
            lines = Path("/proc/self/mountinfo").read_text().splitlines(keepends=True)
            yield next(line for line in lines if line.split(" ")[4] == str(target))
        finally:
            LIBC.umount2(os.fsencode(target), DETACH)
    finally:
        # What waits ends with this.
        os.close(server)
