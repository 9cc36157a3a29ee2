# SPDX-License-Identifier: GPL-3.0-or-later
"""The stages that `script/test --changed` chooses."""

from __future__ import annotations

import pytest

from harness.testing import changed


def names(files: list[str], hosts: str = "") -> list[str]:
    return [stage.name for stage in changed.stages_of(files, hosts)]


def test_page_needs_no_python_tools() -> None:
    assert names(["docs/samba.md"]) == ["words", "unit"]


def test_role_brings_its_lint_and_page() -> None:
    assert names(["roles/samba/tasks/main.yml"]) == ["yamllint", "words", "unit", "docs"]


def test_release_brings_the_scenarios_of_reached_roles() -> None:
    assert names(["roles/samba/tasks/main.yml"], "debian13")[-1] == "molecule:samba"
    assert "molecule:gpu_sharing" in names(["plugins/module_utils/_gpu/mig/plan.py"], "debian13")
    assert not [name for name in names(["docs/samba.md"], "debian13") if name.startswith("molecule:")]


@pytest.mark.parametrize(
    ("file", "stages"),
    [
        ("plugins/modules/samba_users.py", {"sanity", "archive", "site", "new_role", "upgrade"}),
        (
            "plugins/module_utils/_manifest/boot.py",
            {"sanity", "archive", "site", "upgrade", "bare_metal:debian12-bios"},
        ),
        ("plugins/module_utils/_service/service.py", {"sanity", "archive", "site", "upgrade", "new_role"}),
        ("tests/site/test_site.py", {"site"}),
        ("tests/upgrade/test_upgrade.py", {"upgrade"}),
        ("docs/samba.md", set()),
        ("requirements/dev.txt", {"sanity", "archive", "site", "upgrade", "new_role", "bare_metal:debian12-bios"}),
    ],
)
def test_merge_brings_all_that_the_change_reaches(file: str, stages: set[str]) -> None:
    large = {"sanity", "archive", "site", "upgrade", "new_role", "bare_metal:debian12-bios"}
    assert large & set(names([file], "all")) == stages


def test_deleted_python_selects_mypy() -> None:
    assert "mypy" in names(["plugins/modules/gone.py"])


def test_workflow_is_held_to_its_schema() -> None:
    assert "workflows" in names([".github/workflows/test.yml"])


def test_other_release_is_left_out() -> None:
    assert changed.without("debian13") == "!debian12"
