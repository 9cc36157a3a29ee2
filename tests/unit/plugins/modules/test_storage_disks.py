# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module asks, refuses and tells; what it does to disks is in test__storage_apply.py and molecule/storage."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils import _storage_apply as apply
from ansible_collections.rigwright.workstation.plugins.module_utils import _storage_look as look
from ansible_collections.rigwright.workstation.plugins.module_utils._disk_facts import Content, Disk
from ansible_collections.rigwright.workstation.plugins.module_utils._storage_plan import Facts
from ansible_collections.rigwright.workstation.plugins.modules import storage_disks

Run = Callable[..., dict[str, Any]]
EMPTY = Disk("/dev/sdb", 100 * 10**9, serial="B", names=frozenset(["/dev/sdb"]))
OLD = dataclasses.replace(EMPTY, content=Content(kind="ext4", label="photos", uuid="u", blank=False))


@pytest.fixture
def storage(run_module: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the module on a host with one disk; it may look, and run nothing."""
    monkeypatch.setattr(apply, "RECORD", f"{tmp_path}/disks.json")
    monkeypatch.setattr(look, "FSTAB", f"{tmp_path}/fstab")

    def run(disk: Disk = EMPTY, **params: Any) -> dict[str, Any]:
        def facts(_run: Any, _entries: Sequence[Any], record: dict[str, Any]) -> Facts:
            return Facts((disk,), record=record)

        monkeypatch.setattr(look, "facts", facts)
        return run_module(storage_disks, commands={}, **params)

    return run


DATA = {"serial": "B", "role": "data"}


def test_a_plan_tells_what_would_be_done_and_does_nothing(storage: Run) -> None:
    told = storage(state="planned", disks=[DATA], directories=[{"path": "/data/x"}])
    assert told["changes"] == [
        "partition /dev/sdb (B, 100 GB)",
        "make ext4 labelled 'data' on /dev/sdb (B, 100 GB)",
        "protect /data while nothing is mounted there",
        "mount /data",
        "write /etc/fstab",
        "/data/x: owner, mode, ACL or quota",
    ]
    assert (told["changed"], told["requirements"], told["changed_paths"]) == (
        False,
        [],
        ["/data", "/data/x", "/etc/fstab"],
    )
    assert {row["id"]: row["status"] for row in told["findings"]}["storage.disks"] == "fail"


def test_check_mode_tells_the_same_as_a_change(storage: Run) -> None:
    told = storage(check=True, disks=[DATA])
    assert told["changed"] and "mount /data" in told["changes"]
    assert "UUID=" in json.dumps(told["diff"])


def test_a_refusal_is_a_failure_unless_it_was_only_asked(storage: Run) -> None:
    failed = storage(OLD, disks=[DATA])
    assert (
        failed["failed"]
        and "ext4 labelled 'photos'" in failed["msg"]
        and failed["msg"].endswith("Nothing was changed.")
    )
    (row,) = storage(OLD, state="planned", disks=[DATA])["requirements"]
    assert row["variable"] == "storage_disks" and "storage_confirm_wipe: [B]" in row["remedy"]


def test_all_refusals_are_told_at_once(storage: Run) -> None:
    rows = storage(
        state="planned",
        disks=[{**DATA, "label": "a" * 20}],
        directories=[{"path": "/data/x", "group": "group-that-is-not-there"}, {"path": "/elsewhere"}],
        environment={"HF_HOME": "/data/hf"},
    )["requirements"]
    assert {row["variable"] for row in rows} == {"storage_disks", "storage_directories", "storage_environment"}
    assert len(rows) == 4


def test_a_quota_larger_than_the_disk_is_refused(storage: Run) -> None:
    asked = {"disks": [{**DATA, "quota": True}], "directories": [{"path": "/data/x", "quota": "200G"}]}
    (row,) = storage(state="planned", **asked)["requirements"]
    assert "more than its disk" in row["problem"]


def test_absent_asks_for_nothing_and_leaves_nothing_to_do_where_nothing_was_made(storage: Run) -> None:
    told = storage(OLD, state="absent", disks=[DATA], directories=[{"path": "/data/x"}])
    assert (told["changed"], told["changes"]) == (False, [])


def test_a_damaged_record_is_refused(storage: Run, tmp_path: Path) -> None:
    (tmp_path / "disks.json").write_text("{")
    assert "is damaged" in storage(disks=[DATA])["msg"]
