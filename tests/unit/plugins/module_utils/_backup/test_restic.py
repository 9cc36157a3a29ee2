# SPDX-License-Identifier: GPL-3.0-or-later
"""How restic is called: its arguments, its environment, and that it ends when it has to."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import restic as running
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import Repository, Restic
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic_outcome import judge

PASSWORD = "correct horse battery"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {
        "address": "rest:https://me:of-rest@nas/",
        "password": PASSWORD,
        "environment": '{"AWS_KEY": "x"}',
    }.items():
        (tmp_path / f"nas.{name}").write_text(text + "\n")
    return tmp_path


def fake_restic(folder: Path, script: str, version: tuple[int, ...] = (0, 18)) -> Restic:
    program = folder / "restic"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Restic(str(program), version, Repository("nas", str(folder)))


def test_no_secret_is_in_arguments_or_environment(folder: Path) -> None:
    done = fake_restic(folder, 'echo "$@"; env').run("backup", "/home")
    assert PASSWORD not in done.out and "of-rest" not in done.out
    assert f"RESTIC_PASSWORD_FILE={folder}/nas.password" in done.out and "AWS_KEY=x" in done.out


def test_root_passes_secrets_by_environment_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    restic = Restic("restic", (0, 18), Repository("nas", str(folder)), user="nobody")
    command, environment = restic.command("backup"), restic.environment()
    assert command[0] == "setpriv" and "--reuid=nobody" in command and "--ambient-caps=+dac_read_search" in command
    assert PASSWORD not in " ".join(command) and environment["RESTIC_PASSWORD"] == PASSWORD


def test_old_versions_are_run_again_while_it_is_locked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_AGAIN_S", 0.1)
    script = f'cd {folder}; echo x >> tries; [ $(wc -l < tries) -ge 3 ] && exit 0; echo "repository is already locked by PID 1" >&2; exit 1'
    assert judge(fake_restic(folder, script, (0, 14)).run("prune", retry_lock_s=60)).ok
    assert (folder / "tries").read_text() == "x\n" * 3
    assert "--retry-lock" not in fake_restic(folder, "", (0, 14)).command("prune", retry_lock_s=60)
    assert fake_restic(folder, "", (0, 16)).command("prune", retry_lock_s=60)[-3:] == ["--retry-lock", "60s", "prune"]


def test_a_hanging_restic_is_ended_in_time(folder: Path) -> None:
    started = time.monotonic()
    done = fake_restic(folder, "exec sleep 60").run("check", timeout_s=0.5)
    assert (done.timed_out, judge(done).kind) == (True, "timeout")
    assert time.monotonic() - started < 30
    assert done.free == -1


def test_room_is_looked_at_where_the_repository_lies(folder: Path) -> None:
    restic = fake_restic(folder, "exec sleep 60")
    Path(restic.repository.file("address")).write_text(f"local:{folder}\n")
    assert restic.run("check", timeout_s=0.2).free > 0


def test_long_output_keeps_its_beginning_and_its_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_LIMIT", 3)
    done = fake_restic(folder, "for n in $(seq 100); do echo $n >&2; done").run("x")
    assert (done.err.split(), done.dropped) == (["1", "2", "3", "98", "99", "100"], 94)
    assert fake_restic(folder, "echo 1 >&2").run("x").dropped == 0


@pytest.mark.parametrize("how", ["on_line", "on_block"])
def test_an_error_in_a_callback_fails_the_run_at_its_end(folder: Path, how: str) -> None:
    restic = fake_restic(folder, f"seq 1000000; touch {folder}/ended")

    def take(piece: object) -> None:
        raise ValueError("not what was expected")

    with pytest.raises(ValueError, match="not what was expected"):
        restic.run("ls", timeout_s=60, **{how: take})  # type: ignore[arg-type]
    assert (folder / "ended").exists()


@pytest.mark.parametrize("version", [(0, 14), (0, 18)])
def test_slow_reading_loses_no_output(folder: Path, monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...]) -> None:
    monkeypatch.setattr(running, "_PATIENCE_S", 0.01)
    taken = []

    def take(line: str) -> None:
        time.sleep(0.02)
        taken.append(line)

    fake_restic(folder, "seq 30", version).run("ls", on_line=take)
    assert taken == [f"{number}" for number in range(1, 31)]


def test_sftp_never_prompts_and_trusts_only_given_keys(folder: Path) -> None:
    (folder / "nas.address").write_text("sftp://me@nas:2222//backup\n")
    command = Repository("nas", str(folder), ssh=True).ssh_command()
    for part in (
        "ssh me@nas -p 2222",
        f"-i {folder}/nas.ssh_key",
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        f"UserKnownHostsFile={folder}/nas.known_hosts",
    ):
        assert part in command
    assert running.parse_sftp("sftp:me@nas:/backup") == ("me@nas", "22")
    assert running.parse_sftp("sftp://me@[fd00::1]:2222//backup") == ("me@fd00::1", "2222")
    assert running.parse_sftp("sftp://me:password@nas/backup") == ("", "")
