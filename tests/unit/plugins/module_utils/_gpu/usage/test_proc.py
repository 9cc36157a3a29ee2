# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes by pid and start, with their owners."""

from __future__ import annotations

import json
import pwd
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.proc import (
    CONTAINERS,
    MISSING,
    Processes,
    parse_stat,
    read_containers,
    user_name,
)

USERS = {1000: "alice", 1001: "bob"}
ID = "ab" * 32


def add(root: Path, pid: int, start: int, uid: int, group: str, command: str = "python3") -> None:
    process = root / f"proc/{pid}"
    process.mkdir(parents=True, exist_ok=True)
    (process / "stat").write_text(f"{pid} ({command}) S {' '.join(['1'] * 18)} {start} 0 0\n")
    (process / "status").write_text(f"Name:\tx\nUid:\t{uid}\t0\t0\t0\n")
    (process / "cgroup").write_text(f"0::{group}\n")


def processes(root: Path) -> Processes:
    return Processes(Tree(str(root)), lambda uid: USERS.get(uid, ""), 100)


def test_process_has_start_command_and_owner(tmp_path: Path) -> None:
    add(tmp_path, 42, 1234, 1000, "/user.slice/user-1000.slice/session-3.scope")
    sessions = tmp_path / "run/systemd/sessions"
    sessions.mkdir(parents=True)
    (sessions / "3").write_text("UID=1000\nSERVICE=sshd\n")
    found = processes(tmp_path).read([42], uptime=20.0)[42]
    assert (found.start, found.command, found.owner.user, found.owner.kind) == (12.34, "python3", "alice", "ssh")


def test_pid_of_another_user_is_another_process(tmp_path: Path) -> None:
    reader = processes(tmp_path)
    add(tmp_path, 42, 1000, 1000, "/")
    assert reader.read([42], uptime=20.0)[42].owner.user == "alice"
    add(tmp_path, 42, 3000, 1001, "/")
    found = reader.read([42], uptime=40.0)[42]
    assert (found.start, found.owner.user) == (30.0, "bob")


def test_pid_reused_after_nvml_answered_stays_the_earlier_ones(tmp_path: Path) -> None:
    reader = processes(tmp_path)
    add(tmp_path, 42, 1000, 1000, "/")
    reader.read([42], uptime=20.0)
    add(tmp_path, 42, 4100, 1001, "/")
    assert reader.read([42], uptime=40.0)[42].owner.user == "alice"
    assert processes(tmp_path).read([42], uptime=40.0)[42] == MISSING


def test_process_that_ended_keeps_its_owner_for_a_sample(tmp_path: Path) -> None:
    reader = processes(tmp_path)
    add(tmp_path, 42, 1000, 1000, "/")
    reader.read([42], uptime=20.0)
    (tmp_path / "proc/42/stat").unlink()
    assert reader.read([42], uptime=35.0)[42].owner.user == "alice"
    assert reader.read([], uptime=50.0) == {}
    assert reader.read([42], uptime=65.0)[42] == MISSING


def test_kind_outlives_the_login_session(tmp_path: Path) -> None:
    add(tmp_path, 42, 1000, 1000, "/user.slice/user-1000.slice/session-3.scope")
    sessions = tmp_path / "run/systemd/sessions"
    sessions.mkdir(parents=True)
    (sessions / "3").write_text("SERVICE=sshd\n")
    reader = processes(tmp_path)
    reader.read([42], uptime=20.0)
    (sessions / "3").unlink()
    assert reader.read([42], uptime=35.0)[42].owner.kind == "ssh"


def test_process_of_another_namespace_is_unknown(tmp_path: Path) -> None:
    assert processes(tmp_path).read([42], uptime=20.0)[42] == MISSING


def test_stat_of_a_hostile_name_is_read() -> None:
    fields = " ".join(["1"] * 18)
    assert parse_stat(f"42 (a) R 9 (\x1b[2J) S {fields} 500 0\n", 100) == ("a) R 9 (?[2J", 5.0)
    assert parse_stat("", 100) is None
    assert parse_stat("42 (a) S 1", 100) is None


def test_name_of_a_group_is_printable(tmp_path: Path) -> None:
    add(tmp_path, 42, 100, 1000, "/user.slice/user-1000.slice/user@1000.service/\x1b[2J\u202e.service")
    assert processes(tmp_path).read([42], 10.0)[42].owner.name == "?[2J?.service"
    add(tmp_path, 43, 100, 61200, "/system.slice/jupyter-\x85x.service")
    assert processes(tmp_path).read([43], 10.0)[43].owner.user == "?x"


def test_uid_without_a_name_has_none() -> None:
    assert user_name(0) == "root"
    assert user_name(4_000_000_000) == ""


def test_uid_that_another_account_has_now_is_its(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {1777: "alice2"}
    monkeypatch.setattr("pwd.getpwuid", lambda uid: pwd.struct_passwd((names[uid], "x", uid, uid, "", "/", "/bin/sh")))
    assert user_name(1777) == "alice2"
    names[1777] = "carol"
    assert user_name(1777) == "carol"


def test_memory_of_an_ended_process_is_not_that_of_the_next_pid(tmp_path: Path) -> None:
    reader = processes(tmp_path)
    add(tmp_path, 42, 1000, 1000, "/")
    reader.read([42], 20.0, {42: 20000})
    add(tmp_path, 42, 3000, 1001, "/", "bash")
    leaked = reader.read([42], 40.0, {42: 20000})[42]
    assert (leaked.owner.user, leaked.command, leaked.ended) == ("alice", "python3", True)
    assert reader.read([42], 55.0, {42: 20000})[42].ended
    new = reader.read([42], 70.0, {42: 800})[42]
    assert (new.owner.user, new.ended) == ("bob", False)


def test_user_who_logged_in_owns_a_process_without_an_account(tmp_path: Path) -> None:
    add(tmp_path, 42, 1000, 100042, "/system.slice/cron.service")
    (tmp_path / "proc/42/loginuid").write_text("1001")
    assert processes(tmp_path).read([42], 20.0)[42].owner.user == "bob"
    add(tmp_path, 43, 1000, 100042, "/system.slice/cron.service")
    (tmp_path / "proc/43/loginuid").write_text("4294967295")
    assert processes(tmp_path).read([43], 20.0)[43].owner.user == "100042"


def test_names_of_containers_are_read(tmp_path: Path) -> None:
    path = tmp_path / CONTAINERS.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"containers": {ID: {"name": "trainer", "user": "carol"}}}))
    add(tmp_path, 42, 1000, 0, f"/system.slice/docker-{ID}.scope")
    found = processes(tmp_path).read([42], uptime=20.0)[42].owner
    assert (found.user, found.kind, found.name) == ("carol", "container", "trainer")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"containers": []}', '{"containers": {"a": 1}}'])
def test_damaged_names_of_containers_are_left_out(tmp_path: Path, text: str) -> None:
    path = tmp_path / CONTAINERS.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert read_containers(Tree(str(tmp_path))) == {}
