# SPDX-License-Identifier: GPL-3.0-or-later
"""The module reads a root directory and asks systemd; what follows from it: _backup/test_plan.py."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import facts
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.address import fingerprint, public
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.record import (
    RepositoryRecord,
    RepositorySettings,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import backup as backup_role
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import options_of, request_of

from harness.sandbox.lab import ROOT
from tests.unit.support.backup.hosts import CONTEXT, PASSWORD, options
from tests.unit.support.plan import run_plan

Run = Callable[..., Any]
ASKED = ("*-*-* 04:00", "Sun *-*-* 05:00", "*-*-01 06:00", "Sat *-*-* 05:00", "*-*-15 06:00", "someday")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_module: Run) -> Callable[..., Any]:
    """Plan on a host whose files are below a directory, and whose systemd does not know `someday`."""
    monkeypatch.setattr(backup_role, "ROOT", str(tmp_path))
    for path, text in {
        "var/lib/dpkg/status": "Package: restic\nStatus: install ok installed\nVersion: 0.18.0-1\n",
        "etc/fstab": "UUID=1 / ext4 defaults 0 1\n",
        "proc/self/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
        "var/lib/rigwright_backup/repositories.json": '{"disk": {"place": "an older layout"}}',
        "etc/systemd/system/rigwright-backup-run-old.timer": "",
        "etc/systemd/system/rigwright-backup-run-old.service": "",
        "etc/systemd/system/rigwright-backup-failed@.service": "",
        "etc/systemd/system/other.timer": "",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    commands = {f"systemd-analyze calendar -- '{wanted}'": (0, "", "") for wanted in ASKED}
    commands["systemd-analyze calendar -- someday"] = (1, "", "Failed to parse calendar specification 'someday'")

    # A run that was cut short has written a service without a reload of systemd.
    show = "systemctl show --property=NeedDaemonReload rigwright-backup-run-old.service"
    commands[show] = (0, "NeedDaemonReload=no\n\nNeedDaemonReload=yes\n", "")
    commands["systemd-analyze calendar -- 2020-01-01"] = (
        0,
        "Normalized form: 2020-01-01 00:00:00\n    Next elapse: never\n",
        "",
    )

    def plan(
        state: str = "present",
        check: bool = False,
        planned: Any | None = None,
        context: Any | None = None,
        **changes: Any,
    ) -> Any:
        context = {**CONTEXT, "planned": planned or {}, **(context or {})}
        run = functools.partial(run_module, commands=commands)
        return run_plan(run, backup_role, context, check=check, state=state, **options(**changes))

    return plan


def test_a_host_is_read_and_nothing_changes(host: Callable[..., Any]) -> None:
    found = host()
    assert (found["changed"], found["requirements"], found["install"], found["user_due"]) == (False, [], [], True)
    assert found["repositories_due"] == ["disk"], "the record of an older layout is none"
    assert [row["name"] for row in found["units_gone"]] == ["rigwright-backup-run-old.timer"]
    assert json.dumps(found["files"]) and found["reload_due"] is True
    assert [row["id"] for row in found["findings"]] == ["backup.paths", "backup.rebuild", "backup.same_disk.disk"]


def test_a_value_that_does_not_fit_is_refused_and_not_looked_up(host: Callable[..., Any]) -> None:
    for changes in ({"jobs": [{"name": "home", "paths": ["/home\0"]}]}, {"schedule": "daily\0"}):
        found = host(**changes)
        assert [row["problem"].rpartition(" not ")[1] for row in found["requirements"]] == [" not "]


def test_plan_does_not_wait_for_a_server_that_is_gone(
    host: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answered(path: str) -> None:
        assert "/mnt/nas" not in path, "a process that looks there waits for ever"

    def exists(tree: Tree, path: str) -> bool:
        answered(path)
        return real_exists(tree, path)

    gone, real_exists = {"/mnt/nas/home": "/mnt/nas", "/mnt/nas/backup": "/mnt/nas"}, Tree.exists
    monkeypatch.setattr(
        facts, "unanswered", lambda paths, _mounts: {path: gone[path] for path in gone if path in paths}
    )
    monkeypatch.setattr(Tree, "exists", exists)
    monkeypatch.setattr(facts, "unfit", lambda path, _user: answered(path))
    monkeypatch.setattr(facts, "links", lambda paths: dict.fromkeys(filter(answered, paths), ""))
    found = host(
        repositories=[{"name": "disk", "url": "/mnt/nas/backup", "password": PASSWORD}],
        jobs=[{"name": "home", "paths": ["/mnt/nas/home"]}],
    )
    assert [row["problem"] for row in found["requirements"]] == [
        "has disk, which is at /mnt/nas/backup, and the server of /mnt/nas does not answer"
    ]

    found = host(jobs=[{"name": "home", "paths": ["/mnt/nas/home"]}])
    assert found["requirements"] == []
    assert "not there now: /mnt/nas/home" in [row["evidence"] for row in found["findings"]]


JOB = {"name": "home", "paths": ["/"], "pre": [{"command": ["mysql", "-phunter2"], "user": "nobody"}]}


def test_no_plan_has_a_secret(host: Callable[..., Any]) -> None:
    text = json.dumps(host(jobs=[JOB]))
    assert PASSWORD not in text and "hunter2" not in text


def test_secrets_are_in_secret_files() -> None:
    repositories = [{"name": "disk", "url": "/srv", "password": PASSWORD}]
    values = {"backup_repositories": repositories, "backup_jobs": [JOB]}
    request, secrets = request_of("backup", options_of(str(ROOT / "roles/backup")), values)
    whole: Any = {**request, **secrets}
    files = backup_role.secret_files(whole)
    assert backup_role.secret_files(whole | {"state": "absent"}) == []
    assert all(row["secret"] for row in files)
    secret = {row["path"]: row["content"] for row in files}
    assert secret["/etc/rigwright/backup/disk.password"] == f"{PASSWORD}\n"
    assert {*secret} == {f"/etc/rigwright/backup/{name}" for name in ("disk.address", "disk.password", "commands.json")}


def test_problems_of_secrets_are_refused_with_the_others(host: Callable[..., Any]) -> None:
    found = host(repositories=[{"password": ""}], jobs=[{"name": "home", "post": [{"command": "mysql -phunter2"}]}])
    assert [row["problem"] for row in found["requirements"]] == [
        "has no password for disk",
        "has in home in post a command that is not a list of words",
        "has in home neither paths nor dumps",
    ]
    assert found["files"] == [] and "hunter2" not in json.dumps(found)


def test_only_a_missing_release_is_due(host: Callable[..., Any], tmp_path: Path) -> None:
    release = {"version": "0.19.1", "url": "https://x/restic_0.19.1_linux_amd64.bz2", "checksum": f"sha256:{'0' * 64}"}
    context = {"release": {**release, "requirements": []}, "program": "/usr/local/bin/restic"}
    assert host(version="0.19.1", context=context)["release_due"] is True
    name, version = "restic_0.19.1_linux_amd64", tmp_path / "opt/restic/0.19.1"
    link = tmp_path / "usr/local/bin/restic"
    for path, text in {
        version / name: "program",
        version / ".rigwright.json": json.dumps(
            {"archive": release["checksum"], "files": {name: hashlib.sha256(b"program").hexdigest()}}
        ),
        tmp_path / "opt/restic/.rigwright/backup.json": json.dumps({"versions": ["0.19.1"], "links": [str(link)]}),
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (version / name).chmod(0o755)
    link.parent.mkdir(parents=True)
    link.symlink_to(version / name)
    assert host(version="0.19.1", context=context)["release_due"] is False
    assert (host()["release_gone"], host("absent")["release_gone"]) == (True, True)
    (version / name).write_text("damaged")
    assert host(version="0.19.1", context=context)["release_due"] is True


def test_missing_users_of_hooks_are_a_finding(host: Callable[..., Any]) -> None:
    hooks = [{"command": ["x"], "user": user} for user in ("nobody", "no-such-user", None)]
    evidence = {
        row["id"]: row["evidence"] for row in host(jobs=[{"name": "home", "paths": ["/"], "pre": hooks}])["findings"]
    }
    assert evidence["backup.users"].startswith("not there now: no-such-user, users")


def test_a_password_in_a_file_is_known_by_its_fingerprint(host: Callable[..., Any], tmp_path: Path) -> None:
    entry: Any = {"name": "disk", "url": "/backup/ws", "password_file": "/secret"}
    for text, due in (("correct horse battery", []), ("another long password", ["disk"])):
        (tmp_path / "secret").write_text(f"{text}\n")
        (tmp_path / "secret").chmod(0o600)
        wanted = RepositorySettings.of(public(entry), "rigwright-backup", fingerprint("disk", "correct horse battery"))
        record = tmp_path / "var/lib/rigwright_backup/repositories.json"
        record.write_text(json.dumps({"disk": RepositoryRecord(wanted, "1", "k").row()}))
        assert host(repositories=[{"password": "", "password_file": "/secret"}])["repositories_due"] == due


def test_all_exposed_files_are_reported_at_once(host: Callable[..., Any], tmp_path: Path) -> None:
    for name in ("hook", "script", "password"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o666)
    job = {
        "name": "home",
        "paths": ["/"],
        "pre": [{"command": ["/hook", "hunter2"]}, {"command": ["/hook"], "user": "nobody"}],
    }
    job["dumps"] = [{"name": "wiki", "command": ["python3", "-I", "/script", "hunter2"]}]
    found = host(jobs=[job], repositories=[{"password": "", "password_file": "/password"}])["requirements"]
    assert [(row["variable"], row["problem"].partition(", ")[0]) for row in found] == [
        ("backup_jobs", "has in home in dumps[0] the program /script"),
        ("backup_jobs", "has in home in pre[0] the program /hook"),
        ("backup_repositories", "has for disk the password_file /password"),
    ]
    assert all(str(tmp_path) in row["problem"] and "chown root:root" in row["remedy"] for row in found)
    assert "hunter2" not in json.dumps(found)


def test_a_repository_below_another_users_directory_is_refused(host: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    os.chown(tmp_path / "backup", 4002, 4002)
    (found,) = host()["requirements"]
    assert found["variable"] == "backup_repositories" and f"can change {tmp_path}/backup" in found["problem"]
    (tmp_path / "backup").rmdir()
    (tmp_path / "backup").symlink_to(tmp_path / "etc")
    (found,) = host()["requirements"]
    assert f"through a link to {tmp_path}/etc/ws" in found["problem"] and "name " in found["remedy"]


def test_systemd_has_the_word_on_schedules(host: Callable[..., Any]) -> None:
    (row,) = host(drill_schedule="someday")["requirements"]
    assert row["variable"] == "backup_drill_schedule"
    assert row["problem"].startswith("is 'someday', which systemd does not take: Failed to parse")
    (row,) = host(drill_schedule="2020-01-01")["requirements"]
    assert row["problem"] == "is '2020-01-01', which systemd does not take: it never comes"


def test_absent_needs_no_request(host: Callable[..., Any]) -> None:
    found = host("absent")
    assert found["files"] == []
    assert [row["name"] for row in found["units_gone"]] == [
        f"rigwright-backup-run-old.{kind}" for kind in ("timer", "service")
    ]


DATA = {"target": "/data", "source": "/dev/sdb1", "fstype": "ext4", "bytes": 10**12}


def test_check_mode_takes_disks_of_earlier_tasks_as_mounted(host: Callable[..., Any]) -> None:
    planned = {"mounts": [DATA]}
    jobs = [{"name": "home", "paths": ["/home"]}]
    (row,) = host(check=True, planned=planned, jobs=jobs)["requirements"]
    assert row["problem"] == "have nothing of /data (ext4 on /dev/sdb1), which is mounted here"
    assert host(check=True, planned=planned, jobs=[{"name": "all", "paths": ["/home", "/data"]}])["requirements"] == []
    assert host(planned=planned, jobs=jobs)["requirements"] == [], "a run that is no check looks at what is there"


def test_check_mode_knows_the_planned_disk_of_a_repository(host: Callable[..., Any]) -> None:
    backup: Any = {**DATA, "target": "/backup"}
    wanted: Any = {"jobs": [{"name": "home", "paths": ["/home", "/backup/own"]}]}
    assert "backup.same_disk.disk" in {row["id"] for row in host(check=True, **wanted)["findings"]}
    wanted = {"jobs": [{"name": "home", "paths": ["/home"]}]}
    found = host(check=True, planned={"mounts": [backup]}, **wanted)
    assert "backup.same_disk.disk" not in {row["id"] for row in found["findings"]}


def test_check_mode_expects_directories_of_earlier_tasks(host: Callable[..., Any]) -> None:
    planned = {"mounts": [DATA], "directories": ["/data/sets"]}
    found = host(check=True, planned=planned, jobs=[{"name": "all", "paths": ["/data", "/data/sets", "/srv"]}])
    (evidence,) = (row["evidence"] for row in found["findings"] if row["id"] == "backup.paths")
    assert evidence == "not there now: /srv"
