# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state that a check keeps for the next one, and the report that others read: written whole, by one check at a time."""

from __future__ import annotations

import contextlib
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import json_text
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import directory, read_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import host_lock

# A directory of its own: config_files keeps /var/lib/rigwright for itself.
HOME = "/var/lib/rigwright_gpu_health"
STATE, REPORT = f"{HOME}/state.json", f"{HOME}/report.json"
# In the directory of node_exporter's textfile collector.
TEXTFILE = "rigwright_gpu_health.prom"

# A day of Xids of many GPUs.
_LIMIT = 8 << 20
# A check may take a minute.
_WAIT_S = 120


def read(path: str) -> str:
    """Read a state; empty where there is none.

    :raises OSError: it cannot be read, or its owner is neither root nor this user.
    """
    try:
        with directory(os.path.dirname(path)) as parent:
            content = read_file(os.path.basename(path), {0, os.geteuid()}, _LIMIT, parent)
    except FileNotFoundError:
        return ""
    return content.decode("utf-8", errors="replace")


def read_kept(path: str) -> tuple[str, list[str]]:
    """Read the state of the last check; empty where it cannot be used, with a message."""
    try:
        return read(path), []
    except OSError as error:
        return "", [f"the last check: {error}; it is left out, and the next one compares with this"]


def read_failing(path: str) -> frozenset[str]:
    """Read the ids of the findings that failed in the last report; none where it cannot be read."""
    try:
        found = json_text.parse(read(path) or "{}", _LIMIT)["findings"]
        return frozenset(str(row["id"]) for row in found if row["status"] == "fail")
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset()


@contextlib.contextmanager
def locked() -> t.Iterator[None]:
    """Hold the lock of checks that run as root. Any other user keeps a state of their own.

    :raises Busy: another check does not end.
    """
    with host_lock("gpu_health", _WAIT_S) if os.geteuid() == 0 else contextlib.nullcontext():
        yield
