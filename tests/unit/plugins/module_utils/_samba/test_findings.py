# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about a host that serves shares."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import findings
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.users import Account

from tests.unit.plugins.module_utils._samba.test_checks import DATA, FACTS, PARAMS


def by_id(**facts: Any) -> dict[str, tuple[str, str]]:
    found = findings.findings(PARAMS, dataclasses.replace(FACTS, **facts))
    return {entry["id"]: (entry["status"], entry["evidence"]) for entry in found}


def test_missing_disk_is_reported() -> None:
    status, evidence = by_id(mounts={"/data/sets": "/data"})["samba.disks"]
    assert (status, "data (/data)" in evidence) == ("warn", True)
    assert by_id(mounts={"/data/sets": "/data"}, mounted=["/data"])["samba.disks"][0] == "pass"


def test_unmanaged_and_deleted_users_are_reported() -> None:
    status, evidence = by_id(
        accounts={"alice": Account("", True), "eve": Account("", True), "gone": Account("", True, -1)}
    )["samba.unmanaged"]
    assert status == "warn"
    assert "let in by somebody else: eve" in evidence and "no longer users of the host: gone" in evidence
    assert by_id(accounts={"alice": Account("", True)})["samba.unmanaged"][0] == "pass"


def test_findings_without_a_subject_are_skipped() -> None:
    assert by_id()["samba.disks"] == ("skip", "no share is on a disk of its own")
    assert by_id(accounts={})["samba.unmanaged"] == ("skip", "Samba knows no user")


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
def test_read_only_share_is_reported(share: dict[str, Any], status: str, evidence: str) -> None:
    found = findings.findings({**PARAMS, "shares": [{**DATA, **share}]}, FACTS)
    (row,) = [entry for entry in found if entry["id"] == "samba.read_only"]
    assert (row["status"], evidence in row["evidence"]) == (status, True)


def test_unplanned_path_is_reported_in_check_mode() -> None:
    away = {"directories": [], "check": True}
    assert by_id(**away)["samba.paths"] == ("warn", "not there now: /data/sets")
    assert "samba.paths" not in by_id(**away, planned=["/data", "/data/sets"])
    assert "samba.paths" not in by_id(directories=[])


def test_older_protocol_is_reported() -> None:
    found = findings.findings({**PARAMS, "min_protocol": "SMB2_10"}, FACTS)
    assert ("samba.protocol", "warn") in [(entry["id"], entry["status"]) for entry in found]


def test_shares_of_the_replaced_file_are_named() -> None:
    evidence = "not in force since the role has replaced /etc/samba/smb.conf: media, homes"
    assert by_id(given_up=["media", "homes"])["samba.overridden"] == ("warn", evidence)
    assert by_id()["samba.overridden"][0] == "pass"
