# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Commands of hooks and dumps, separated from the jobs: their arguments may be secrets.

They are in a separate file that only root can read. Plans, logs and diffs have the jobs without them.
"""

from __future__ import annotations

import json
import os
import re
import stat
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import value_types as kinds
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.backup_options import BackupJobs
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import open_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import FileRow, JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._core.writable import is_roots, open_to_others

FILE = "commands.json"
_INTERPRETER = re.compile(r"(a|ba|da|k|z)?sh|(python|perl|ruby|node|php)[\d.]*")
_LAUNCHER = re.compile(r"env|nice|ionice|chrt|taskset|timeout|nohup|setsid|stdbuf|time|chronic|busybox")
# Options of interpreters and of launchers whose value is the next word, and those whose value is a file that is run too.
_VALUE = {True: re.compile(r"[-+]\w*[oOXWd]"), False: re.compile(r"-[usefcoS]")}
_READS_TOO = re.compile(r"--(rcfile|init-file|require|import|loader)|-\w*[Ir]")
# Options of launchers whose value is a directory to work in.
_WORKS_IN = ("-C", "--chdir")
# Options of `env` that split a text into a command, and variables by which a program loads or finds code.
_SPLITS = re.compile(r"-(?![uC])[a-zA-Z0]*?S.*|--s.*", re.DOTALL)
_LOADS = re.compile(
    r"(PATH|BASH_ENV|ENV|BASH_FUNC_.*|ZDOTDIR|FPATH|LD_\w+|GCONV_PATH|PYTHON(PATH|HOME|STARTUP|USERBASE|PYCACHEPREFIX|BREAKPOINT)"
    r"|PERL5?(LIB|OPT|DB)|RUBY(LIB|OPT)|NODE_(OPTIONS|PATH)|PHPRC|PHP_INI_SCAN_DIR|CLASSPATH|(JAVA_TOOL|JDK_JAVA)_OPTIONS)=.*",
    re.DOTALL,
)
# A word of a launcher that is no program: a number, a duration, a mask or a variable.
_SETTING = re.compile(r"\d\w*|\w+=.*", re.DOTALL)

Commands = dict[str, dict[str, list[list[str]]]]  # by job, and by what they are for


def public(jobs: t.Sequence[BackupJobs]) -> list[BackupJobs]:
    """Return the jobs without commands, with the programs that root would run. What is not set is left out."""
    return [_public(job) for job in jobs]


def _public(job: BackupJobs) -> BackupJobs:
    row: dict[str, object] = {key: value for key, value in job.items() if value is not None}
    for kind in kinds.WITH_COMMANDS:
        if kind in row:
            row[kind] = [
                {
                    **{key: value for key, value in spec.items() if key != "command" and value is not None},
                    "programs": programs(spec["command"]) if _is_roots(spec) else [],
                }
                for spec in kinds.commands_of(job, kind)
            ]
    return t.cast("BackupJobs", row)


def _is_roots(spec: kinds.CommandRow) -> bool:
    return spec.get("user") in (None, "", "root")


def programs(command: t.Any) -> list[str]:
    """Return the program of a command, and the programs and the script that it starts; no argument that may be a secret."""
    if not kinds.is_command(command):
        return []
    return [command[0], *_started(command)]


def _started(command: t.Sequence[str]) -> t.Iterator[str]:
    """Yield what an interpreter or a launcher starts, if it is an absolute path."""
    starter = os.path.basename(command[0])
    for before, word in zip(command, command[1:]):
        interprets = bool(_INTERPRETER.fullmatch(starter))
        if not interprets and not _LAUNCHER.fullmatch(starter):
            return
        path = _path(word)
        has_value = _VALUE[interprets].fullmatch(before)
        if path and before not in _WORKS_IN:
            yield path
            if interprets and not _READS_TOO.fullmatch(before) and (before, starter[:3]) != ("-c", "php"):
                return
            starter = starter if interprets else os.path.basename(path)
        elif interprets and re.fullmatch(r"-\w*[cm]", before):
            return
        elif not path and word[:1] not in ("-", "+") and not has_value and not _SETTING.fullmatch(word):
            if interprets:
                return
            starter = word


def _path(word: str) -> str:
    """Return the first word of a text, as `-c` takes one, if it is an absolute path."""
    first = next(iter(word.split()), "").strip("'\"")
    return first if first.startswith("/") else ""


def run_files(command: t.Sequence[str]) -> list[str]:
    """Return the files that a command runs, on the host: :func:`programs`, and each argument that is the path of a program."""
    found = [*programs(command)]
    for number, word in enumerate(command[1:], 1):
        found += _started(command[number:])
        path = _path(word)
        if path and _is_program(path):
            found.append(path)
    return [*dict.fromkeys(found)]


def _is_program(path: str) -> bool:
    """Return whether a file is executable, or a script."""
    try:
        with open(open_file(os.path.realpath(path)), "rb") as file:
            return bool(os.fstat(file.fileno()).st_mode & 0o111) or file.read(2) == b"#!"
    except (OSError, ValueError):
        return False


def problems(jobs: t.Sequence[BackupJobs]) -> t.Iterator[Problem]:
    """Yield a problem for each command that is none, or hides from root what it runs; without its content."""
    for job, kind, spec in _specs(jobs):
        if not kinds.is_command(spec["command"]):
            message = f"has in {job['name']} in {kind} a command that is not {kinds.COMMAND.description}"
            yield problem("backup_jobs", message, kinds.COMMAND.remedy)
        elif _is_roots(spec):
            for setting in _hiding(spec["command"]):
                message = f"has in {job['name']} in {kind} a command with `{setting}`, by which root could run another user's code"
                yield problem("backup_jobs", message, "name a script that only root can write, and let it set this")


def _hiding(command: t.Sequence[str]) -> t.Iterator[str]:
    """Yield the settings of `env` in a command by which what it starts is not to be seen; of variables the name alone."""
    for number, word in enumerate(command):
        if os.path.basename(word) != "env":
            continue
        before = ""
        for setting in command[number + 1 :]:
            is_value = before in ("-u", "-C", "--unset", "--chdir")
            if _SPLITS.fullmatch(setting) and not is_value:
                yield "env -S"
                break
            if _LOADS.fullmatch(setting):
                yield setting.partition("=")[0] + "="
            elif not (is_value or setting.startswith("-") or _SETTING.fullmatch(setting)):
                break
            before = setting


def _specs(jobs: t.Sequence[BackupJobs]) -> t.Iterator[tuple[BackupJobs, str, kinds.CommandRow]]:
    for job in jobs:
        for kind in kinds.WITH_COMMANDS:
            for spec in kinds.commands_of(job, kind):
                yield job, kind, spec


def file(jobs: t.Sequence[BackupJobs], folder: str) -> FileRow:
    """Return the file of commands as config_files takes it."""
    return {"path": f"{folder}/{FILE}", "content": text(jobs), "mode": "0600", "secret": True}


def text(jobs: t.Sequence[BackupJobs]) -> str:
    """Return the content of the file of commands."""
    found: Commands = {}
    for job, kind, spec in _specs(jobs):
        found.setdefault(str(job["name"]), {}).setdefault(kind, []).append(list(spec["command"]))
    return json.dumps(found, indent=1, sort_keys=True) + "\n"


def attach(raw: JsonObject, commands: Commands) -> JsonObject:
    """Return the configuration with the commands in their places.

    :raises ValueError: the numbers of commands differ.
    """
    jobs = []
    for job in raw.get("jobs", []):
        row = dict(job)
        for kind in kinds.WITH_COMMANDS:
            specs, found = job.get(kind) or [], commands.get(job["name"], {}).get(kind, [])
            if len(specs) != len(found):
                raise ValueError(f"{FILE} has {len(found)} commands for {kind} of {job['name']}, not {len(specs)}")
            row[kind] = [{**spec, "command": command} for spec, command in zip(specs, found)]
        jobs.append(row)
    return {**raw, "jobs": jobs}


def exposed(path: str, secret: bool = False) -> list[str]:
    """Return what users other than root can change of a file that root relies on: the file and the directories above it.

    :param secret: no other user may read it either.
    """
    found = open_to_others(path)
    try:
        status = os.stat(path)
    except OSError:
        return found
    readable = secret and stat.S_IMODE(status.st_mode) & 0o077
    return [*found, *([path] if readable or not is_roots(status) else [])]
