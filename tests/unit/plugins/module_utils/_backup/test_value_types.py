# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import hooks
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import value_types as kinds

from tests.unit.support.backup.hosts import CHECKOUT, request

HOOK = {"command": ["docker", "pause", "web"]}
DUMP = {"name": "wiki", "command": ["sh", "-c", "pg_dump wiki |\n gzip"], "user": "postgres", "timeout_s": 60}


def messages(**changes: Any) -> list[str]:
    found = [*hooks.problems(changes.get("jobs")), *kinds.problems(request(**changes))]
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
    assert messages(jobs=[{**job, "tags": None}], notify_command=["mail", "", "root"]) == []


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"timeout_s": "3600"}, "has in home a timeout_s that is not a number from 0 on; write it as 3600"),
        ({"timeout_s": -5}, "a timeout_s that is not a number"),
        ({"timeout_s": True}, "a timeout_s that is not a number"),
        ({"paths": "/home"}, "a paths that is not a list"),
        ({"paths": ["/home\nx"]}, "a paths that is not a list of lines"),
        ({"one_file_system": "no"}, "a one_file_system that is not true or false"),
        ({"schedule": "daily\nExecStart=x"}, "a schedule that is not one line of text; take line breaks away"),
        ({"retention": 7}, "a retention that is not a table"),
        ({"pre": "docker pause x"}, "a pre that is not a list of entries"),
        (
            {"pre": [{"command": "docker pause x"}]},
            "in pre a command that is not a list of words; write the program first",
        ),
        ({"pre": [{"command": ["docker pause x"]}]}, "in pre a command that is not a list of words"),
        ({"pre": [{"command": ["x", 5]}]}, "in pre a command that is not a list of words"),
        ({"post": [{"command": ["x", "\0"]}]}, "in post a command that is not a list of words"),
        ({"always": [{}]}, "in always a command that is not a list of words"),
        ({"post_failure": [{**HOOK, "timeout_s": "60"}]}, "in post_failure a timeout_s that is not a number"),
        ({"dumps": [{**DUMP, "may_be_empty": "yes"}]}, "in dumps a may_be_empty that is not true or false"),
        ({"dumps": [{**DUMP, "filename": 5}]}, "in dumps a filename that is not one line of text"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_job(job: dict[str, Any], message: str) -> None:
    (only,) = messages(jobs=[{"name": "home", "paths": ["/home"], **job}])
    assert only.startswith("backup_jobs: ") and message in only


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"notify_command": "mail root"}, "backup_notify_command: is not a list of lines of text; write it as [one"),
        ({"notify_command": ["sh", "a\nExecStartPre=+/bin/x"]}, "backup_notify_command: is not a list of lines"),
        ({"schedule": "daily\n"}, "backup_schedule: is not one line of text"),
        ({"textfile_directory": "/x\ny"}, "backup_textfile_directory: is not one line"),
        ({"retention": [7]}, "backup_retention: is not a table"),
        ({"jobs": {"home": {}}}, "backup_jobs: is not a list of entries"),
        ({"excludes": "*.iso"}, "backup_excludes: is not a list"),
    ],
)
def test_a_variable_of_the_wrong_type_is_refused(changes: dict[str, Any], message: str) -> None:
    (only,) = messages(**changes)
    assert only.startswith(message)


def test_no_word_of_a_command_is_reported() -> None:
    assert "secret" not in str(messages(jobs=[{"name": "home", "pre": [{"command": "x --password=secret"}]}]))


def test_every_option_of_a_job_has_a_kind() -> None:
    spec = yaml.safe_load((CHECKOUT / "roles/backup/meta/argument_specs.yml").read_text())
    options = spec["argument_specs"]["main"]["options"]["backup_jobs"]["options"]
    assert {*options} == {*kinds.JOB}
    assert {key for kind in ("dumps", *kinds.HOOKS) for key in options[kind]["options"]} == {
        *kinds.OF_COMMANDS,
        "command",
    }
