# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from harness.testing import selection
from harness.testing.stage import ROOT

ROLES = sorted(path.name for path in (ROOT / "roles").iterdir() if path.is_dir())


def names(role: str) -> set[str]:
    return {"/".join([*path.parts[4:-1], path.stem]) for path in selection.unit_tests_of(role)}


@pytest.mark.parametrize(
    ("role", "tests"),
    [
        ("gpu_sharing", {"_gpu/mig/test_search", "_gpu/mps/test_apply", "_gpu/mode/test_plan", "test_gpu_mig"}),
        ("nvidia_driver", {"_nvidia/test_driver_change", "_nvidia/test_facts", "_nvidia/test_driver_choice"}),
        ("gpu_health", {"_gpu/health/test_xid_log", "_gpu/test_state", "_gpu/test_nvml"}),
        (
            "backup",
            {"_backup/test_restic_outcome", "_backup/test_repository", "_manifest/test_storage", "_system/test_mounts"},
        ),
        ("firewall", {"_system/test_listeners", "_system/test_systemd_run", "_core/test_config_files_run"}),
        ("storage", {"_storage/test_disks", "_storage/test_lvm_cache", "test_dataset_cache"}),
    ],
)
def test_tests_of_what_a_role_reaches(role: str, tests: set[str]) -> None:
    assert tests <= names(role)


@pytest.mark.parametrize("role", ROLES)
def test_every_reached_plugin_has_its_test_selected(role: str) -> None:
    reached = {
        path
        for path in selection.files_reached_by(role)
        if path.is_relative_to(ROOT / "plugins/module_utils") or path.parent.name == "modules"
    }
    chosen = {selection.subject_of(ROOT / path, ROOT) for path in selection.unit_tests_of(role)}
    tested = {selection.subject_of(path, ROOT) for path in (ROOT / "tests/unit/plugins").rglob("test_*.py")}
    assert (reached & tested) - chosen == set()


def test_tests_of_other_roles_are_left_out() -> None:
    assert names("mirrors").isdisjoint({"_samba/test_checks", "_gpu/mig/test_search", "test_dataset_cache"})


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in {
        "roles/x/tasks/main.yml": "- rigwright.workstation.act:\n- include_role: {name: rigwright.workstation.common}\n",
        "roles/common/tasks/main.yml": "- debug: {msg: '{{ 1 | rigwright.workstation.half }}'}\n",
        "plugins/action/act.py": "def run(self): return self._execute_module('rigwright.workstation.act_apply')\n",
        "plugins/modules/act_apply.py": (
            'DOCUMENTATION = "M(rigwright.workstation.other)"\n'
            "from ansible_collections.rigwright.workstation.plugins.module_utils._x import deep\n"
        ),
        "plugins/modules/other.py": "",
        "plugins/filter/numbers.py": 'FILTERS = {"half": None}\n',
        "plugins/module_utils/_x/deep.py": "",
        "tests/unit/plugins/module_utils/_x/test_deep_water.py": "",
        "tests/unit/plugins/modules/test_other.py": "",
        "tests/unit/plugins/filter/test_numbers.py": "",
        "tests/unit/helper.py": "from ansible_collections.rigwright.workstation.plugins.module_utils._x.deep import y\n",
        "tests/unit/test_by_helper.py": "from tests.unit import helper\n",
        "tests/unit/test_by_name.py": "ROLE = 'x'\n",
        "tests/unit/test_of_nothing.py": "xx = 1\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_selection_follows_actions_filters_imports_and_helpers(checkout: Path) -> None:
    found = {path.name for path in selection.unit_tests_of("x", checkout)}
    assert found == {"test_deep_water.py", "test_numbers.py", "test_by_helper.py", "test_by_name.py"}
