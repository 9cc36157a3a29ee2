# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import value_types as kinds
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.request import separate

from tests.unit.support.backup.hosts import whole_request

HOOK = {"command": ["docker", "pause", "web"]}
DUMP = {"name": "wiki", "command": ["sh", "-c", "pg_dump wiki |\n gzip"], "user": "postgres", "timeout_s": 60}


def messages(**changes: Any) -> list[str]:
    public, _files, problems = separate(whole_request(**changes))
    found = [*problems, *kinds.problems(public)]
    return [f"{row['variable']}: {row['problem']}; {row['remedy']}" for row in found]


def test_a_valid_request_has_no_problems() -> None:
    job = {
        "name": "home",
        "paths": ["/home"],
        "timeout_s": 3600,
        "one_file_system": True,
        "pre": [HOOK],
        "dumps": [DUMP],
    }
    assert messages(jobs=[{**job, "tags": None}], forget_schedule="", notify_command=["mail", "", "root"]) == []


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"timeout_s": -5}, "has in home a timeout_s that is not a number from 0 on; write it as 3600"),
        ({"paths": ["/home\nx"]}, "a paths that is not a list of lines"),
        ({"schedule": "daily\nExecStart=x"}, "a schedule that is not one line of text; take line breaks away"),
        (
            {"pre": [{"command": "docker pause x"}]},
            "in pre a command that is not a list of words; write the program first",
        ),
        ({"pre": [{"command": ["docker pause x"]}]}, "in pre a command that is not a list of words"),
        ({"post": [{"command": ["x", "\0"]}]}, "in post a command that is not a list of words"),
        ({"post_failure": [{**HOOK, "timeout_s": -60}]}, "in post_failure a timeout_s that is not a number"),
        ({"dumps": [{**DUMP, "filename": "a\nb"}]}, "in dumps a filename that is not one line of text"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_job(job: dict[str, Any], message: str) -> None:
    (only,) = messages(jobs=[{"name": "home", "paths": ["/home"], **job}])
    assert only.startswith("backup_jobs: ") and message in only


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"notify_command": ["sh", "a\nExecStartPre=+/bin/x"]},
            "backup_notify_command: is not a list of lines of text; write it as [one",
        ),
        ({"schedule": "daily\n"}, "backup_schedule: is not one line of text"),
        ({"textfile_directory": "/x\ny"}, "backup_textfile_directory: is not one line"),
    ],
)
def test_a_variable_with_a_line_break_is_refused(changes: dict[str, Any], message: str) -> None:
    (only,) = messages(**changes)
    assert only.startswith(message)


def test_no_word_of_a_command_is_reported() -> None:
    assert "secret" not in str(messages(jobs=[{"name": "home", "pre": [{"command": "x --password=secret"}]}]))
