# SPDX-License-Identifier: GPL-3.0-or-later
"""What is planned for a host, and what is refused before anything changes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import address as addresses
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import excludes
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import plan as planning
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.excludes import excluded
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.facts import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.record import (
    RepositoryRecord,
    RepositorySettings,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import Mount

from tests.unit.support.backup.hosts import request

PASSWORD = "correct horse battery"
JOB = {"name": "home", "paths": ["/home"]}


def plan(on: Host | None = None, **changes: Any) -> planning.Plan:
    return planning.plan_present(request(**changes), on or Host())


def refused(**changes: Any) -> list[str]:
    found = plan(**changes)
    assert found.files == [], "what is refused plans nothing"
    return [f"{row['variable']}: {row['problem']}; {row['remedy']}" for row in found.requirements]


def test_a_job_has_units_for_all_regular_work() -> None:
    found = plan()
    assert found.requirements == []
    assert {row["name"].removeprefix("rigwright-backup-") for row in found.units} == {
        "run-home.timer",
        "forget-home.timer",
        "drill-home.timer",
        "check-disk.timer",
        "prune-disk.timer",
    }
    assert (found.install, found.user_due, found.repositories_due) == (["restic"], True, ["disk"])


def test_an_append_only_server_has_no_unit_that_removes() -> None:
    names = {row["name"] for row in plan(repositories=[{"append_only": True}]).units}
    assert names == {f"rigwright-backup-{name}.timer" for name in ("run-home", "drill-home", "check-disk")}


def test_a_job_without_paths_only_maintains_snapshots() -> None:
    found = plan(jobs=[{"name": "ws", "host": "ws1", "schedule": ""}])
    assert {row["name"] for row in found.units} == {
        f"rigwright-backup-{name}.timer" for name in ("forget-ws", "check-disk", "prune-disk")
    }


def test_the_jobs_with_their_hooks_are_for_root_alone_to_read() -> None:
    (row,) = (row for row in plan().files if row["path"] == planning.CONFIG)
    assert row["mode"] == "0600"


def test_command_of_the_notifier_is_in_no_diff() -> None:
    files = plan(notify_command=["/usr/bin/curl", "https://chat.example/hunter2"]).files
    found = [row for row in files if "hunter2" in str(row)]
    assert [(row["path"], row["secret"]) for row in found] == [
        ("/etc/systemd/system/rigwright-backup-failed@.service", True)
    ]


def opened(user: str = "rigwright-backup", **changes: Any) -> Any:
    """Return the record of a repository that was opened with the current settings."""
    given: Any = {"name": "disk", "url": "/backup/ws", "password": PASSWORD, **changes}
    row = addresses.public(given)
    return {"disk": RepositoryRecord(RepositorySettings.of(row, user), "1", "k").row()}


def test_a_current_repository_is_not_due() -> None:
    host = Host(
        packages=frozenset(["restic"]),
        user_exists=True,
        record=opened(),
        units=[
            "rigwright-backup-run-home.timer",
            "rigwright-backup-run-gone.timer",
            "rigwright-backup-run-gone.service",
        ],
    )
    found = plan(host)
    assert (found.install, found.user_due, found.repositories_due, found.reload_due) == ([], False, [], False)
    assert [row["name"] for row in found.units_gone] == ["rigwright-backup-run-gone.timer"]


@pytest.mark.parametrize(
    "repository",
    [
        {"url": "/backup/elsewhere"},
        {"password": "another long password"},
        {"password": "", "password_file": "/root/password"},
        {"env": {"AWS_SECRET_ACCESS_KEY": "another"}},
        {"options": ["s3.storage-class=STANDARD_IA"]},
    ],
)
def test_a_repository_that_is_asked_for_in_another_way_is_opened(repository: Any) -> None:
    assert plan(Host(record=opened()), repositories=[repository]).repositories_due == ["disk"]


@pytest.mark.parametrize("record", [{}, {"disk": None}, {"disk": {"asked": {"place": 1, "x": 2}}}, {"disk": "damaged"}])
def test_a_repository_without_a_valid_record_is_opened(record: Any) -> None:
    assert plan(Host(record=record)).repositories_due == ["disk"]


def test_a_repository_with_old_keys_is_opened_again() -> None:
    for keys in ("retire", "kept"):
        record = {"disk": {**opened()["disk"], keys: ["abc"]}}
        assert plan(Host(record=record)).repositories_due == ["disk"]


def test_a_changed_user_makes_a_local_repository_due() -> None:
    assert plan(Host(record=opened()), user="another").repositories_due == ["disk"]


def test_a_changed_password_file_makes_a_repository_due() -> None:
    entry: Any = {"password": "", "password_file": "/root/password"}
    given: Any = {"name": "disk", "url": "/backup/ws", **entry}
    row = addresses.public(given)
    record = {"disk": RepositoryRecord(RepositorySettings.of(row, "rigwright-backup", "one"), "1", "k").row()}
    assert plan(Host(record=record, fingerprints={"disk": "one"}), repositories=[entry]).repositories_due == []
    assert plan(Host(record=record, fingerprints={"disk": "two"}), repositories=[entry]).repositories_due == ["disk"]


def test_services_that_systemd_has_not_read_yet_are_read() -> None:
    assert plan(Host(outdated=True)).reload_due is True


def test_a_repository_path_is_excluded_literally() -> None:
    (job,) = planning.make_config(
        request(repositories=[{"url": "/srv/ws[1]*"}], jobs=[{"name": "srv", "paths": ["/srv"], "exclude_sets": []}])
    ).jobs.values()
    assert job.excludes == ["/srv/ws[[]1][*]"]
    assert excludes.excluded("/srv/ws[1]*", job.excludes) and not excludes.excluded("/srv/ws1", job.excludes)


def test_excludes_are_sets_data_sets_and_the_repository() -> None:
    found = plan(
        jobs=[{"name": "all", "paths": ["/"], "excludes": ["/scratch"]}],
        dataset_paths=["/data/imagenet"],
        excludes=["*.iso"],
    )
    (config,) = (row["data"] for row in found.files if row["path"] == planning.CONFIG)
    patterns = config["jobs"][0]["excludes"]
    assert {"/proc/*", ".cache", "/data/imagenet", "*.iso", "/scratch", "/backup/ws"} <= {*patterns}
    (named,) = planning.make_config(
        request(jobs=[{"name": "sets", "paths": ["/data/imagenet"]}], dataset_paths=["/data/imagenet"])
    ).jobs.values()
    assert not excluded("/data/imagenet", named.excludes)


def test_no_secret_is_in_a_plan() -> None:
    assert PASSWORD not in str(plan())


def test_missing_paths_and_users_are_findings() -> None:
    host = Host(missing=frozenset(["/home"]), missing_users=frozenset(["postgres"]))
    statuses = {row["id"]: row for row in plan(host, repositories=[{"url": "rest:http://nas/"}]).findings}
    assert {*statuses} == {"backup.paths", "backup.clear", "backup.users", "backup.rebuild"}
    assert "/home" in statuses["backup.paths"]["evidence"] and "postgres" in statuses["backup.users"]["evidence"]


BACKUP = Mount("/backup", "/dev/sdb1", "ext4", device="8:2")


def test_an_uncovered_file_system_is_refused_until_excluded() -> None:
    host = Host(mounts=[Mount("/", "/dev/sda1", "ext4", device="8:1"), BACKUP])
    (only,) = plan(host).requirements
    assert (only["variable"], only["ok"]) == ("backup_jobs", False)
    assert only["problem"] == "have nothing of /backup (ext4 on /dev/sdb1), which is mounted here"
    assert "backup_excludes" in only["remedy"]
    assert plan(host, excludes=["/backup"]).requirements == []
    # Who only looks after the repositories of others.
    assert plan(host, jobs=[{"name": "home", "host": "ws1", "schedule": ""}]).requirements == []


def test_a_repository_on_the_same_disk_is_a_finding() -> None:
    root = Mount("/", "/dev/sda1", "ext4", device="8:1")
    statuses = {row["id"]: row["status"] for row in plan(Host(mounts=[root])).findings}
    assert statuses["backup.same_disk.disk"] == "warn"
    assert not plan(Host(mounts=[root, BACKUP]), excludes=["/backup"], manifest=False).findings


def test_mount_of_a_user_is_a_warning_unless_a_job_names_it() -> None:
    far = Mount("/home/a/far", "a@far:/", "fuse.sshfs", device="0:60", user=1000)
    host = Host(mounts=[Mount("/", "/dev/sda1", "ext4", device="8:1"), far])
    named = [{"name": "home", "paths": ["/home", "/home/a/far"]}]
    for changes, expected in (({}, True), ({"jobs": named}, False)):
        assert ("backup.user_mounts" in {row["id"] for row in plan(host, **changes).findings}) is expected


def test_a_path_that_is_a_link_is_refused_with_where_it_leads() -> None:
    (only,) = plan(Host(links={"/home": "/data/home"})).requirements
    assert (only["variable"], only["problem"]) == ("backup_jobs", "has /home, which is a link to /data/home")


def test_a_manifest_without_the_root_in_a_job_builds_no_machine() -> None:
    statuses = {row["id"]: row["status"] for row in plan(Host()).findings}
    assert statuses["backup.rebuild"] == "warn"
    assert "backup.rebuild" not in {row["id"] for row in plan(Host(), jobs=[{"name": "all", "paths": ["/"]}]).findings}


def test_each_repository_kind_has_its_packages() -> None:
    sftp = {"url": "sftp:ws@nas:/backup", "ssh_key": "key", "known_hosts": "nas ssh-ed25519 AAAA"}
    assert plan(repositories=[sftp]).install == ["openssh-client", "restic"]
    assert plan(repositories=[sftp], version="0.19.1").install == ["openssh-client"]


@pytest.mark.parametrize(("version", "due", "gone"), [("0.19.1", True, False), ("", False, True)])
def test_a_release_is_installed_or_removed_only_when_due(version: str, due: bool, gone: bool) -> None:
    current = Host(packages=frozenset(["restic"]), user_exists=True)
    found = plan(current, version=version)
    assert (found.release_due, found.release_gone, found.install_due) == (False, False, False)
    found = plan(dataclasses.replace(current, release_due=True), version=version)
    assert (found.release_due, found.release_gone, found.install_due) == (due, gone, True)
    assert planning.plan_absent(dataclasses.replace(current, release_due=True)).release_gone is True


def test_an_unknown_release_is_refused_only_if_it_is_wanted() -> None:
    row: Any = {"ok": False, "variable": "backup_releases", "problem": "has no SHA-256", "remedy": "take it"}
    wanted: Any = {**request(), "release": {"requirements": [{**row, "ok": True}, row]}}
    assert planning.plan_present(wanted | {"version": "9.9"}, Host()).requirements == [row]
    assert planning.plan_present(wanted, Host()).requirements == []


def test_absent_stops_timers_and_then_running_services() -> None:
    kinds = ("rigwright-backup-failed@.service", "rigwright-backup-run-home.service", "rigwright-backup-run-home.timer")
    assert planning.plan_absent(Host(units=kinds)).units_gone == [
        {"name": "rigwright-backup-run-home.timer", "state": "stopped", "enabled": False},
        {"name": "rigwright-backup-run-home.service", "state": "stopped"},
    ]


def job(**changes: Any) -> Any:
    return {"jobs": [{**JOB, **changes}]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"repositories": []}, "backup_repositories: is empty"),
        ({"jobs": []}, "backup_jobs: is empty"),
        ({"jobs": [JOB, {**JOB, "paths": ["/etc"]}]}, "has two jobs of the name home"),
        (job(name="Home!"), "a name that no unit can have"),
        (job(repository="nas"), "the repository nas, which backup_repositories has not"),
        ({"repositories": [{}, {"name": "second"}]}, "no repository, and there are several"),
        (job(paths=["home"]), "the path 'home', which is no absolute path"),
        (job(paths=["/home/../etc"]), "which is no absolute path"),
        (job(excludes=["/home"]), "which its own excludes leave out"),
        (job(paths=[]), "neither paths nor dumps"),
        (job(retention={}), "a retention that keeps nothing"),
        (job(retention={"daily": 0, "weekly": 0}), "a retention that keeps nothing"),
        (job(retention={"daily": -1}), "no number from 0 on"),
        (job(retention={"dayly": 7}), "a retention with dayly"),
        (job(retention={"within": "a month"}), "a retention within 'a month'"),
        ({"retention": {}}, "a retention that keeps nothing"),
        (job(always=[{"command": ["x"], "timeout_s": -1}]), "in always a timeout_s that is not a number from 0 on"),
        (job(retention={"within": "0d"}), "a retention that keeps nothing"),
        (job(host="a b"), "the host 'a b', which is no name of one"),
        (job(dumps=[{"name": "a", "command": ["x"], "filename": "../etc/x"}]), "the filename '../etc/x' of a dump"),
        (job(dumps=[{"name": "a", "command": ["x"], "filename": "/x"}]), "the filename '/x' of a dump"),
        ({"check_subset_parts": 257}, "backup_check_subset_parts: is 257; set it to 1 to 256"),
        ({"max_age_h": {"run": True}}, "backup_max_age_h: has an age below an hour"),
        ({"notify_command": ["-mail", "root"]}, "backup_notify_command: begins with what is no program"),
        ({"notify_command": [""]}, "backup_notify_command: begins with what is no program"),
        ({"notify_command": "mail root"}, "backup_notify_command: begins with what is no program"),
        (job(dumps=[{"name": "a", "command": ["x"]}, {"name": "a", "command": ["y"]}]), "dumps with one name"),
        (job(tags=["a,b"]), "a tag with a comma"),
        (job(tags=["job:etc"]), "one that the role sets itself"),
        (job(exclude_sets=["cashes"]), "the exclude_sets cashes"),
        ({"exclude_sets": ["cashes"]}, "backup_exclude_sets: has cashes"),
        ({"user": "root"}, "backup_user: is 'root'"),
        ({"host": "my host"}, "backup_host: is 'my host'"),
        ({"check_subset_parts": 0}, "backup_check_subset_parts: is 0; set it to 1 to 256"),
        ({"textfile_directory": "metrics"}, "backup_textfile_directory: is no absolute path"),
        ({"dataset_paths": ["data"]}, "backup_dataset_paths: has data, no absolute path"),
        ({"max_age_h": {"backup": 3}}, "backup_max_age_h: has backup"),
        (
            {"jobs": [{"name": "all", "paths": ["/home"]}, {"name": "alice", "paths": ["/home/alice"]}]},
            "has /home/alice in alice, and in all by its /home; exclude it from all",
        ),
        ({"jobs": [JOB, {**JOB, "name": "again"}]}, "and in"),
    ],
)
def test_bad_input_is_refused_with_variable_and_remedy(changes: Any, message: str) -> None:
    found = refused(**changes)
    assert any(message in line for line in found), found


def test_a_missing_path_with_wildcards_is_refused() -> None:
    (only,) = plan(Host(missing=frozenset(["/home/*"])), **job(paths=["/home/*"])).requirements
    assert only["problem"] == "has in home the path /home/*, which is not there"
    assert plan(Host(), **job(paths=["/srv/ws[1]"])).requirements == []


def test_jobs_that_exclude_each_other_do_not_overlap() -> None:
    inner = {"name": "alice", "paths": ["/home/alice"]}
    assert plan(jobs=[{**JOB, "excludes": ["/home/alice"]}, inner]).requirements == []
    two = [{}, {"name": "far", "url": "/far"}]
    jobs = [{**JOB, "repository": "disk"}, {**inner, "repository": "far"}]
    assert plan(jobs=jobs, repositories=two).requirements == []


def test_an_invalid_schedule_is_refused_with_its_variable() -> None:
    host = Host(calendar={"someday": "Failed to parse calendar specification", "daily": ""})
    found = plan(host, check_schedule="someday")
    assert [row["variable"] for row in found.requirements] == ["backup_check_schedule"]
    found = plan(host, **job(schedule="someday"))
    assert [row["variable"] for row in found.requirements] == ["backup_jobs"]


def test_a_repository_on_a_disk_that_is_not_mounted_is_refused() -> None:
    mounts = [Mount("/", "/dev/sda1", "ext4", device="8:1")]
    found = plan(Host(fstab=["/", "/backup"], mounts=mounts))
    assert "is in fstab and not mounted" in found.requirements[0]["problem"]
    assert plan(Host(fstab=["/", "/backup"], mounts=[*mounts, BACKUP]), excludes=["/backup"]).requirements == []
