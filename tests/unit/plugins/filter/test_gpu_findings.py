# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpu_findings, and the playbook gpu_report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.rigwright.workstation.plugins.filter.gpu_findings import FilterModule

from harness.fakes import nvml as fake_nvml

CHECKOUT = Path(__file__).parents[4]


def test_filter_has_its_name() -> None:
    assert list(FilterModule().filters()) == ["gpu_findings"]


def test_the_playbook_shows_all_gpus_and_writes_them_to_a_file(
    run_plays: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plays = yaml.safe_load((CHECKOUT / "playbooks/gpu_report.yml").read_text())
    for play in plays:
        play["become"] = False
    with fake_nvml.fake(["H200", "RTX 4090"]) as machine:
        for name, value in machine.env.items():
            monkeypatch.setenv(name, value)
        done = run_plays(plays, "-e", f"gpu_report_file={tmp_path}/gpus.json")
        assert machine.writes == 0
    assert done.rc == 0, done.output
    evidence = {row["id"]: row["evidence"] for row in done.report["hosts"]["localhost"]["findings"]}
    assert "NVIDIA GeForce RTX 4090" in evidence["gpu_report.gpu1"]
    written = json.loads((tmp_path / "gpus.json").read_text())
    assert [gpu["name"] for gpu in written["localhost"]["gpus"]] == ["NVIDIA H200", "NVIDIA GeForce RTX 4090"]
