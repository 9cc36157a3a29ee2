# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Create directories below those of root."""

from __future__ import annotations

import os
import stat


def make_directories(path: str, mode: int = 0o755, existing: bool = False) -> None:
    """Create a directory of root, and those above it that are missing, each with this mode whatever the umask.

    :param existing: whether a directory that exists gets the mode, too; those above it stay as they are.
    :raises OSError: it cannot be created.
    """
    above = os.path.dirname(path.rstrip("/"))
    if above and not os.path.isdir(above):
        make_directories(above, mode)
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        if not existing or stat.S_IMODE(os.stat(path).st_mode) == mode:
            return
    os.chmod(path, mode)
