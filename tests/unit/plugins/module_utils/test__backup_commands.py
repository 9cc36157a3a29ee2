# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of hooks and dumps; when they run, and what follows from how they end: test__backup_job.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils import _backup_commands as commands


@pytest.fixture(autouse=True)
def unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a unit with a user of its own."""
    for name, value in (
        ("HOME", "/nonexistent"),
        ("USER", "rigwright-backup"),
        ("CREDENTIALS_DIRECTORY", "/run/credentials/x"),
    ):
        monkeypatch.setenv(name, value)


ASK = 'echo "$HOME $USER $LOGNAME ${CREDENTIALS_DIRECTORY:-none} $RIGWRIGHT_BACKUP_JOB"'


@pytest.mark.parametrize(("user", "home"), [("", "/root root root"), ("daemon", "/usr/sbin daemon daemon")])
def test_hooks_and_dumps_have_the_home_of_their_user_and_no_secret(open_path: Path, user: str, home: str) -> None:
    told = open_path / "told"
    told.touch()
    told.chmod(0o666)
    problem = commands.run_hook({"command": ["sh", "-c", f"{ASK} > {told}"], "user": user}, "home", {})
    assert problem == ""
    assert told.read_text() == f"{home} none home\n"
    dump = commands.Dump({"command": ["sh", "-c", ASK], "user": user})
    with told.open("wb") as stdin:
        assert dump.feed(stdin), dump.problem
    assert told.read_text() == f"{home} none \n"


def test_of_a_command_only_the_program_is_told() -> None:
    for command in (["false", "--password=secret"], ["/no/such", "secret"], ["sleep", "secret"]):
        problem = commands.run_hook({"command": command, "timeout_s": 5}, "home", {})
        assert command[0] in problem and "secret" not in problem


def test_a_user_who_is_not_there_is_told() -> None:
    assert "cannot be run" in commands.run_hook({"command": ["true"], "user": "nobody-here"}, "home", {})
    dump = commands.Dump({"command": ["true"], "user": "nobody-here"})
    assert not dump.feed(open("/dev/null", "wb")) and "cannot be run" in dump.problem  # noqa: SIM115
