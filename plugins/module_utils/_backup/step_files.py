# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files by which the steps of a unit pass data to each other, in a directory of the unit's user.

Root's last step reads what that user has written: only a small regular file of an expected owner, with known keys and types.
"""

from __future__ import annotations

import json
import os
import posixpath
import pwd
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import state as states
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Config, Place
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic_outcome import OK, REMEDIES
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import directory, read_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown

RESULT, DUMPS, MANIFEST, SAMPLE, PROGRESS = (
    f"{name}.json" for name in ("result", "dumps", "manifest", "sample", "progress")
)
# Messages go into the environment of hooks, where Linux takes 128 KiB.
LONGEST = 16 << 10
_WORDS = ("words", "problem", "lost")
_KINDS = {OK, *REMEDIES, *states.OWN_REMEDIES}
Check = t.Callable[[t.Any], bool]


class Refused(Exception):
    """A file is not as a step of the unit writes it; the text says why."""


def folder(place: Place, verb: str, subject: str) -> str:
    """Return the directory of the unit's files; systemd creates and removes it."""
    return os.path.join(place.run, f"{verb}-{subject}")


def write_step_file(place: Place, verb: str, subject: str, name: str, data: t.Any) -> None:
    """Write a file for a later step."""
    replace_file(os.path.join(folder(place, verb, subject), name), states.dump(_fitting(data)), 0o640)


def _fitting(data: t.Any, is_words: bool = False) -> t.Any:
    """Return the data with messages as :func:`read_step_file` takes them: a line of valid UTF-8 of limited length."""
    if isinstance(data, dict):
        return {key: _fitting(value, key in _WORDS) for key, value in data.items()}
    if is_words and isinstance(data, (list, tuple)):
        return [_fitting(value, True) for value in data]
    if is_words and isinstance(data, str):
        return shown(data).encode()[:LONGEST].decode("utf-8", "ignore")
    return data


def read_step_file(config: Config, place: Place, verb: str, subject: str, name: str) -> t.Any:
    """Read a file of an earlier step, of the type that its name says; empty if there is none.

    :raises Refused: it is not as a step writes it.
    """
    of_root, limit, check = _FILES[name]
    owners = {0, os.geteuid()} if of_root else {0, os.geteuid(), *_uid(config.user)}
    try:
        with directory(folder(place, verb, subject)) as handle:
            text = read_file(name, owners, limit, dir_fd=handle)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Refused(f"{name}: {error.strerror}") from None
    try:
        found = json.loads(text.decode("utf-8", errors="surrogateescape"))
    except (ValueError, RecursionError):
        raise Refused(f"{name}: is no JSON") from None
    if not check(found):
        raise Refused(f"{name}: has other keys or types than a step writes")
    return found


def _uid(user: str) -> list[int]:
    try:
        return [pwd.getpwnam(user).pw_uid]
    except KeyError:
        return []


def _is_count(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64


def _is_integer(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 64


def _is_number(value: t.Any) -> bool:
    # No comparison is true of NaN.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e20


def _fits(value: t.Any, errors: str) -> bool:
    try:
        return isinstance(value, str) and "\0" not in value and len(value.encode("utf-8", errors)) <= LONGEST
    except UnicodeEncodeError:
        return False


def _is_text(value: t.Any) -> bool:
    return _fits(value, "strict")


def _is_name(value: t.Any) -> bool:
    """Return whether a value can be the name of a file, which may have bytes that are not UTF-8."""
    return _fits(value, "surrogateescape")


def _is_path(value: t.Any) -> bool:
    return _is_name(value) and value.startswith("/") and value[:2] != "//" and posixpath.normpath(value) == value


def _is_kind(value: t.Any) -> bool:
    return isinstance(value, str) and value in _KINDS


def _optional(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _table(key: Check, check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(key(name) and check(item) for name, item in value.items())


def _record(checks: t.Mapping[str, Check], needed: t.Collection[str] = ()) -> Check:
    def check(value: t.Any) -> bool:
        return (
            isinstance(value, dict)
            and value.keys() <= checks.keys()
            and all(name in value for name in needed)
            and all(checks[name](item) for name, item in value.items())
        )

    return check


_COUNTS = (
    *("exit_code", "bytes", "bytes_added", "files", "dumps", "vanished", "snapshots", "removed"),
    *("part", "parts", "next_part", "former"),
)
_is_result = _record(
    {
        "kind": _is_kind,
        **dict.fromkeys(("words", "snapshot"), _is_text),
        **dict.fromkeys(_COUNTS, _is_count),
        **dict.fromkeys(("started", "duration_s"), _is_number),
        "total": _optional(_is_count),
        "lost": _list(_is_text),
        "mounts": _list(_is_path),
    },
    needed=("kind",),
)
_is_dump = _record(
    {
        "kind": _is_kind,
        **dict.fromkeys(("words", "sha256", "snapshot"), _is_text),
        "bytes": _is_count,
        "path": _is_path,
    },
    needed=("kind",),
)
_is_described = _record(
    {
        **dict.fromkeys(("type", "mode", "uid", "gid", "size", "device"), _is_count),
        "mtime": _is_integer,
        **dict.fromkeys(("sha256", "target"), _is_name),
        "attributes": _table(_is_name, lambda value: isinstance(value, str)),
        "links": _list(_is_path),
    },
    needed=("type", "attributes"),
)
_is_sample = _record(
    {
        **dict.fromkeys(("snapshot", "problem"), _is_text),
        "total": _is_count,
        "files": _table(_is_path, _is_described),
        **dict.fromkeys(("missing", "directories", "changed"), _list(_is_path)),
    }
)
PROGRESS_KEYS = ("percent_done", "total_files", "files_done", "total_bytes", "bytes_done", "seconds_remaining")
_FILES: dict[str, tuple[bool, int, Check]] = {
    # whether root's steps alone write it, how many bytes it may have, and what it has to be
    DUMPS: (True, 1 << 20, _table(_is_text, _is_dump)),
    MANIFEST: (True, 1 << 20, _record({"problem": _is_text})),
    PROGRESS: (False, 1 << 16, _record(dict.fromkeys(PROGRESS_KEYS, _is_number))),
    RESULT: (False, 4 << 20, _is_result),
    # Some hundred bytes for each file of the drill, more with its attributes.
    SAMPLE: (False, 64 << 20, _is_sample),
}
