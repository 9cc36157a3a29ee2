# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import findings
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.disks import Disk
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.model import Facts, Plan, Point, Work
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.request import read_entries


def by_name(plan: Plan, facts: Facts) -> dict[str, str]:
    return {row["id"]: row["status"] for row in findings.of_mounts(plan, facts)}


def test_disks_as_declared_pass_and_a_line_that_is_missing_fails() -> None:
    assert by_name(Plan(), Facts()) == {"storage.disks": "skip", "storage.mount_points": "skip"}
    assert by_name(Plan(fstab="UUID=1 /data ext4"), Facts())["storage.disks"] == "fail"
    assert by_name(Plan(gone={"A": {"mount": "/old"}}), Facts())["storage.disks"] == "fail"


def test_late_disk_is_reported_with_its_mount_unit() -> None:
    (entry,), _refused = read_entries([{"serial": "B", "role": "data"}])
    work = Work(entry, Disk("/dev/sdb", serial="B"), "B", {"uuid": "u"}, mount=True)
    found = next(findings.of_mounts(Plan([work], fstab=work.line), Facts(fstab=work.line)))
    assert (found["status"], found["evidence"]) == (
        "fail",
        "not done: /data is not mounted, though /dev/sdb (B) is there",
    )
    assert "`systemctl start 'data.mount'`" in found["remedy"]


def test_refusal_is_reported_with_its_remedy() -> None:
    row: Problem = {
        "ok": False,
        "variable": "storage_disks",
        "problem": "names A, and no disk is called so",
        "remedy": "put it back",
    }
    (found,) = findings.of_mounts(Plan(requirements=[row]), Facts())
    assert (found["status"], found["remedy"]) == ("fail", "put it back")
    assert found["evidence"] == "storage_disks names A, and no disk is called so"


@pytest.mark.parametrize(("immutable", "status"), [(True, "pass"), (False, "fail"), (None, "warn")])
def test_writable_mount_point_is_reported(immutable: bool | None, status: str) -> None:
    assert by_name(Plan(), Facts(points={"/data": Point(True, immutable=immutable)}))["storage.mount_points"] == status


@pytest.mark.parametrize(("used", "status"), [(89, "pass"), (90, "warn"), (98, "fail")])
def test_nearly_full_disk_is_reported(used: int, status: str) -> None:
    found = findings.of_space({"/data": (used, 100), "/scratch": (1, 100)})
    assert (found["status"], f"/data {used}% of 100 B" in found["evidence"]) == (status, True)


def test_quotas_are_reported_where_declared() -> None:
    assert [row["id"] for row in findings.of_directories([], [], requested=True)] == ["storage.directories"]
    quotas = findings.of_directories(["/data/x"], ["/data/x 5 KiB"], requested=True)
    assert [row["status"] for row in quotas] == ["fail", "fail"]


def test_findings_without_a_request_are_skipped() -> None:
    assert findings.of_space({})["status"] == "skip"
    assert [row["status"] for row in findings.of_directories([], [], requested=False)] == ["skip"]
    assert [row["status"] for row in findings.of_directories([], [], requested=True)] == ["pass"]


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ('{"smart_status": {"passed": true}}', "pass"),
        ('{"smart_status": {"passed": false}}', "fail"),
        ('{"smartctl": {"exit_status": 2}}', "skip"),
        ("", "skip"),
    ],
)
def test_a_disk_without_smart_is_no_failure(answer: str, status: str) -> None:
    found = findings.of_smart("S1", "/dev/sda", 0, answer)
    # Each disk has its own: one that is well hides none that fails.
    assert (found["status"], found["id"]) == (status, "storage.smart_S1")
