# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read and write files of a host below a root directory: of the running, a mounted or a recorded system."""

from __future__ import annotations

import builtins
import contextlib
import itertools
import os

from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import open_file

_LINK_LIMIT = 40
# A package list of Debian has 60 MiB.
READ_LIMIT = 256 << 20
_BLOCK = 1 << 20
# No path leads there: a device has no entries.
_NOWHERE = "/dev/null/nowhere"


class Tree:
    """Files below a root. What is not there, may not be read, is no regular file (a FIFO would block) or too large, is empty.

    Links of another root, also those on the way, lead where they lead for that system: never to the files of this host.
    """

    def __init__(self, root: str = "/") -> None:
        self.root = root.rstrip("/")

    def at(self, path: str) -> str:
        """Return the path on this host, with its links: resolve it before, where another root has untrusted ones."""
        return self.root + path

    def _entry(self, path: str) -> str:
        """Return the path on this host of what may be a link itself; none of the directories on the way is one."""
        folder, name = os.path.split(path)
        return f"{self.root}{self.resolve(folder).rstrip('/')}/{name}"

    def bytes(self, path: str) -> bytes:
        try:
            with open(open_file(self.root + self.resolve(path)), "rb") as file:
                blocks = iter(lambda: file.read(_BLOCK), b"")
                content = b"".join(itertools.islice(blocks, READ_LIMIT // _BLOCK))
                return b"" if file.read(1) else content
        except OSError:
            return b""

    def text(self, path: str) -> str:
        return self.bytes(path).decode("utf-8", errors="replace")

    def exists(self, path: str) -> bool:
        return os.path.lexists(self._entry(path))

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self.root + self.resolve(path)))
        except OSError:
            return []

    def link(self, path: str) -> str:
        """Return the target of a symbolic link, empty for anything else."""
        try:
            return os.readlink(self._entry(path))
        except OSError:
            return ""

    def resolve(self, path: str) -> str:
        """Return where a path leads, without links in it. No link leaves the root, as for the system itself."""
        place, links = "", 0
        # The parts that follow, the next one last.
        pending = path.split("/")[::-1]
        while pending:
            name = pending.pop()
            if name == "..":
                place = place.rpartition("/")[0]
            elif name not in ("", "."):
                try:
                    target = os.readlink(f"{self.root}{place}/{name}")
                except OSError:
                    place = f"{place}/{name}"
                    continue
                links += 1
                if links > _LINK_LIMIT:
                    return _NOWHERE
                pending += target.split("/")[::-1]
                place = "" if target.startswith("/") else place
        return place or "/"

    def replace(self, path: str, content: builtins.bytes | None) -> None:
        """Replace a file in one step; all users may read it.

        None removes the file, and also its directory if that is the collection's own and empty.
        """
        place = self._entry(path)
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
