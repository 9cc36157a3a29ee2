# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values that no type of the argument spec refuses; those of commands are in _backup/hooks.py.

A text with a line break would add a line to a unit. Other values would fail in the night.
No message contains a value, since commands may have secrets.
"""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup.backup_options import (
    BackupJobs,
    BackupJobsDumps,
    BackupOptions,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Planned, Release

HOOKS = ("pre", "post", "post_failure", "always")
WITH_COMMANDS = ("dumps", *HOOKS)
# Lines of units that the role itself gives.
_LINES_OF_UNITS = ("hardening", "header")


class CommandRow(BackupJobsDumps, total=False):
    """A hook or a dump. Without its command it has the programs that root would run."""

    programs: list[str]


class BackupRequest(BackupOptions):
    """A request: the options, and what ``__backup_context`` adds."""

    packages: dict[str, list[str]]
    program: str
    release: Release
    hardening: str
    header: str
    former_host: str
    notify: bool
    planned: Planned


def commands_of(job: BackupJobs, kind: str) -> list[CommandRow]:
    """Return the hooks of a kind, or the dumps, of a job."""
    return t.cast("list[CommandRow]", job.get(kind) or [])


class Kind(t.NamedTuple):
    """A kind of values: its description, and the remedy for a value of another kind."""

    description: str
    remedy: str


TEXT = Kind("one line of text", "take line breaks away")
TEXTS = Kind("a list of lines of text", "write it as [one, another]")
COUNT = Kind("a number from 0 on", "write it as 3600, without quotes")
COMMAND = Kind("a list of words", "write the program first and each argument by itself: [docker, pause, web]")


def is_count(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_command(value: t.Any) -> bool:
    """Return whether a value is a command. Its words may have line breaks, as a script has, but no NUL."""
    if not isinstance(value, list) or not all(isinstance(word, str) and "\0" not in word for word in value):
        return False
    return bool(value and is_program(value[0]))


def is_program(word: str) -> bool:
    """Return whether a word can be a program: a whole command in one string has blanks."""
    return bool(word) and not any(letter.isspace() for letter in word)


def problems(request: BackupRequest) -> t.Iterator[Problem]:
    """Yield a problem for each value that does not fit; the request has no commands any more."""
    for key, kind in _unfit({key: value for key, value in request.items() if key not in _LINES_OF_UNITS}):
        # The numbers of the role have limits of their own (_backup/checks.py).
        if kind != COUNT:
            yield problem(f"backup_{key}", f"is not {kind.description}", kind.remedy)
    for job in request["jobs"]:
        for key, kind in _unfit(job):
            yield problem("backup_jobs", f"has in {job['name']} a {key} that is not {kind.description}", kind.remedy)
        for option in WITH_COMMANDS:
            for spec in commands_of(job, option):
                for key, kind in _unfit(spec):
                    text = f"has in {job['name']} in {option} a {key} that is not {kind.description}"
                    yield problem("backup_jobs", text, kind.remedy)


def _unfit(row: t.Mapping[str, object]) -> t.Iterator[tuple[str, Kind]]:
    """Yield the texts with a control character, and the numbers below 0."""
    for key, value in row.items():
        if isinstance(value, str) and not _is_line(value):
            yield key, TEXT
        elif isinstance(value, list) and not all(_is_line(word) for word in value if isinstance(word, str)):
            yield key, TEXTS
        elif isinstance(value, int) and value < 0:
            yield key, COUNT


def _is_line(text: str) -> bool:
    return not any(ord(letter) < 32 or ord(letter) == 127 for letter in text)
