# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read and write files of a host below a root directory: of the running, a mounted or a recorded system."""

from __future__ import annotations

import builtins
import contextlib
import os

from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import open_file

_LINK_LIMIT = 40


class Tree:
    """Files below a root. What is not there, may not be read, or is no regular file (a FIFO would block), is empty."""

    def __init__(self, root: str = "/") -> None:
        self.root = root.rstrip("/")

    def at(self, path: str) -> str:
        return self.root + path

    def bytes(self, path: str) -> bytes:
        try:
            with open(open_file(self.at(self.resolve(path))), "rb") as file:
                return file.read()
        except OSError:
            return b""

    def text(self, path: str) -> str:
        return self.bytes(path).decode("utf-8", errors="replace")

    def exists(self, path: str) -> bool:
        return os.path.lexists(self.at(path))

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self.at(self.resolve(path))))
        except OSError:
            return []

    def link(self, path: str) -> str:
        """Return the target of a symbolic link, empty for anything else."""
        try:
            return os.readlink(self.at(path))
        except OSError:
            return ""

    def resolve(self, path: str) -> str:
        """Return the end of a chain of links. An absolute link stays below the root, as it does for the system itself."""
        for _step in range(_LINK_LIMIT):
            target = self.link(path)
            if not target:
                break
            path = os.path.normpath(os.path.join(os.path.dirname(path), target))
        return path

    def replace(self, path: str, content: builtins.bytes | None) -> None:
        """Replace a file in one step; all users may read it.

        None removes the file, and also its directory if that is the collection's own and empty.
        """
        place = self.at(path)
        folder = os.path.dirname(place)
        if content is None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place)
            if os.path.basename(folder).startswith("rigwright"):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
            return
        os.makedirs(folder, exist_ok=True)
        replace_file(place, content)
