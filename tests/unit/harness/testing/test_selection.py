# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.sandbox.lab import Refusal
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
        ("storage", {"_storage/test_disks", "_storage/test_lvm_cache", "_dataset_cache/test_making"}),
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
    assert names("mirrors").isdisjoint({"_samba/test_checks", "_gpu/mig/test_search", "_dataset_cache/test_making"})


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


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        (
            "plugins/module_utils/_x/deep.py",
            {"test_deep_water.py", "test_by_helper.py", "test_by_full_name.py", "test_x.py"},
        ),
        ("plugins/filter/numbers.py", {"test_numbers.py", "test_by_full_name.py", "test_x.py"}),
        ("roles/x/tasks/main.yml", {"test_by_path.py", "test_x.py", "test_by_full_name.py"}),
        ("roles/x/templates/etc/x.conf.j2", {"test_by_path.py", "test_x.py", "test_by_full_name.py"}),
        ("playbooks/verify.yml", {"test_verify.py"}),
        ("tests/unit/helper.py", {"test_by_helper.py"}),
        ("tests/unit/test_of_nothing.py", {"test_of_nothing.py"}),
        ("docs/x.md", set()),
    ],
)
def test_change_selects_the_tests_that_reach_it(checkout: Path, changed: str, tests: set[str]) -> None:
    add(
        checkout,
        {
            "roles/x/templates/etc/x.conf.j2": "",
            "playbooks/verify.yml": "",
            "docs/x.md": "",
            "tests/unit/plugins/module_utils/_x/test_deep_water.py": (
                "from ansible_collections.rigwright.workstation.plugins.module_utils._x import deep\n"
            ),
            "tests/unit/plugins/filter/test_numbers.py": (
                "from ansible_collections.rigwright.workstation.plugins.filter import numbers\n"
            ),
            "tests/unit/test_by_path.py": 'from pathlib import Path\nFOLDER = Path() / "roles"\n',
            "tests/unit/test_by_full_name.py": "ROLE = 'rigwright.workstation.x'\n",
            "tests/unit/roles/test_x.py": "",
            "tests/unit/playbooks/test_verify.py": "",
        },
    )
    assert {path.name for path in selection.select([changed], checkout).tests} == tests


@pytest.mark.parametrize(
    ("changed", "roles"),
    [
        ("roles/x/vars/main.yml", ["x"]),
        ("molecule/x/vars.yml", ["x"]),
        ("plugins/module_utils/_x/deep.py", ["x"]),
        ("plugins/modules/other.py", []),
        ("docs/x.md", []),
    ],
)
def test_change_selects_the_roles_that_reach_it(checkout: Path, changed: str, roles: list[str]) -> None:
    add(
        checkout,
        {"roles/y/tasks/main.yml": "[]", "docs/x.md": "", "roles/x/vars/main.yml": "", "molecule/x/vars.yml": ""},
    )
    assert selection.select([changed], checkout).roles == roles


@pytest.mark.parametrize(
    "changed",
    [
        "plugins/modules/gone.py",
        "roles/x/tasks/gone.yml",
        "harness/x.py",
        "roles/common/tasks/main.yml",
        "molecule/shared/apply.yml",
        "tests/unit/conftest.py",
        "new",
    ],
)
def test_change_of_the_unknown_selects_everything(checkout: Path, changed: str) -> None:
    add(checkout, {"roles/y/tasks/main.yml": "[]"})
    everything = selection.select([changed], checkout)
    assert everything.tests == selection.all_unit_tests(checkout)
    assert (everything.roles, everything.reason) == (["x", "y"], f"{changed} concerns everything")


def test_broken_python_selects_everything(checkout: Path) -> None:
    add(checkout, {"plugins/modules/other.py": "def f(:\n"})
    assert selection.select(["plugins/modules/other.py"], checkout).tests == selection.all_unit_tests(checkout)


def test_scenario_depends_on_the_roles_that_it_names(checkout: Path) -> None:
    prepare = "- include_role: {name: rigwright.workstation.x}\n"
    add(checkout, {"roles/y/tasks/main.yml": "[]", "molecule/y/prepare.yml": prepare})
    assert selection.select(["roles/x/tasks/main.yml"], checkout).roles == ["x", "y"]


def test_unknown_base_is_refused(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    with pytest.raises(Refusal, match="git knows no commit '--output=/tmp/x'"):
        selection.changed_files("--output=/tmp/x", tmp_path)


def test_read_file_that_selects_no_test_is_a_miss(checkout: Path) -> None:
    name = "tests/unit/test_of_nothing.py"
    assert selection.misses({name: ["roles/x/tasks/main.yml", "harness/x.py", name]}, checkout) == [
        f"{name} reads roles/x/tasks/main.yml: selection.py does not know it"
    ]


def test_changed_files_are_those_of_the_branch_and_new_ones(tmp_path: Path) -> None:
    def git(*options: str) -> None:
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@y", *options], cwd=tmp_path, check=True)

    git("init", "--quiet", "--initial-branch=main")
    add(tmp_path, {"kept": "1", "edited": "1", "gone": "1"})
    git("add", ".")
    git("commit", "--quiet", "--message=first")
    git("switch", "--quiet", "--create=work")
    add(tmp_path, {"edited": "2", "committed": "1"})
    git("add", ".")
    git("commit", "--quiet", "--message=second")
    (tmp_path / "gone").unlink()
    add(tmp_path, {"new": "1", "a blank é": "1"})
    assert selection.changed_files("main", tmp_path) == ["a blank é", "committed", "edited", "gone", "new"]


def add(checkout: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
