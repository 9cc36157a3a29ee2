# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""What one look leaves for the next, and what others read of it: written whole, by one look at a time, and never through a link."""

from __future__ import annotations

import contextlib
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import directory, read_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import host_lock

# A day of Xids of many GPUs.
_LIMIT = 8 << 20
# A look may take a minute.
_WAIT_S = 120


def read(path: str) -> str:
    """Empty where there is none.

    :raises OSError: it cannot be read, or somebody else than root or this user may have written it.
    """
    try:
        with directory(os.path.dirname(path)) as parent:
            content = read_file(os.path.basename(path), {0, os.geteuid()}, _LIMIT, parent)
    except FileNotFoundError:
        return ""
    return content.decode("utf-8", errors="replace")


def kept(path: str) -> tuple[str, list[str]]:
    """The text of what was left, and why it is not taken where that is so."""
    try:
        return read(path), []
    except OSError as error:
        return "", [f"the last look: {error}; it is left out, and the next one compares with this"]


@contextlib.contextmanager
def locked() -> t.Iterator[None]:
    """Let no other look of root's begin before this one has left its state. Another user keeps states of his own.

    :raises Busy: another one goes on and on.
    """
    with host_lock("gpu_health", _WAIT_S) if os.geteuid() == 0 else contextlib.nullcontext():
        yield
