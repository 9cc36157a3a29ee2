# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands apart from their jobs. That others can change a program: test_backup_plan.py."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import hooks

JOB: Any = {
    "name": "home",
    "paths": ["/home"],
    "pre": [{"command": ["mysql", "-phunter2"], "timeout_s": 5}],
    "dumps": [{"name": "wiki", "user": "wiki", "command": ["dump", "hunter2"]}],
}


def test_commands_are_in_the_secret_file_and_nowhere_else() -> None:
    jobs = hooks.public([JOB])
    assert "hunter2" not in json.dumps(jobs) and list(hooks.problems([JOB])) == []
    assert jobs[0]["pre"] == [{"timeout_s": 5, "programs": ["mysql"]}]
    file = hooks.file([JOB], "/etc/x")
    assert (file["path"], file["mode"], file["secret"]) == ("/etc/x/commands.json", "0600", True)
    (job,) = hooks.attach({"jobs": jobs}, json.loads(file["content"]))["jobs"]
    assert job["pre"][0]["command"] == JOB["pre"][0]["command"]
    assert job["dumps"][0] == {**JOB["dumps"][0], "programs": []}


def test_an_unset_option_of_a_hook_is_left_out() -> None:
    spec: Any = {"command": ["mysql"], "user": None, "timeout_s": None}
    assert hooks.public([{"name": "a", "tags": None, "post": [spec]}]) == [
        {"name": "a", "post": [{"programs": ["mysql"]}]}
    ]


def test_an_invalid_command_is_refused_without_its_content() -> None:
    jobs: Any = [{"name": "a", "post": [{"command": ["mysql -phunter2"]}]}]
    found = list(hooks.problems(jobs))
    assert [row["variable"] for row in found] == ["backup_jobs"]
    assert "hunter2" not in json.dumps([found, hooks.public(jobs)])


@pytest.mark.parametrize(
    ("command", "setting"),
    [
        (["env", "-S", "sh /x hunter2"], "env -S"),
        (["env", "-iS", "sh /x"], "env -S"),
        (["/usr/bin/env", "-vSsh /x"], "env -S"),
        (["env", "A=b", "--split-string=sh /x"], "env -S"),
        (["nice", "-n", "5", "env", "--split", "sh /x"], "env -S"),
        (["env", "BASH_ENV=/home/a/hunter2", "bash", "-c", "true"], "BASH_ENV="),
        (["env", "-i", "LD_PRELOAD=/home/a/x", "/bin/true"], "LD_PRELOAD="),
        (["env", "-u", "A", "PYTHONPATH=/home/a", "python3", "-m", "x"], "PYTHONPATH="),
        (["env", "-C", "/srv", "PATH=/home/a:/usr/bin", "tool"], "PATH="),
        (["xargs", "env", "A=b", "NODE_OPTIONS=--require /x", "node"], "NODE_OPTIONS="),
        (["env", "PGPASSFILE=/root/x", "PGHOST=db", "pg_dump", "-S", "LD_X=y"], None),
        (["env", "-u", "S", "tool", "--split"], None),
        (["env", "-C", "/S", "tool"], None),
        (["mysqldump", "--set=PATH=x", "-S", "/run/mysqld/mysqld.sock"], None),
    ],
)
@pytest.mark.parametrize("user", [None, "root", "wiki"])
def test_settings_that_load_code_are_refused(command: list[str], setting: str | None, user: str | None) -> None:
    found = list(hooks.problems([{"name": "a", "pre": [{"command": command, "user": user}]}]))
    expected = [setting] if setting and user != "wiki" else []
    assert [row["problem"].split("`")[1] for row in found] == expected
    assert "hunter2" not in json.dumps(found)


@pytest.mark.parametrize(
    ("command", "programs"),
    [
        (["docker", "/x"], ["docker"]),
        (["/bin/sh", "/srv/x.sh", "/y"], ["/bin/sh", "/srv/x.sh"]),
        (["python3.11", "-IB", "/srv/x.py"], ["python3.11", "/srv/x.py"]),
        (["bash", "-ec", " '/srv/x' hunter2", "/y"], ["bash", "/srv/x"]),
        (["bash", "-o", "pipefail", "-c", "mysql hunter2", "/y"], ["bash"]),
        (["bash", "-eo", "pipefail", "/x.sh", "/y"], ["bash", "/x.sh"]),
        (["bash", "--rcfile", "/rc", "/x.sh", "/y"], ["bash", "/rc", "/x.sh"]),
        (["bash", "--norc", "/x.sh"], ["bash", "/x.sh"]),
        (["python3", "-X", "dev", "/x"], ["python3", "/x"]),
        (["env", "-C", "/home/a", "A=b", "nice", "-n", "5", "/x", "/y"], ["env", "/x"]),
        (["timeout", "-s", "INT", "10m", "bash", "-e", "/x", "/y"], ["timeout", "/x"]),
        (["/usr/bin/nice", "/bin/sh", "/x", "/y"], ["/usr/bin/nice", "/bin/sh", "/x"]),
        (["nice", "mysql", "/y"], ["nice"]),
        (["env", "-i", "mysql", "/y"], ["env"]),
        (["bash", "-e", "own.sh", "/y"], ["bash"]),
        (["busybox", "ash", "/x", "/y"], ["busybox", "/x"]),
        (["php", "-c", "/ini", "/x.php", "/y"], ["php", "/ini", "/x.php"]),
        (["python3", "-m", "x", "/y"], ["python3"]),
        ("sh", []),
    ],
)
def test_the_program_and_its_script_are_named(command: object, programs: list[str]) -> None:
    assert hooks.programs(command) == programs


def test_a_configuration_without_its_commands_is_refused() -> None:
    with pytest.raises(ValueError, match="has 0 commands for pre of home, not 1"):
        hooks.attach({"jobs": hooks.public([{"name": "home", "pre": JOB["pre"]}])}, {})
