# SPDX-License-Identifier: GPL-3.0-or-later
"""The role that `script/new-role` writes passes at once, in a copy of the tree in which nothing else is edited."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.bench import role_cost

from .copies import copy_tree, run
from .sources import CHECKOUT

# Each option of the command adds code; the long name breaks lines.
ROLES = {"probe": ["--unit", "--port", "9700", "--metric"], "watch_the_fans_of_a_host": ["--unit"], "notes": []}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the tree with these roles."""
    copy = copy_tree(tmp_path_factory.mktemp("tree"))
    (copy / ".gitignore").write_text("__pycache__/\n")
    run(copy, "git", "init", "--quiet")
    for name, options in ROLES.items():
        run(copy, "git", "add", "--all")
        run(copy, "git", "-c", "user.name=x", "-c", "user.email=x@x", "commit", "--quiet", "--message=x")
        run(copy, sys.executable, "-m", "harness", "new-role", name, *options)
    return copy


def test_new_roles_keep_the_contract_and_pass_their_tests(tree: Path) -> None:
    concerned = " or ".join([*ROLES, "page_is_as_the_code_makes_it", "architecture", "paths", "overrides", "floors"])
    run(tree, sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-k", concerned, "tests/contract",
        *(f"tests/unit/plugins/module_utils/_{role}" for role in ROLES))  # fmt: skip


def test_new_roles_pass_the_linters(tree: Path) -> None:
    run(tree, "ruff", "check", "--quiet", "--config", str(CHECKOUT / "pyproject.toml"), "plugins", "tests", "molecule")
    run(
        tree,
        "ruff",
        "format",
        "--check",
        "--quiet",
        "--config",
        str(CHECKOUT / "pyproject.toml"),
        "plugins",
        "tests",
        "molecule",
    )
    for role in ROLES:
        run(
            tree,
            "yamllint",
            "--strict",
            "--config-file",
            str(CHECKOUT / ".yamllint"),
            f"roles/{role}",
            f"molecule/{role}",
            "playbooks",
        )


def test_the_smallest_role_stays_small() -> None:
    """More is ceremony: make the shared code do it."""
    found = role_cost.smallest()
    assert found.files <= 12 and found.lines <= 195 and found.same_share <= 0.40
