# SPDX-License-Identifier: GPL-3.0-or-later
"""Users by files below a root and by their managers, and the record after a failed command."""

from __future__ import annotations

import json
import pwd
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import rootless_facts
from ansible_collections.rigwright.workstation.plugins.modules import docker_rootless

Run = Callable[..., dict[str, Any]]

UIDS = {"alice": 1001, "bob": 1002}
UNIT = "/etc/systemd/user/docker.service"


class Host:
    """A root directory with users, and fakes of their managers and dockers."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.record = root / rootless_facts.RECORD.lstrip("/")
        self.started = time.time() - 3600
        self.containers: list[str] = []
        self.changes: list[list[str]] = []
        self.failing = ""
        self.silent = ""
        self.write("/etc/subuid", "alice:100000:65536\n")
        self.write("/etc/subgid", "alice:100000:65536\n")

    def write(self, path: str, text: str = "") -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def have_docker(self, name: str) -> None:
        self.write(f"/var/lib/systemd/linger/{name}")
        self.write(f"/run/user/{UIDS[name]}/systemd/private")

    def recorded(self) -> Any:
        return json.loads(self.record.read_text()) if self.record.exists() else None

    def run_command(self, command: list[str]) -> tuple[int, str, str]:
        if self.silent in command:
            return 1, "", "Failed to connect to bus: Connection refused\n"
        if "show" in command:
            stamp = time.strftime("%a %Y-%m-%d %H:%M:%S UTC", time.gmtime(self.started))
            shown = f"Id=docker.service\nNames=docker.service\nActiveState=active\nActiveEnterTimestamp={stamp}\n"
            return 0, shown, ""
        if "ps" in command:
            return 0, "".join(f"{name}\n" for name in self.containers), ""
        self.changes.append(command)
        if command[0] == self.failing:
            raise OSError("the run is cut short")
        return 0, "", ""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host(tmp_path)
    by_name = {name: SimpleNamespace(pw_uid=uid) for name, uid in UIDS.items()}
    monkeypatch.setattr(rootless_facts, "ROOT", str(tmp_path))
    monkeypatch.setattr(pwd, "getpwnam", by_name.__getitem__)
    monkeypatch.setattr(AnsibleModule, "run_command", lambda _self, command, **_options: found.run_command(command))
    return found


@pytest.fixture
def rootless(run_module: Run, host: Host) -> Run:
    def run(*users: str, **params: Any) -> dict[str, Any]:
        return run_module(docker_rootless, users=list(users), files=[UNIT], **params)

    return run


def test_new_user_gets_a_docker_and_the_next_run_changes_nothing(rootless: Run, host: Host) -> None:
    first = rootless("bob")
    assert [change.partition(": ")[2] for change in first["changes"]] == [
        "/etc/subuid 165536-231071",
        "/etc/subgid 165536-231071",
        "user manager from boot on",
        "docker started",
    ]
    assert host.recorded()["bob"]["linger"] is True

    host.have_docker("bob")
    for option, path in docker_rootless.rootless.SUBORDINATE.items():
        host.write(path, f"bob:{host.recorded()['bob'][option].partition('-')[0]}:65536\n")
    host.changes.clear()
    assert not rootless("bob")["changed"]
    assert host.changes == []


def test_check_mode_reports_changes_and_makes_none(rootless: Run, host: Host) -> None:
    planned = rootless("bob", check=True)
    assert planned["changed"]
    assert (host.changes, host.recorded()) == ([], None)
    assert rootless("bob")["changes"] == planned["changes"]


@pytest.mark.parametrize(("seconds", "verbs"), [(-10, []), (10, ["daemon-reload", "restart"])])
def test_a_docker_older_than_its_files_is_restarted(rootless: Run, host: Host, seconds: int, verbs: list[str]) -> None:
    host.have_docker("alice")
    host.write(UNIT)
    host.started = time.time() - seconds
    rootless("alice")
    assert [word for command in host.changes for word in command if word in ("daemon-reload", "restart")] == verbs


def test_restart_waits_for_containers_by_name(rootless: Run, host: Host) -> None:
    host.have_docker("alice")
    host.write(UNIT)
    host.containers = ["train"]
    assert rootless("alice")["waiting"] == {"alice": ["train"]}
    assert host.changes == []


def test_user_whose_manager_does_not_answer_stops_nobody_else(rootless: Run, host: Host) -> None:
    host.have_docker("alice")
    host.silent = "alice"
    done = rootless("alice", "bob")
    assert done["failed_users"] == {"alice": "the user's service manager does not answer"}
    assert "bob: docker started" in done["changes"]
    assert not [change for change in done["changes"] if change.startswith("alice")]


def test_user_whose_docker_does_not_start_stops_nobody_else(rootless: Run, host: Host) -> None:
    host.silent = "alice"
    done = rootless("alice", "bob")
    assert done["failed_users"] == {"alice": "Failed to connect to bus: Connection refused"}
    assert {name for command in host.changes for name in UIDS if name in command} == {"bob"}
    assert host.recorded()["alice"]["linger"] is True


def test_interrupted_run_leaves_its_changes_on_record(rootless: Run, host: Host) -> None:
    host.failing = "loginctl"
    with pytest.raises(OSError, match="cut short"):
        rootless("bob")
    assert host.recorded()["bob"]["linger"] is True

    # What did not come about is asked to go, and nothing of it stays on record.
    host.failing = ""
    rootless()
    assert ["loginctl", "disable-linger", "bob"] in host.changes
    assert host.recorded() is None


def test_a_missing_user_is_refused(rootless: Run, host: Host) -> None:
    assert "names no user of this host: nobody-of-that-name" in rootless("alice", "nobody-of-that-name")["msg"]
    assert host.changes == []


def test_deleted_user_leaves_the_record(rootless: Run, host: Host) -> None:
    host.write(rootless_facts.RECORD, json.dumps({"gone": {"linger": True}}))
    rootless()
    assert host.recorded() is None


def test_damaged_record_is_refused(rootless: Run, host: Host) -> None:
    host.write(rootless_facts.RECORD, "{")
    assert "is damaged" in rootless("alice")["msg"]
    assert host.changes == []


def test_range_planned_again_is_recorded_first(rootless: Run, host: Host) -> None:
    host.failing = "usermod"
    for owner in ("", "carol:165536:65536\n"):
        for path in docker_rootless.rootless.SUBORDINATE.values():
            host.write(path, f"alice:100000:65536\n{owner}")
        with pytest.raises(OSError, match="cut short"):
            rootless("bob")
    assert host.recorded()["bob"]["--add-subuids"] == "231072-296607"
