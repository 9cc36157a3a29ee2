# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of hooks and dumps; when they run, and what follows from how they end: test__backup_job.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import commands


@pytest.fixture(autouse=True)
def unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment of a unit with a user of its own."""
    for name, value in (
        ("HOME", "/nonexistent"),
        ("USER", "rigwright-backup"),
        ("CREDENTIALS_DIRECTORY", "/run/credentials/x"),
    ):
        monkeypatch.setenv(name, value)


ASK = 'echo "$HOME $USER $LOGNAME ${CREDENTIALS_DIRECTORY:-none} $RIGWRIGHT_BACKUP_JOB"'


@pytest.mark.parametrize(("user", "home"), [("", "/root root root"), ("daemon", "/usr/sbin daemon daemon")])
def test_commands_have_the_home_of_their_user_and_no_secret(open_path: Path, user: str, home: str) -> None:
    output = open_path / "told"
    output.touch()
    output.chmod(0o666)
    problem = commands.run_hook({"command": ["sh", "-c", f"{ASK} > {output}"], "user": user}, "pre[0]", "home", {})
    assert problem is None
    assert output.read_text() == f"{home} none home\n"
    dump = commands.Dump({"command": ["sh", "-c", ASK], "user": user})
    with output.open("wb") as stdin:
        assert dump.feed(stdin), dump.problem
    assert output.read_text() == f"{home} none \n"


@pytest.mark.parametrize("command", [["false", "secret"], ["/no/such/secret", "x"], ["sleep", "secret"]])
def test_no_word_of_a_command_is_in_its_failure(command: list[str]) -> None:
    problem = commands.run_hook({"command": command, "timeout_s": 5}, "pre[1]", "home", {})
    assert problem and problem.message.startswith("the hook pre[1] ") and "secret" not in problem.message
    dump = commands.Dump({"command": command})
    with Path("/dev/null").open("wb") as stdin:
        assert not dump.feed(stdin) and "secret" not in dump.problem


@pytest.mark.parametrize("message", ["x\0y", "\ud800", "x" * (1 << 18)], ids=["NUL", "surrogate", "long"])
def test_an_invalid_argument_fails_hook_and_dump(message: str) -> None:
    problem = commands.run_hook({"command": ["true"]}, "always[0]", "home", {"words": message})
    assert problem and problem.kind == "hook" and problem.message.startswith("the hook always[0] cannot be run: ")
    dump = commands.Dump({"command": ["true", "x\0y"]})
    with Path("/dev/null").open("wb") as stdin:
        assert not dump.feed(stdin) and dump.problem.startswith("cannot be run: ")


@pytest.mark.parametrize(("mode", "owner"), [(0o777, 0), (0o775, 0), (0o755, 1234)])
@pytest.mark.parametrize("subject", ["hook", "script", "above"])
def test_root_runs_nothing_that_others_can_change(tmp_path: Path, subject: str, mode: int, owner: int) -> None:
    hook = tmp_path / "bin/hook"
    hook.parent.mkdir(mode=0o755)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    harmed = hook.parent if subject == "above" else hook
    harmed.chmod(mode)
    os.chown(harmed, owner, owner)
    command = ["sh", "-e", str(hook)] if subject == "script" else [str(hook)]
    problem = commands.run_hook({"command": command}, "pre[0]", "home", {})
    assert problem and problem.kind == "exposed" and str(harmed) in problem.message
    dump = commands.Dump({"command": command})
    with Path("/dev/null").open("wb") as stdin:
        assert not dump.feed(stdin) and dump.kind == "exposed"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "before",
    [
        *(["bash", "-eo", "pipefail"], ["bash", "--norc"], ["python3", "-X", "dev"], ["nice", "-n", "5", "sh"]),
        *(["env"], ["nice"], ["timeout", "9"], ["xargs"], ["bash", "-c"], ["/bin/sh", "-ec"]),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("is_there", [True, False])
def test_root_runs_no_script_of_another_user_whatever_starts_it(
    tmp_path: Path, before: list[str], is_there: bool
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 4002, 4002)
    script = theirs / "x"
    if is_there or before == ["xargs"]:
        script.write_text("#!/bin/sh\n")
        script.chmod(0o755)
    problem = commands.run_hook({"command": [*before, str(script)]}, "pre[0]", "home", {})
    assert problem and problem.kind == "exposed" and str(theirs) in problem.message


def test_files_that_a_command_only_reads_may_be_anybodys(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_text("rows")
    os.chown(data, 4002, 4002)
    own = tmp_path / "own.sh"
    own.write_text("true\n")
    for command in (["cat", str(data)], ["sh", "-e", str(own), str(data)], ["env", "-C", "/tmp", "cat", str(data)]):
        assert commands.run_hook({"command": command}, "pre[0]", "home", {}) is None, command


def test_a_missing_user_is_reported() -> None:
    problem = commands.run_hook({"command": ["true"], "user": "nobody-here"}, "pre[0]", "home", {})
    assert problem and "there is no user nobody-here" in problem.message
    dump = commands.Dump({"command": ["true"], "user": "nobody-here"})
    assert not dump.feed(open("/dev/null", "wb")) and "cannot be run" in dump.problem  # noqa: SIM115
