# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Of what kind each value of a request for backups is; of commands _backup/hooks.py tells it.

A value of another kind is no matter of taste: a command that is one text, or a time that is one, would be found out in the night.
What a value holds is never told, since commands may have secrets.
"""

from __future__ import annotations

import typing as t

Row = dict[str, t.Any]
HOOKS = ("pre", "post", "post_failure", "always")


class Kind(t.NamedTuple):
    """What a value has to be, and what to do where it is not."""

    words: str
    remedy: str
    fits: t.Callable[[t.Any], bool]


def _is_text(value: t.Any) -> bool:
    return isinstance(value, str) and not any(ord(letter) < 32 or ord(letter) == 127 for letter in value)


def is_count(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_command(value: t.Any) -> bool:
    """Return whether it is a command. Its arguments may have line breaks, as a script has; no program takes a NUL."""
    if not isinstance(value, list) or not all(isinstance(word, str) and "\0" not in word for word in value):
        return False
    return bool(value and value[0]) and not any(letter.isspace() for letter in value[0])


def _is_texts(value: t.Any) -> bool:
    return isinstance(value, list) and all(_is_text(word) for word in value)


def _is_rows(value: t.Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def _is_table(value: t.Any) -> bool:
    return isinstance(value, dict)


def _is_switch(value: t.Any) -> bool:
    return isinstance(value, bool)


TEXT = Kind("one line of text", "take line breaks away", _is_text)
TEXTS = Kind("a list of lines of text", "write it as [one, another]", _is_texts)
COUNT = Kind("a number from 0 on", "write it as 3600, without quotes", is_count)
SWITCH = Kind("true or false", "write it without quotes", _is_switch)
COMMAND = Kind(
    "a list of words", "write the program first and each argument by itself: [docker, pause, web]", _is_command
)
ROWS = Kind("a list of entries", "write it as docs/backup.md does", _is_rows)
TABLE = Kind("a table", "write it as {daily: 7}", _is_table)

GENERAL = {
    **dict.fromkeys(("host", "user", "textfile_directory", "schedule"), TEXT),
    **{f"{verb}_schedule": TEXT for verb in ("forget", "prune", "check", "drill")},
    **dict.fromkeys(("exclude_sets", "excludes", "dataset_paths", "drill_paths", "notify_command"), TEXTS),
    **dict.fromkeys(("retention", "max_age_h"), TABLE),
    "jobs": ROWS,
}
JOB = {
    **dict.fromkeys(("name", "repository", "host", "schedule"), TEXT),
    **dict.fromkeys(("paths", "excludes", "exclude_sets", "tags"), TEXTS),
    **dict.fromkeys(("exclude_caches", "one_file_system"), SWITCH),
    **dict.fromkeys(("dumps", *HOOKS), ROWS),
    **dict.fromkeys(("timeout_s", "max_age_h"), COUNT),
    "retention": TABLE,
}
OF_COMMANDS = {
    **dict.fromkeys(("name", "filename", "user"), TEXT),
    "timeout_s": COUNT,
    "may_be_empty": SWITCH,
}


def faults(request: t.Mapping[str, t.Any]) -> t.Iterator[Row]:
    """Return a problem for each value of a wrong type."""
    general = list(_unfit(request, GENERAL))
    for key, kind in general:
        yield fault(f"backup_{key}", f"is not {kind.words}", kind.remedy)
    if "jobs" in {key for key, _kind in general}:
        return
    for job in request["jobs"]:
        unfit = list(_unfit(job, JOB))
        for key, kind in unfit:
            yield fault("backup_jobs", f"has in {job.get('name')} a {key} that is not {kind.words}", kind.remedy)
        for what in sorted({"dumps", *HOOKS} - {key for key, _kind in unfit}):
            for spec in job.get(what) or []:
                for key, kind in _unfit(spec, OF_COMMANDS):
                    problem = f"has in {job.get('name')} in {what} a {key} that is not {kind.words}"
                    yield fault("backup_jobs", problem, kind.remedy)


def _unfit(row: t.Mapping[str, t.Any], kinds: t.Mapping[str, Kind]) -> t.Iterator[tuple[str, Kind]]:
    """Return the values that do not fit; a missing one is no problem."""
    for key, kind in kinds.items():
        if row.get(key) is not None and not kind.fits(row[key]):
            yield key, kind


def fault(variable: str, problem: str, remedy: str) -> Row:
    return {"ok": False, "variable": variable, "problem": problem, "remedy": remedy}
