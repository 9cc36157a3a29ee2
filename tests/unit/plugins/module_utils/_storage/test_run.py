# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module reads, refuses and reports. test_apply.py and molecule/storage test its writes."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import acl, lock
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import storage as storage_role
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import apply, directories, run
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import facts as disk_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.disks import Content, Disk
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.model import Facts, Mounted
from ansible_collections.rigwright.workstation.plugins.modules import storage_disks

from tests.unit.support.plan import run_plan

Run = Callable[..., dict[str, Any]]
EMPTY = Disk("/dev/sdb", 100 * 10**9, serial="B", names=frozenset(["/dev/sdb"]))
OLD = dataclasses.replace(EMPTY, content=Content(kind="ext4", label="photos", uuid="u", blank=False))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Disk], None]:
    """Return a function that gives the host one disk."""
    monkeypatch.setattr(apply, "RECORD", f"{tmp_path}/disks.json")
    monkeypatch.setattr(disk_facts, "FSTAB", f"{tmp_path}/fstab")

    def has(disk: Disk) -> None:
        def facts(_run: Any, _entries: Sequence[Any], record: dict[str, Any]) -> Facts:
            mounted = {mount: Mounted(disk.path, frozenset(["prjquota"])) for mount in disk.mounts}
            return Facts((disk,), mounted=mounted, record=record)

        monkeypatch.setattr(disk_facts, "facts", facts)

    return has


NO_CONTAINER = {"systemd-detect-virt --quiet": (1, "", "")}


@pytest.fixture
def storage(run_module: Run, host: Callable[[Disk], None]) -> Run:
    """Run the module on a host with one disk; it may look, and run nothing."""

    def start(disk: Disk = EMPTY, commands: Mapping[str, Any] | None = None, **params: Any) -> dict[str, Any]:
        host(disk)
        return run_module(storage_disks, commands={**NO_CONTAINER, **(commands or {})}, **params)

    return start


DATA = {"serial": "B", "role": "data"}


def test_plan_reports_changes_and_makes_none(storage: Run) -> None:
    result = storage(state="planned", disks=[DATA], directories=[{"path": "/data/x"}])
    assert result["changes"] == [
        "partition /dev/sdb (B, 100 GB)",
        "make ext4 labelled 'data' on /dev/sdb (B, 100 GB)",
        "protect /data while nothing is mounted there",
        "mount /data",
        "write /etc/fstab",
        "/data/x: owner, mode, ACL or quota",
    ]
    assert (result["changed"], result["requirements"], result["changed_paths"]) == (
        False,
        [],
        ["/data", "/data/x", "/etc/fstab"],
    )
    assert {row["id"]: row["status"] for row in result["findings"]}["storage.disks"] == "fail"


def test_the_plan_of_the_role_is_what_the_module_does(
    storage: Run, run_module: Run, host: Callable[[Disk], None]
) -> None:
    request: dict[str, Any] = {"disks": [DATA], "directories": [{"path": "/data/x"}]}
    done = storage(check=True, **request)
    plan = run_plan(functools.partial(run_module, commands=NO_CONTAINER), storage_role, {}, **request)
    same = ("changes", "changed_paths", "directories", "packages", "host", "cache", "units", "requirements")
    assert {name: plan[name] for name in same} == {name: done[name] for name in same}
    assert (plan["changed"], plan["configured_sets"]) == (False, {})


def test_a_removal_needs_no_plan(run_module: Run) -> None:
    assert run_plan(run_module, storage_role, {}, state="absent") == {
        "changed": False,
        "configured_sets": {},
        "warnings": [],
    }


def test_the_proof_compares_disks_and_checks_their_use(run_module: Run, host: Callable[[Disk], None]) -> None:
    host(EMPTY)
    outputs = {
        "systemd-detect-virt --quiet": (1, "", ""),
        "findmnt --verify": (0, "Success", ""),
        "systemctl is-active fstrim.timer": (0, "active", ""),
    }
    verify = functools.partial(run_module, commands=outputs)
    rows = run_plan(verify, storage_role, kind="verify", context={"cache_status": []}, disks=[DATA])["findings"]
    found = {row["id"]: row["status"] for row in rows}
    assert (found["storage.disks"], found["storage.fstab"], found["storage.trim"]) == ("fail", "pass", "pass")
    assert "storage.smart_B" in found


