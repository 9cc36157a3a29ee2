# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and unit for the next boot."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import boot
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

NAME = "gpu_mig"
ONE = {"devices": ["GPU-1"], "mode": "enabled"}
UNIT = "rigwright-gpu-mig.service"


def declare(root: Path, changes: dict[str, Any], check: bool = False) -> list[str]:
    tree = Tree(str(root))
    prepared = boot.prepare(tree, NAME, "_gpu.mode.boot", boot.read_declared(tree, NAME), changes)
    changed = [*prepared.changed]
    if not check:
        commands: list[str] = []
        prepared.write(
            cast(AnsibleModule, SimpleNamespace(run_command=lambda line, **_options: commands.append(" ".join(line))))
        )
        changed += commands
    return changed


def declared(root: Path) -> Any:
    return json.loads((root / "var/lib/rigwright_gpu_mig/declared.json").read_text())["gpus"]


def test_second_declaration_changes_nothing(tmp_path: Path) -> None:
    changed = declare(tmp_path, {"GPU-1": ONE})
    assert [Path(path).name for path in changed] == ["gpu_mig.pyz", "declared.json", UNIT, UNIT]
    assert declared(tmp_path) == {"GPU-1": ONE}
    link = tmp_path / f"etc/systemd/system/multi-user.target.wants/{UNIT}"
    assert str(link.readlink()) == f"/etc/systemd/system/{UNIT}"
    assert declare(tmp_path, {"GPU-1": ONE}) == []


def test_daemon_reload_only_where_systemd_runs(tmp_path: Path) -> None:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert declare(tmp_path, {"GPU-1": ONE})[-1] == "systemctl daemon-reload"
    assert "systemctl daemon-reload" not in declare(tmp_path, {"GPU-2": ONE})


def test_tasks_for_other_gpus_keep_declarations(tmp_path: Path) -> None:
    declare(tmp_path, {"GPU-1": ONE})
    declare(tmp_path, {"GPU-2": ONE})
    assert list(declared(tmp_path)) == ["GPU-1", "GPU-2"]
    declare(tmp_path, {"GPU-1": None})
    assert list(declared(tmp_path)) == ["GPU-2"]


def test_last_declaration_removes_unit_and_files(tmp_path: Path) -> None:
    declare(tmp_path, {"GPU-1": ONE})
    assert declare(tmp_path, {"GPU-1": None})
    assert [path for path in tmp_path.rglob("*") if not path.is_dir() or path.name.startswith("rigwright")] == []
    assert declare(tmp_path, {"GPU-1": None}) == []


def test_program_directory_stays_for_other_modules(tmp_path: Path) -> None:
    declare(tmp_path, {"GPU-1": ONE})
    other = tmp_path / boot.program_path("gpu_mode").lstrip("/")
    other.touch()
    declare(tmp_path, {"GPU-1": None})
    assert [path.name for path in other.parent.iterdir()] == ["gpu_mode.pyz"]


def test_check_mode_reports_paths_and_writes_nothing(tmp_path: Path) -> None:
    assert len(declare(tmp_path, {"GPU-1": ONE}, check=True)) == 4
    assert list(tmp_path.iterdir()) == []


def test_damaged_declaration_is_refused(tmp_path: Path) -> None:
    declare(tmp_path, {"GPU-1": ONE})
    (tmp_path / "var/lib/rigwright_gpu_mig/declared.json").write_text("{")
    with pytest.raises(Refusal, match=r"rigwright_gpu_mig/declared.json is damaged"):
        declare(tmp_path, {"GPU-2": ONE})


@pytest.mark.parametrize("path", [boot.program_path(NAME), boot.unit_path(NAME), boot.link_path(NAME)])
def test_edited_or_removed_files_are_restored(tmp_path: Path, path: str) -> None:
    declare(tmp_path, {"GPU-1": ONE})
    place = tmp_path / path.lstrip("/")
    if not place.is_symlink():
        place.write_text("other")
        assert declare(tmp_path, {"GPU-1": ONE}) == [path]
    place.unlink()
    assert declare(tmp_path, {"GPU-1": ONE}) == [path]
    assert declare(tmp_path, {"GPU-1": ONE}) == []


def test_unit_starts_after_the_given_modules() -> None:
    text = boot.unit_text("gpu_mig", "/opt/rigwright/python/bin/python3", after=["gpu_mode"])
    assert " rigwright-gpu-mode.service\n" in text
    assert "Before=nvidia-cdi-refresh.service docker.service" in text
    assert "ConditionPathExists=/var/lib/rigwright_gpu_mig/declared.json\n" in text
    assert "After=systemd-modules-load.service nvidia-persistenced.service" in text
    assert "ExecStart=/opt/rigwright/python/bin/python3 -I -B /usr/local/lib/rigwright/gpu_mig.pyz\n" in text
