# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The type of each value in a request for backups; those of commands are in _backup/hooks.py.

A value of the wrong type, such as a command in one string, would otherwise fail in the night.
No message contains a value, since commands may have secrets.
"""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem

HOOKS = ("pre", "post", "post_failure", "always")


class Kind(t.NamedTuple):
    """A type of values: its description, and the remedy for a value of another type."""

    description: str
    remedy: str
    fits: t.Callable[[t.Any], bool]


def _is_text(value: t.Any) -> bool:
    return isinstance(value, str) and not any(ord(letter) < 32 or ord(letter) == 127 for letter in value)


def is_count(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_command(value: t.Any) -> bool:
    """Return whether a value is a command. Its words may have line breaks, as a script has, but no NUL."""
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


def problems(request: t.Mapping[str, t.Any]) -> t.Iterator[Problem]:
    """Yield a problem for each value of the wrong type."""
    general = list(_unfit(request, GENERAL))
    for key, kind in general:
        yield problem(f"backup_{key}", f"is not {kind.description}", kind.remedy)
    if "jobs" in {key for key, _kind in general}:
        return
    for job in request["jobs"]:
        unfit = list(_unfit(job, JOB))
        for key, kind in unfit:
            yield problem(
                "backup_jobs", f"has in {job.get('name')} a {key} that is not {kind.description}", kind.remedy
            )
        for option in sorted({"dumps", *HOOKS} - {key for key, _kind in unfit}):
            for spec in job.get(option) or []:
                for key, kind in _unfit(spec, OF_COMMANDS):
                    text = f"has in {job.get('name')} in {option} a {key} that is not {kind.description}"
                    yield problem("backup_jobs", text, kind.remedy)


def _unfit(row: t.Mapping[str, t.Any], kinds: t.Mapping[str, Kind]) -> t.Iterator[tuple[str, Kind]]:
    """Yield the values of the wrong type; a missing value is none."""
    for key, kind in kinds.items():
        if row.get(key) is not None and not kind.fits(row[key]):
            yield key, kind
