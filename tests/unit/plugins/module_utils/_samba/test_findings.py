# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about a host that serves shares."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import findings
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.users import Account

from tests.unit.plugins.module_utils._samba.test_checks import ASKED, DATA, SEEN


def said(**seen: Any) -> dict[str, tuple[str, str]]:
    found = findings.findings(ASKED, dataclasses.replace(SEEN, **seen))
    return {one["id"]: (one["status"], one["evidence"]) for one in found}


def test_a_missing_disk_is_told() -> None:
    status, evidence = said(mounts={"/data/sets": "/data"})["samba.disks"]
    assert (status, "data (/data)" in evidence) == ("warn", True)
    assert said(mounts={"/data/sets": "/data"}, mounted=["/data"])["samba.disks"][0] == "pass"


def test_who_was_let_in_by_hand_and_who_left_the_host_is_told() -> None:
    status, evidence = said(
        accounts={"alice": Account("", True), "eve": Account("", True), "gone": Account("", True, -1)}
    )["samba.strangers"]
    assert status == "warn"
    assert "let in by somebody else: eve" in evidence and "no longer users of the host: gone" in evidence
    assert said(accounts={"alice": Account("", True)})["samba.strangers"][0] == "pass"


def test_nothing_passes_where_there_is_nothing() -> None:
    assert said()["samba.disks"] == ("skip", "no share lies on a disk of its own")
    assert said(accounts={})["samba.strangers"] == ("skip", "Samba knows no user")


@pytest.mark.parametrize(
    ("share", "status", "evidence"),
    [
        ({"mode": "2775"}, "warn", "although the rights of the directory say that a group may: data"),
        ({"default_acl": True}, "warn", "nobody can write over the network"),
        ({"mode": "2775", "read_only": False}, "pass", "each share has somebody who can write to it"),
        ({"mode": "2775", "write_list": ["alice"]}, "pass", "each share has somebody who can write to it"),
        ({"mode": "0755"}, "pass", "read-only for everybody: data"),
    ],
)
def test_a_share_that_nobody_can_write_to_is_told(share: dict[str, Any], status: str, evidence: str) -> None:
    found = findings.findings({**ASKED, "shares": [{**DATA, **share}]}, SEEN)
    (row,) = [one for one in found if one["id"] == "samba.read_only"]
    assert (row["status"], evidence in row["evidence"]) == (status, True)


def test_a_path_that_no_earlier_task_makes_is_told_in_check_mode() -> None:
    away = {"directories": [], "check": True}
    assert said(**away)["samba.paths"] == ("warn", "not there now: /data/sets")
    assert "samba.paths" not in said(**away, planned=["/data", "/data/sets"])
    assert "samba.paths" not in said(directories=[])


def test_an_older_protocol_is_told() -> None:
    found = findings.findings({**ASKED, "min_protocol": "SMB2_10"}, SEEN)
    assert ("samba.protocol", "warn") in [(one["id"], one["status"]) for one in found]
