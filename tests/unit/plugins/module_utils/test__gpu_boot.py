# SPDX-License-Identifier: GPL-3.0-or-later
"""What is left for the next boot."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils import _gpu_boot as boot
from ansible_collections.rigwright.workstation.plugins.module_utils._nvml_errors import Refusal

ONE = {"devices": ["GPU-1"], "mode": "enabled"}
UNIT = "rigwright-gpu-mig.service"


def declare(root: Path, changes: dict[str, Any], check: bool = False) -> list[str]:
    prepared = boot.prepare("gpu_mig", "_nvml_errors", changes, root=str(root))
    changed = prepared.changed
    if not check:
        commands: list[str] = []
        prepared.write(
            cast("AnsibleModule", SimpleNamespace(run_command=lambda line, **_options: commands.append(" ".join(line))))
        )
        changed += commands
    return changed


def declared(root: Path) -> Any:
    return json.loads((root / "var/lib/rigwright_gpu_mig/declared.json").read_text())


def test_what_is_declared_is_there_once_and_the_second_time_changes_nothing(tmp_path: Path) -> None:
    changed = declare(tmp_path, {"GPU-1": ONE})
    assert [Path(path).name for path in changed] == ["gpu_mig.pyz", "declared.json", UNIT, UNIT]
    assert declared(tmp_path) == {"GPU-1": ONE}
    link = tmp_path / f"etc/systemd/system/multi-user.target.wants/{UNIT}"
    assert str(link.readlink()) == f"/etc/systemd/system/{UNIT}"
    assert declare(tmp_path, {"GPU-1": ONE}) == []


def test_systemd_is_told_where_it_runs(tmp_path: Path) -> None:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert declare(tmp_path, {"GPU-1": ONE})[-1] == "systemctl daemon-reload"
    assert "systemctl daemon-reload" not in declare(tmp_path, {"GPU-2": ONE})


def test_tasks_for_different_gpus_do_not_undo_each_other(tmp_path: Path) -> None:
    declare(tmp_path, {"GPU-1": ONE})
    declare(tmp_path, {"GPU-2": ONE})
    assert list(declared(tmp_path)) == ["GPU-1", "GPU-2"]
    declare(tmp_path, {"GPU-1": None})
    assert list(declared(tmp_path)) == ["GPU-2"]


def test_with_nothing_left_to_declare_unit_and_files_go(tmp_path: Path) -> None:
    declare(tmp_path, {"GPU-1": ONE})
    assert declare(tmp_path, {"GPU-1": None})
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []
    assert declare(tmp_path, {"GPU-1": None}) == []


def test_check_mode_tells_and_writes_nothing(tmp_path: Path) -> None:
    assert len(declare(tmp_path, {"GPU-1": ONE}, check=True)) == 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ['{"GPU-1"', "", "null", "[]", '"text"', '{"GPU-1": 3}', '{"GPU-1": {}}'])
def test_a_declaration_that_is_damaged_is_refused(tmp_path: Path, text: str) -> None:
    """Taking it for empty would lose what other tasks have declared."""
    declare(tmp_path, {"GPU-1": ONE})
    (tmp_path / "var/lib/rigwright_gpu_mig/declared.json").write_text(text)
    with pytest.raises(Refusal, match="is damaged"):
        declare(tmp_path, {"GPU-2": ONE})


def test_units_say_who_comes_first() -> None:
    text = boot.unit_text("gpu_mig", "/opt/rigwright/python/bin/python3", after=["gpu_mode"])
    assert " rigwright-gpu-mode.service\n" in text
    assert "Before=nvidia-cdi-refresh.service docker.service" in text
    assert "ExecStart=/opt/rigwright/python/bin/python3 -B /usr/local/lib/rigwright/gpu_mig.pyz\n" in text
