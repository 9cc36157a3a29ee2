# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Show several hosts side by side, from their GPU snapshots in one directory: a copy of each host's file, `DIR/HOST.json`."""

from __future__ import annotations

import os

from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import directory
from ansible_collections.rigwright.workstation.plugins.module_utils._status import gpus
from ansible_collections.rigwright.workstation.plugins.module_utils._status.model import View

_HOSTS = 64


def view(path: str, now: float, refresh_s: int) -> View:
    """Return the hosts whose snapshots a directory has; a file that cannot be used is shown with the reason.

    :raises OSError: there is no such directory.
    """
    with directory(os.path.abspath(path)) as handle:
        names = sorted(name for name in os.listdir(handle) if name.endswith(".json") and not name.startswith("."))
    sections = []
    for name in names[:_HOSTS]:
        host = name[: -len(".json")]
        sections.append(gpus.of_file(os.path.join(path, name), now, host, by_host=True))
    return View(f"{len(names)} hosts", now, tuple(sections), refresh_s=refresh_s)