def test_check_mode_reports_the_same_as_a_change(storage: Run) -> None:
    result = storage(check=True, disks=[DATA])
    assert result["changed"] and "mount /data" in result["changes"]
    assert "UUID=" in json.dumps(result["diff"])


def test_a_refusal_is_a_failure_unless_it_was_only_asked(storage: Run) -> None:
    failed = storage(OLD, disks=[DATA])
    assert (
        failed["failed"]
        and "ext4 labelled 'photos'" in failed["msg"]
        and failed["msg"].endswith("Nothing was changed.")
    )
    (row,) = storage(OLD, state="planned", disks=[DATA])["requirements"]
    assert row["variable"] == "storage_disks" and "storage_confirm_wipe: [B]" in row["remedy"]


def test_all_refusals_are_reported_at_once(storage: Run) -> None:
    rows = storage(
        state="planned",
        disks=[{**DATA, "label": "a" * 20}],
        directories=[{"path": "/data/x", "group": "group-that-is-not-there"}, {"path": "/elsewhere"}],
        environment={"HF_HOME": "/data/hf"},
    )["requirements"]
    assert {row["variable"] for row in rows} == {"storage_disks", "storage_directories", "storage_environment"}
    assert len(rows) == 4


def test_every_problem_names_its_entry_and_variable(storage: Run) -> None:
    result = storage(
        state="planned",
        disks=[{**DATA, "fs": "ntfs", "lable": "x", "wipe": "perhaps"}],
        directories=[{"mode": "0755"}, {"path": "/data/x", "setgid": "some"}, {"path": "/elsewhere"}],
    )["requirements"]
    assert [(row["variable"], row["problem"]) for row in result] == [
        ("storage_disks", "has B, whose fs is 'ntfs'"),
        ("storage_disks", "has B, with the unknown key 'lable'"),
        ("storage_disks", "has B, whose wipe is 'perhaps'"),
        ("storage_directories", "has entry 1, without path"),
        ("storage_directories", "has /data/x, whose setgid is 'some'"),
        ("storage_directories", "has /elsewhere, which is on no disk of storage_disks"),
    ]
    assert [row["remedy"] for row in result[:2]] == ["choose one of ext4, xfs, btrfs, vfat", "name it label"]


def test_two_runs_at_once_follow_each_other(storage: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_disks, "host_lock", lambda name: lock.host_lock(name, wait=0))
    with lock.host_lock("storage_disks"):
        assert "another run has held" in storage(disks=[DATA])["msg"]
        assert storage(state="planned", disks=[DATA])["changed"] is False


def test_a_quota_larger_than_the_disk_is_refused(storage: Run) -> None:
    request = {"disks": [{**DATA, "quota": True}], "directories": [{"path": "/data/x", "quota": "200G"}]}
    (row,) = storage(state="planned", **request)["requirements"]
    assert "more than its disk" in row["problem"]


def test_absent_without_a_record_changes_nothing(storage: Run) -> None:
    result = storage(OLD, state="absent", disks=[DATA], directories=[{"path": "/data/x"}])
    assert (result["changed"], result["changes"]) == (False, [])


@pytest.mark.parametrize("text", ["{", "", "[]", '{"S1": 1}'])
def test_a_damaged_record_is_refused(storage: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "disks.json").write_text(text)
    assert "is damaged" in storage(disks=[DATA])["msg"]


# --- Directories on a disk that is mounted ---

