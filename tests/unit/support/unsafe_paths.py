# SPDX-License-Identifier: GPL-3.0-or-later
"""Notice when code of the collection, run by root, uses a path below a directory in which another user may write.

Such a user can put a link in place of any part of the path between a check and the use. Code there opens directories one by one and
works below their descriptors (`_core/directories.py`): then the name has no directory in it.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import FILE_FLAGS
from ansible_collections.rigwright.workstation.plugins.module_utils._core.writable import open_to_others

CHECKOUT = Path(__file__).parents[3]
TEMPORARY = tempfile.gettempdir() + "/"
# event -> positions of its paths
EVENTS = {
    "open": (0,),
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.symlink": (1,),
    "os.link": (0, 1),
    "os.truncate": (0,),
    "os.utime": (0,),
    "os.setxattr": (0,),
    "shutil.rmtree": (0,),
}


class Watch:
    """Keeps the unsafe uses of one test; the interpreter keeps an audit hook for ever, so that there is one for all tests."""

    def __init__(self) -> None:
        self.active = False
        self.busy = False
        self.found: list[str] = []
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.active or self.busy or event not in EVENTS:
            return
        # Tests work in temporary directories; most other files are those of imports.
        named = [arguments[position] for position in EVENTS[event]]
        paths = [os.fsdecode(path) for path in named if isinstance(path, str | bytes | os.PathLike)]
        paths = [path for path in paths if path.startswith(TEMPORARY)]
        place = caller(sys._getframe(1)) if paths and os.geteuid() == 0 else ""
        if not place or reads_safely(event, arguments):
            return
        self.busy = True
        try:
            for path in paths:
                if others := unsafe(path, creates_alone(event, arguments)):
                    self.found.append(f"{place} {event} {path}: others may write in {', '.join(others)}")
        except OSError:
            pass
        finally:
            self.busy = False


def reads_safely(event: str, arguments: tuple[Any, ...]) -> bool:
    """Return True if `open_file` of `_core/directories.py` reads: it follows no link, opens no FIFO, and the reader trusts no content."""
    flags = arguments[2] if event == "open" else os.O_WRONLY
    return flags & FILE_FLAGS == FILE_FLAGS and flags & os.O_ACCMODE == os.O_RDONLY


def creates_alone(event: str, arguments: tuple[Any, ...]) -> bool:
    """Return True if the call fails when the path exists: tempfile works so in /tmp."""
    return event == "os.mkdir" or (event == "open" and bool(arguments[2] & os.O_EXCL))


def unsafe(path: str, creates: bool) -> list[str]:
    """Return the directories on the way in which another user could exchange what comes next."""
    others = [place for place in open_to_others(path) if place != path]
    parent = os.path.dirname(path)
    is_sticky = bool(os.stat(parent).st_mode & stat.S_ISVTX) and os.stat(parent).st_uid == 0
    return [place for place in others if not (creates and is_sticky and place == parent)]


def caller(frame: FrameType | None) -> str:
    """Return file and line of the collection's code that made the call, through the standard library; empty for other code."""
    while frame is not None:
        name = frame.f_code.co_filename
        if ("/plugins/" in name and "/tests/" not in name) or ("/roles/" in name and "/files/" in name):
            return f"{os.path.basename(name)}:{frame.f_lineno}"
        if "/tests/" in name or "/_pytest/" in name:
            return ""
        frame = frame.f_back
    return ""


WATCH = Watch()
