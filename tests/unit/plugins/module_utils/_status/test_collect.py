# SPDX-License-Identifier: GPL-3.0-or-later
"""A view of all sources: one that fails is a row, and the others are shown."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._status import gpus, model, text
from ansible_collections.rigwright.workstation.plugins.module_utils._status.collect import Collector, Settings
from ansible_collections.rigwright.workstation.plugins.module_utils._system import gpu_snapshot

NOW = 1_764_076_800.0


def collector(tree: Tree) -> Collector:
    return Collector(Settings(), tree, "ws1")


def rows(view: model.View) -> dict[str, model.Row]:
    return {row.label: row for section in view.sections for row in section.rows}


def test_every_source_may_fail(tmp_path: Path) -> None:
    view = collector(Tree(str(tmp_path))).view(NOW)
    assert view.host == "ws1" and view.uptime_s == 0.0
    found = rows(view)
    assert found["snapshot"].values == (gpus.MISSING,)
    for label in ("memory", "disks"):
        assert found[label].values[0].startswith("cannot be read") and found[label].level == model.WARN
    assert text.plain(view, 53, 20)


def test_damaged_file_does_not_hide_the_others(tmp_path: Path) -> None:
    for path, content in (
        ("/var/lib/rigwright_backup/run-home.json", "{"),
        ("/var/lib/rigwright_gpu_health/report.json", "[" * 100_000),
        ("/proc/stat", "cpu  x y\n"),
        ("/proc/loadavg", "3.10 2.00 1.00\n"),
        ("/etc/rigwright/dataset-cache.json", "{"),
    ):
        file = tmp_path / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    found = rows(collector(Tree(str(tmp_path))).view(NOW))
    assert {"backup home", "GPU health", "CPU", "memory"} <= found.keys()
    assert "load 3.10" in found["CPU"].values


def test_second_view_has_rates(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    stat = tmp_path / "proc/stat"
    stat.write_text("cpu  100 0 0 900 0 0 0 0\ncpu0 1\n")
    source = collector(Tree(str(tmp_path)))
    assert rows(source.view(NOW))["CPU"].share is None
    stat.write_text("cpu  150 0 0 950 0 0 0 0\ncpu0 1\n")
    assert rows(source.view(NOW + 1))["CPU"].share == 0.5


def test_snapshot_is_the_first_section(tmp_path: Path) -> None:
    path = tmp_path / gpu_snapshot.PATH.lstrip("/")
    path.parent.mkdir(parents=True)
    gpu = {"index": 0, "name": "NVIDIA H200", "memory_total_mib": 1024, "memory_used_mib": 512, "processes": []}
    path.write_text(json.dumps({"format": 1, "time": NOW - 60, "interval_s": 15, "gpus": [gpu]}))
    view = collector(Tree(str(tmp_path))).view(NOW)
    assert view.sections[0].title == "GPUs" and "0 H200" in rows(view)
    assert model.stale(view.sections[0], NOW) == "stale 60 s"


def test_cache_is_that_of_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "etc/rigwright/dataset-cache.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"cache": "/fast/cache"}))
    assert collector(Tree(str(tmp_path))).cache() == "/fast/cache"
    path.write_text(json.dumps({"cache": 7}))
    assert collector(Tree(str(tmp_path))).cache() == ""
