# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plan of a recorded host returns, with scripted programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_change import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import RECORD
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_run import locked_names
from ansible_collections.rigwright.workstation.plugins.modules import nvidia_driver_plan

Run = Callable[..., dict[str, Any]]


def test_check_mode_reports_unfinished_packages(run_module: Run, commands: list[list[str]], tmp_path: Path) -> None:
    status = tmp_path / "var/lib/dpkg/status"
    whole, half = (f"Package: libcuda1\nStatus: install ok {word}" for word in ("installed", "unpacked"))
    assert whole in status.read_text()
    before = run_module(nvidia_driver_plan, check=True, lock=False)
    assert [before[key] for key in ("unfinished", "unsettled", "pending")] == [[], False, False]
    status.write_text(status.read_text().replace(whole, half))
    result = run_module(nvidia_driver_plan, check=True, lock=False)
    assert [result[key] for key in ("unfinished", "unsettled", "pending")] == [["libcuda1"], True, True]
    # What is taken away need not be whole.
    assert run_module(nvidia_driver_plan, state="absent")["unsettled"] is False


def test_absent_ignores_programs_if_no_driver_goes(run_module: Run, commands: list[list[str]], tmp_path: Path) -> None:
    assert run_module(nvidia_driver_plan, state="absent")["requirements"] == []
    record = tmp_path / RECORD.lstrip("/")
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"brought": ["libcuda1", "nvidia-driver-cuda"]}))
    result = run_module(nvidia_driver_plan, state="absent")
    assert result["going"] == ["libcuda1", "nvidia-driver-cuda"]
    assert [row["ok"] for row in result["requirements"]] == [False]


def test_packages_held_as_one_unit(tmp_path: Path) -> None:
    names = ["bash", "libcuda1", "libcuda1:i386", "linux-image-6.12.117+deb13-amd64", "linux-image-amd64", "nvidia-smi"]

    def run(command: Sequence[str]) -> tuple[int, str, str]:
        rows = [(name.partition(":")[0], name.partition(":")[2] or "amd64") for name in names]
        shown = "".join(f"{name}\t{architecture}\t1\tinstall\tinstalled\n" for name, architecture in rows)
        return 0, {"dpkg": "amd64\n", "apt-mark": "", "dpkg-query": shown}[command[0]], ""

    held = locked_names(Host(run, str(tmp_path)))
    assert held == ["libcuda1", "libcuda1:i386", "linux-image-amd64", "nvidia-smi"]
