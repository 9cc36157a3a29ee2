# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The day files: read and replaced whole, and removed when there are more than wanted."""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import (
    directory,
    read_file,
    write_file,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import sums

# A directory of its own: config_files keeps /var/lib/rigwright for itself.
HOME = "/var/lib/rigwright_gpu_usage"
_FILE = re.compile(r"(\d{4}-\d{2}-\d{2})\.json")


def path_of(day: str) -> str:
    """Return the file of a day."""
    return f"{HOME}/{day}.json"


def read_day(tree: Tree, day: str) -> sums.Day:
    """Read a day; empty where it has no file.

    :raises ValueError: the file is damaged or of another format.
    :raises OSError: it cannot be read, or is no plain file.
    """
    try:
        with directory(tree.at(HOME)) as home:
            text = read_file(f"{day}.json", limit=sums.LIMIT, dir_fd=home).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return sums.Day(day)
    return sums.from_text(text, day)


def days(tree: Tree) -> list[str]:
    """Return the days that have a file, the earliest first."""
    return [match[1] for match in map(_FILE.fullmatch, tree.names(HOME)) if match]


def write_day(tree: Tree, day: sums.Day) -> None:
    """Replace the file of a day.

    :raises OSError: it cannot be written; the old one is as it was.
    """
    write_file(tree.at(path_of(day.day)), sums.as_text(day))


def set_aside(tree: Tree, day: str) -> None:
    """Keep a damaged file under another name, so that the day goes on.

    :raises OSError: it cannot be renamed.
    """
    with directory(tree.at(HOME)) as home:
        os.replace(f"{day}.json", f"{day}.damaged", src_dir_fd=home, dst_dir_fd=home)


def prune(tree: Tree, keep: int) -> list[str]:
    """Remove the earliest days beyond a number. An age would remove all of them when the clock is set wrong.

    :raises OSError: a file cannot be removed.
    """
    gone: t.Sequence[str] = days(tree)[:-keep]
    with directory(tree.at(HOME)) as home:
        for day in gone:
            os.unlink(f"{day}.json", dir_fd=home)
    return list(gone)
