# SPDX-License-Identifier: GPL-3.0-or-later
"""What the record keeps of a repository; how it comes about: test__backup_open.py."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.record import (
    RepositoryRecord,
    RepositorySettings,
    findings,
    read_password,
    short,
)

ASKED = RepositorySettings("place", "fingerprint", "", "access", "owner")
KNOWN = RepositoryRecord(ASKED, "id", "key", ("old",), ("kept",))


def test_a_record_survives_writing_and_reading() -> None:
    assert RepositoryRecord.of(json.loads(json.dumps(KNOWN.row()))) == KNOWN


@pytest.mark.parametrize("row", [None, "x", {}, {"place": "an older layout"}, {**KNOWN.row(), "asked": {"what": 1}}])
def test_a_damaged_record_is_empty(row: Any) -> None:
    assert RepositoryRecord.of(row) == RepositoryRecord()


def test_changed_settings_and_old_keys_make_it_due() -> None:
    quiet = dataclasses.replace(KNOWN, retire=())
    assert not quiet.is_due(ASKED) and KNOWN.is_due(ASKED)
    for field in dataclasses.fields(RepositorySettings):
        assert quiet.is_due(dataclasses.replace(ASKED, **{field.name: "another"})), field.name


def test_keys_that_a_server_has_kept_are_all_named() -> None:
    record = {"nas": dataclasses.replace(KNOWN, kept=("abc", "def")).row(), "gone": KNOWN.row()}
    (row,) = findings(record, ["nas", "new"])
    assert row["id"] == "backup.old_password.nas"
    assert "key remove abc" in row["remedy"] and "key remove def" in row["remedy"]
    assert findings({"nas": RepositoryRecord(ASKED, "id", "key").row()}, ["nas"]) == []


def test_a_password_is_read_as_restic_reads_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b" correct horse \r\n")
    assert read_password(str(tmp_path / "file")) == "correct horse"
    assert read_password(str(tmp_path / "none")) == ""


def test_a_key_has_one_name_for_all_versions_of_restic() -> None:
    assert short("736d20973e78567c7ac3") == short("736d2097") == "736d2097"
