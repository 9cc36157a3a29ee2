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
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import nvidia_driver as nvidia_driver_role

from tests.unit.support.plan import run_plan

Run = Callable[..., dict[str, Any]]
CONTEXT = {"host_name": "this host"}


def test_check_mode_reports_unfinished_packages(run_module: Run, commands: list[list[str]], tmp_path: Path) -> None:
    status = tmp_path / "var/lib/dpkg/status"
    whole, half = (f"Package: libcuda1\nStatus: install ok {word}" for word in ("installed", "unpacked"))
    assert whole in status.read_text()
    before = run_plan(run_module, nvidia_driver_role, CONTEXT, check=True, lock=False)
    assert [before[key] for key in ("unfinished", "unsettled", "pending")] == [[], False, False]
    status.write_text(status.read_text().replace(whole, half))
    result = run_plan(run_module, nvidia_driver_role, CONTEXT, check=True, lock=False)
    assert [result[key] for key in ("unfinished", "unsettled", "pending")] == [["libcuda1"], True, True]
    # What is taken away need not be whole.
    assert run_plan(run_module, nvidia_driver_role, CONTEXT, state="absent")["unsettled"] is False


def test_absent_ignores_programs_if_no_driver_goes(run_module: Run, commands: list[list[str]], tmp_path: Path) -> None:
    assert run_plan(run_module, nvidia_driver_role, CONTEXT, state="absent")["requirements"] == []
    record = tmp_path / RECORD.lstrip("/")
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"installed": ["libcuda1", "nvidia-driver-cuda"]}))
    result = run_plan(run_module, nvidia_driver_role, CONTEXT, state="absent")
    assert result["going"] == ["libcuda1", "nvidia-driver-cuda"]
    assert [row["ok"] for row in result["requirements"]] == [False]


def due(result: dict[str, Any]) -> set[str]:
    return {name for name, value in result.items() if name.endswith("_due") and value}


def test_due_is_what_is_not_in_place(run_module: Run, commands: list[list[str]], tmp_path: Path) -> None:
    first = run_plan(run_module, nvidia_driver_role, CONTEXT, lock=False)
    assert due(first) == {"repository_due", "install_due", "modprobe_due", "files_due"}
    for row in first["modprobe_files"]:
        file = tmp_path / row["path"].lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(row["content"])
        file.chmod(0o644)
    assert "modprobe_due" not in due(run_plan(run_module, nvidia_driver_role, CONTEXT, lock=False))
    assert "modprobe_due" in due(
        run_plan(run_module, nvidia_driver_role, CONTEXT, lock=False, module_options={"NVreg_X": 1})
    )


def test_absent_is_due_for_nothing_without_the_role(run_module: Run, commands: list[list[str]]) -> None:
    assert due(run_plan(run_module, nvidia_driver_role, CONTEXT, state="absent")) == set()


def test_verification_runs_nvidia_smi_as_another_user(run_module: Run, commands: list[list[str]]) -> None:
    result = run_plan(run_module, nvidia_driver_role, kind="verify", context=CONTEXT, lock=False)
    found = {row["id"]: row["status"] for row in result["findings"]}
    assert (found["nvidia_driver.matches"], found["nvidia_driver.nvidia_smi"]) == ("pass", "pass")
    assert commands[-1] == ["runuser", "--user", "nobody", "--", "nvidia-smi", "-L"]


def test_packages_held_as_one_unit(tmp_path: Path) -> None:
    names = ["bash", "libcuda1", "libcuda1:i386", "linux-image-6.12.117+deb13-amd64", "linux-image-amd64", "nvidia-smi"]

    def run(command: Sequence[str]) -> tuple[int, str, str]:
        rows = [(name.partition(":")[0], name.partition(":")[2] or "amd64") for name in names]
        shown = "".join(f"{name}\t{architecture}\t1\tinstall\tinstalled\n" for name, architecture in rows)
        return 0, {"dpkg": "amd64\n", "dpkg-query": shown}[command[0]], ""

    held = locked_names(Host(run, str(tmp_path)))
    assert held == ["libcuda1", "libcuda1:i386", "linux-image-amd64", "nvidia-smi"]
