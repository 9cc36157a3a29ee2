# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find directories that users other than root may write: they can replace what root keeps there."""

from __future__ import annotations

import os
import stat
import typing as t


def is_roots(found: os.stat_result) -> bool:
    """Return True if only root may write, or the user who runs this, who is root on a host."""
    return not found.st_mode & 0o022 and (found.st_uid == 0 or found.st_uid == os.geteuid())


def open_to_others(path: str) -> list[str]:
    """Return the directories on the way to *path*, with itself and those behind links, in which others may replace the next entry.

    In a sticky directory, such as /tmp, other users cannot replace what belongs to root.
    """
    on_the_way = [parent for parent, entry in _steps(path) if os.path.isdir(parent) and not _is_kept(parent, entry)]
    itself = [path] if os.path.isdir(path) and not is_roots(os.stat(path)) else []
    return sorted({*on_the_way, *itself})


def open_problem(paths: t.Iterable[str], option: str = "", closed: t.Collection[str] = ()) -> str:
    """Return why root must not create, replace or remove anything in these directories; empty where only root may write.

    :param option: the option that names another place.
    :param closed: directories of which the caller sets owner and mode first.
    """
    places = sorted({place for path in paths for place in open_to_others(path)} - set(closed))
    if not places:
        return ""
    problem = f"users other than root may write in {', '.join(places)}, and could put a link in the way"
    remedy = "give these directories to root alone"
    return f"`{option}`: {problem}: {remedy}, or set `{option}` to another place" if option else f"{problem}: {remedy}"


def _steps(path: str) -> t.Iterator[tuple[str, str]]:
    """Yield every directory on the way to *path*, with the entry that is looked up there."""
    parent = os.path.dirname(path)
    if parent == path:
        return
    yield from _steps(parent)
    yield parent, path
    # A link that leads nowhere, or to itself, makes the creation of a directory fail.
    if os.path.islink(path) and os.path.exists(path):
        yield from _steps(os.path.join(parent, os.readlink(path)))


def _is_kept(parent: str, entry: str) -> bool:
    found = os.stat(parent)
    if is_roots(found):
        return True
    roots = (0, os.geteuid())
    is_sticky = found.st_uid in roots and bool(found.st_mode & stat.S_ISVTX)
    return is_sticky and os.path.lexists(entry) and os.lstat(entry).st_uid in roots
