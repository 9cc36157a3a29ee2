# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof of the role backup reports what a rebuild would refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Config, Job
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import findings
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding

from tests.unit.support.damage import DAMAGE
from tests.unit.support.manifest.manifests import recorded, simple

JOBS = {name: Job(name, "disk", "ws", paths) for name, paths in (("dump", []), ("all", ["/"]))}
PLAIN = {**simple(("ext4 /", 4000, 1000), ("swap", 500, 0)), "made": "2026-01-02T03:04:05Z"}


def found(path: Path, content: bytes | None) -> Finding:
    if content is not None:
        path.write_bytes(content)
    (row,) = findings.rebuild(Config(manifest=str(path), jobs=JOBS))
    return row


def test_refusals_of_a_rebuild_are_reported(tmp_path: Path) -> None:
    row = found(tmp_path / "manifest.json", json.dumps(recorded()).encode())
    assert row["id"] == "backup.rebuild" and row["status"] == "warn"
    assert "linux_raid_member" in row["evidence"] and "backup_manifest" in row["remedy"]


def test_machine_that_can_be_rebuilt_passes(tmp_path: Path) -> None:
    row = found(tmp_path / "manifest.json", json.dumps(PLAIN).encode())
    assert row["status"] == "pass" and "2026-01-02T03:04:05Z" in row["evidence"]


def test_what_would_be_left_empty_is_named(tmp_path: Path) -> None:
    manifest = {**simple(("ext4 /", 4000, 1000), *(("ntfs", 100, 0),) * 6), "made": ""}
    row = found(tmp_path / "manifest.json", json.dumps(manifest).encode())
    assert row["status"] == "pass"
    names = ", ".join(f"sda{number} (ntfs)" for number in range(2, 7))
    assert row["evidence"].endswith(f"can be built again; {names}, 1 more would be left empty")


def test_machine_without_a_backup_is_skipped(tmp_path: Path) -> None:
    row = found(tmp_path / "manifest.json", None)
    assert row["status"] == "skip" and "no backup has written" in row["evidence"]


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_manifest_is_no_proof(tmp_path: Path, kind: str) -> None:
    row = found(tmp_path / "manifest.json", DAMAGE[kind](json.dumps(PLAIN).encode()))
    assert row["status"] == "warn" and "rigwright-backup run" in row["remedy"]


def test_backup_for_files_alone_needs_no_rebuild() -> None:
    home = {"home": Job("home", "disk", "ws", ["/home"])}
    for config in (Config(jobs=JOBS), Config(manifest="/none", jobs=home)):
        assert findings.rebuild(config) == []
