# SPDX-License-Identifier: GPL-3.0-or-later
"""Several hosts side by side, from a directory of snapshots."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._status import fleet, model, page, text

NOW = 1_764_076_800.0
GPU = {"index": 0, "name": "NVIDIA H200", "memory_total_mib": 1024, "memory_used_mib": 512, "processes": []}


def write(folder: Path, name: str, host: str, age: float = 0) -> None:
    snapshot = {"format": 1, "time": NOW - age, "interval_s": 15, "host": host, "gpus": [GPU]}
    (folder / name).write_text(json.dumps(snapshot))


def test_each_host_is_a_section_with_its_own_age(tmp_path: Path) -> None:
    write(tmp_path, "a.json", "ws1")
    write(tmp_path, "b.json", "ws2", age=60)
    write(tmp_path, "c.json", "")
    (tmp_path / "d.json").write_text("{")
    (tmp_path / "e.json").symlink_to("/etc/shadow")
    (tmp_path / "README").write_text("no snapshot")
    (tmp_path / ".a.json.part").write_text("{")
    view = fleet.view(str(tmp_path), NOW, 15)
    assert [section.title for section in view.sections] == ["ws1", "ws2", "c", "d", "e"]
    assert [model.stale(section, NOW) for section in view.sections] == ["", "stale 60 s", "", "", ""]
    shown = "\n".join(text.plain(view, 160, 50))
    assert "half written" in shown and "link or no regular file" in shown
    assert page.page(view).count("<section") == 5


def test_empty_directory_has_no_host(tmp_path: Path) -> None:
    assert text.plain(fleet.view(str(tmp_path), NOW, 15), 80, 24)[0].startswith("0 hosts")


def test_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        fleet.view(str(tmp_path / "nowhere"), NOW, 15)