QUOTA = "xfs_quota -x -f -c 'report -p -b -n -N' "


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Return the request for a disk that is mounted already, whose directories belong to projects."""
    monkeypatch.setattr(run.shutil, "which", lambda name, path: f"/usr/sbin/{name}")
    (tmp_path / "data").mkdir()
    return lambda **more: {"serial": "B", "mount": str(tmp_path / "data"), "label": "data", "partition": False, **more}


def on(mount: str) -> Disk:
    return dataclasses.replace(
        EMPTY, content=Content(kind="ext4", label="data", uuid="u", blank=False), mounts=(mount,)
    )


def test_changed_limit_of_a_directory_is_reported(
    storage: Run, mounted: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = mounted(quota=True)
    path = f"{row['mount']}/x"
    monkeypatch.setattr(
        directories, "read", lambda _path: directories.State(os.getuid(), os.getgid(), 0o755, project=1000)
    )
    monkeypatch.setattr(run, "number", lambda tag, _name: os.getuid() if tag == acl.USER else os.getgid())
    for limit, due in (("1024", []), ("2048", [path])):
        result = storage(
            on(row["mount"]),
            {QUOTA + row["mount"]: (0, f"#1000 0 0 {limit} 00 [--------]\n", "")},
            state="planned",
            disks=[row],
            directories=[{"path": path, "quota": "1M"}],
        )
        assert [row_found for row_found in result["changed_paths"] if row_found == path] == due


def test_a_directory_that_is_a_link_is_refused(
    storage: Run, mounted: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    row = mounted()
    (tmp_path / "data/x").symlink_to("/etc")
    result = storage(on(row["mount"]), state="planned", disks=[row], directories=[{"path": f"{row['mount']}/x"}])
    assert [row_found["problem"] for row_found in result["requirements"]] == [
        f"has {row['mount']}/x, and a part of it is a link or no directory"
    ]


# --- The cache of datasets ---


@pytest.fixture
def cached(
    storage: Run, mounted: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, Any]]:
    row = mounted()
    monkeypatch.setattr(run, "number", lambda _tag, _name: os.getgid())
    monkeypatch.setattr(apply.Host, "apply", lambda _self, _plan: [])
    cache = {"mode": "directory", "path": f"{tmp_path}/data/cache", "group": "ml", "sources": ["/srv/sets"]}
    return lambda **more: storage(on(row["mount"]), disks=[row], cache=cache, **more)


def test_a_cache_has_the_directories_of_its_users_and_a_tag(
    cached: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    cached()
    modes = {path.name: oct(path.stat().st_mode & 0o7777) for path in (tmp_path / "data").rglob("*") if path.is_dir()}
    assert modes == {"cache": "0o750", "locks": "0o3770", "requests": "0o3770", "sets": "0o3770"}
    assert (tmp_path / "data/cache/CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")
    assert [entry for entry in cached(check=True)["changes"] if entry.endswith(("quota", "tag"))] == []


def test_older_cache_becomes_sticky_without_following_links(
    cached: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    cached()
    cache, outside = tmp_path / "data/cache", tmp_path / "outside"
    outside.mkdir()
    outside.chmod(0o770)
    (cache / "sets/images-1").mkdir()
    for path in (cache, cache / "sets", cache / "sets/images-1"):
        path.chmod(0o2770)
    (cache / "sets/evil").symlink_to(outside)
    result = cached(check=True)
    assert f"{cache}/sets/images-1: sticky bit or tag" in result["changes"]
    assert (cache / "sets/images-1").stat().st_mode & 0o7777 == 0o2770
    cached()
    assert [oct(path.stat().st_mode & 0o7777) for path in (cache, cache / "sets", cache / "sets/images-1")] == [
        "0o750",
        "0o3770",
        "0o3770",
    ]
    assert outside.stat().st_mode & 0o7777 == 0o770


def test_a_cache_whose_directory_is_a_link_is_refused(cached: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    cached()
    (tmp_path / "data/cache/locks").rmdir()
    (tmp_path / "data/cache/locks").symlink_to("/etc")
    assert "/cache/locks, and a part of it is a link" in cached()["msg"]


def test_facts_for_later_roles_are_returned(storage: Run) -> None:
    result = storage(check=True, disks=[DATA], directories=[{"path": "/data/x"}])
    (mount,) = result["mounts"]
    assert (mount["target"], mount["fstype"], mount["bytes"] > 0) == ("/data", "ext4", True)
    assert (result["unmounts"], result["directories"]) == ([], ["/data/x"])


def test_check_mode_accepts_groups_of_earlier_tasks(storage: Run) -> None:
    request = {"disks": [DATA], "directories": [{"path": "/data/x", "group": "no-such-group"}]}
    planned = {"groups": ["no-such-group"]}
    assert "/data/x" in storage(check=True, planned=planned, **request)["directories"]
    for refused in (storage(check=True, **request), storage(planned=planned, **request)):
        assert refused["failed"] and "no-such-group" in refused["msg"]
