# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from harness import selection
from harness.stage import ROOT

ROLES = sorted(path.name for path in (ROOT / "roles").iterdir() if path.is_dir())


def names(role: str) -> set[str]:
    return {path.stem for path in selection.unit_tests_of(role)}


@pytest.mark.parametrize(
    ("role", "tests"),
    [
        ("gpu_sharing", {"test__mig_search", "test__mps_apply", "test__gpu_mode", "test_gpu_mig"}),
        ("nvidia_driver", {"test__nvidia_change", "test__gpu_host", "test__gpu_plan"}),
        ("gpu_health", {"test__xid_log", "test__gpu_state", "test__nvml"}),
        ("backup", {"test__restic", "test__backup_open", "test__manifest_storage", "test__mounts"}),
        ("firewall", {"test__listeners", "test_systemd_units", "test_config_files_apply"}),
        ("storage", {"test__disk_facts", "test__lvm_cache", "test_dataset_cache"}),
    ],
)
def test_tests_of_what_a_role_reaches(role: str, tests: set[str]) -> None:
    assert tests <= names(role)


@pytest.mark.parametrize("role", ROLES)
def test_every_reached_plugin_has_its_test_selected(role: str) -> None:
    reached = {path for path in selection.files_reached_by(role) if path.parent.name in ("module_utils", "modules")}
    chosen = {selection.subject_of(ROOT / path, ROOT) for path in selection.unit_tests_of(role)}
    tested = {selection.subject_of(path, ROOT) for path in (ROOT / "tests/unit/plugins").rglob("test_*.py")}
    assert (reached & tested) - chosen == set()


def test_tests_of_other_roles_are_left_out() -> None:
    assert names("mirrors").isdisjoint({"test__samba_plan", "test__mig_search", "test_dataset_cache"})


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in {
        "roles/x/tasks/main.yml": "- rigwright.workstation.act:\n- include_role: {name: rigwright.workstation.common}\n",
        "roles/common/tasks/main.yml": "- debug: {msg: '{{ 1 | rigwright.workstation.half }}'}\n",
        "plugins/action/act.py": "def run(self): return self._execute_module('rigwright.workstation.act_apply')\n",
        "plugins/modules/act_apply.py": (
            'DOCUMENTATION = "M(rigwright.workstation.other)"\n'
            "from ansible_collections.rigwright.workstation.plugins.module_utils import _deep\n"
        ),
        "plugins/modules/other.py": "",
        "plugins/filter/numbers.py": 'FILTERS = {"half": None}\n',
        "plugins/module_utils/_deep.py": "",
        "tests/unit/plugins/module_utils/test__deep_water.py": "",
        "tests/unit/plugins/modules/test_other.py": "",
        "tests/unit/plugins/filter/test_numbers.py": "",
        "tests/unit/helper.py": "from ansible_collections.rigwright.workstation.plugins.module_utils._deep import y\n",
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
    assert found == {"test__deep_water.py", "test_numbers.py", "test_by_helper.py", "test_by_name.py"}
