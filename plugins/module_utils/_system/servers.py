# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the mounts whose server is gone: a process that looks at a path there waits for ever, and may not even end by a signal."""

from __future__ import annotations

import contextlib
import subprocess
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import programs
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import NETWORK, Mount, is_within

# As long as a disk of a server may need to spin up.
WAIT_S = 30.0


def unanswered(paths: t.Collection[str], mounts: t.Iterable[Mount], wait_s: float | None = None) -> dict[str, str]:
    """Return the paths whose server does not answer in time, each with where it is mounted. Only other processes look at the paths."""
    remote = [
        mount for mount in mounts if mount.fstype in NETWORK and any(is_within(path, mount.target) for path in paths)
    ]
    gone = _silent([mount.target for mount in remote], WAIT_S if wait_s is None else wait_s)
    return {path: place for place in gone for path in paths if is_within(path, place)}


def _silent(places: t.Sequence[str], wait_s: float) -> list[str]:
    null = subprocess.DEVNULL
    # Of a file system, unlike of a file, the kernel keeps no answer of before.
    children = [
        (place, programs.start(["stat", "--file-system", "--", place], stdin=null, stdout=null, stderr=null))
        for place in places
    ]
    end, silent = time.monotonic() + wait_s, []
    for place, child in children:
        try:
            child.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            silent.append(place)
            child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(0.1)
    return silent
