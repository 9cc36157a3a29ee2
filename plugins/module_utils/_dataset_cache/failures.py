# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Exit statuses, and the exceptions that end the program with one."""

from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    DONE = 0
    FAULT = 1
    USAGE = 2
    SOURCE = 3
    CORRUPT = 4
    ROOM = 5
    CHANGED = 6
    WRONG = 7
    BUSY = 8
    ABSENT = 9
    CACHE = 10
    WAIT = 11


# The cache failed, not the source: reading the source itself is as right as ever.
FALL_BACK = {Exit.ROOM, Exit.CHANGED, Exit.WRONG, Exit.CACHE, Exit.WAIT}


class Failed(Exception):
    """An error that ends the program with a status and a message."""

    def __init__(self, status: Exit, message: str) -> None:
        super().__init__(message)
        self.status = status


class NoRoom(Failed):
    """The copies do not fit. *others*: root could free enough."""

    def __init__(self, message: str, others: bool = False) -> None:
        super().__init__(Exit.ROOM, message)
        self.others = others


class Stopped(BaseException):
    """A signal that ends the program."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
