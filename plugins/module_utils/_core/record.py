# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the records that this collection keeps on a host. One that is empty, cut or foreign is damaged, and never taken for none."""

from __future__ import annotations

import errno
import json
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import UnsafePath, open_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Refused

# A directory in the place of a record, and a disk that cannot read it.
_FOREIGN = (errno.EISDIR, errno.EIO)


class Damaged(Refused, ValueError):
    """A record is damaged; the text has its path and a remedy."""

    def __init__(self, path: str, reason: object, remedy: str) -> None:
        super().__init__(f"{path} is damaged ({reason}): {remedy}")


def parse(content: bytes, path: str, remedy: str, shape: t.Any = dict) -> t.Any:
    """Return the value of a record.

    :param shape: a type; or a dictionary of keys that have to be there, with the shape of each; or a list with the shape of all elements,
        and ``{str: shape}`` for a dictionary with any keys.
    :raises Damaged: it is no JSON, or has another shape.
    """
    try:
        found = json.loads(content.decode("utf-8")) if content.strip() else None
        problem = _misfit(found, shape, "it") if content.strip() else "it is empty"
    except (ValueError, RecursionError) as error:
        problem = str(error)
    if problem:
        raise Damaged(path, problem, remedy)
    return found


def read(path: str, remedy: str, shape: t.Any = dict) -> t.Any:
    """Return the value of a record in a file, and None where there is none.

    :raises Damaged: it is no JSON, has another shape, or is no file.
    :raises OSError: it cannot be read now, which says nothing about it.
    """
    try:
        with open(open_file(path), "rb") as file:
            content = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno not in _FOREIGN and not isinstance(error, UnsafePath):
            raise
        raise Damaged(path, error.strerror or error, remedy) from error
    return parse(content, path, remedy, shape)


def _misfit(found: t.Any, shape: t.Any, place: str) -> str:
    """Return why a value does not have a shape; an empty text if it has."""
    if isinstance(shape, (type, tuple)):
        # A boolean is no number.
        fits = isinstance(found, shape) and (not isinstance(found, bool) or shape in (bool, object))
        return "" if fits else f"{place} is {type(found).__name__}"
    if not isinstance(found, type(shape)):
        return f"{place} is {type(found).__name__}"
    if isinstance(shape, list):
        rows = [(f"{place}[{number}]", each, shape[0]) for number, each in enumerate(found)]
    elif str in shape:
        rows = [(f"{place}.{key}", each, shape[str]) for key, each in found.items()]
    else:
        missing = sorted(key for key in shape if key not in found)
        if missing:
            return f"{place} has no {', '.join(missing)}"
        rows = [(f"{place}.{key}", found[key], each) for key, each in shape.items()]
    return next(filter(None, (_misfit(each, inner, where) for where, each, inner in rows)), "")
