# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a set of files is due, next to what config_files itself would do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import (
    STORE,
    Record,
    State,
    Store,
    Transaction,
    Wanted,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_due import is_due
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree

FILE: Any = {"path": "/etc/a.conf", "content": "a\n"}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "etc").mkdir()
    return Tree(str(tmp_path))


@pytest.fixture
def file(tree: Tree) -> Path:
    """Return a file as the set wants it."""
    path = Path(tree.at(FILE["path"]))
    path.write_text(FILE["content"])
    path.chmod(0o644)
    return path


def test_a_file_is_due_until_it_is_as_wanted(tree: Tree, file: Path) -> None:
    assert is_due(tree, "x", [FILE]) is False
    file.chmod(0o600)
    assert is_due(tree, "x", [FILE]) is True
    file.chmod(0o644)
    file.write_text("b\n")
    assert is_due(tree, "x", [FILE]) is True
    file.unlink()
    assert is_due(tree, "x", [FILE]) is True


def test_a_directory_is_due_until_it_is_there(tree: Tree) -> None:
    assert is_due(tree, "x", [], ["/srv"]) is True
    Path(tree.at("/srv")).mkdir(0o755)
    assert is_due(tree, "x", [], ["/srv"]) is False


def test_a_set_that_was_cut_short_is_due(tree: Tree, file: Path) -> None:
    file.unlink()
    transaction = Transaction(
        Store("x", tree.at(STORE)), [Wanted(str(file), State("file", b"a\n", 0o644, os.geteuid(), os.getegid()))]
    )
    transaction.stage()
    transaction.commit()
    assert file.read_text() == FILE["content"]
    assert is_due(tree, "x", [FILE]) is True
    transaction.rollback()
    assert is_due(tree, "x") is False


def test_a_set_with_a_file_that_is_not_wanted_is_due(tree: Tree, file: Path) -> None:
    store = Store("x", tree.at(STORE))
    Path(store.path).mkdir(parents=True)
    store.save({FILE["path"]: Record(State())}, "1")
    assert is_due(tree, "x", [FILE]) is False
    assert is_due(tree, "x") is True
    store.save({FILE["path"]: Record(State()), "/etc/b.conf": Record(State())}, "2")
    assert is_due(tree, "x", [FILE]) is True
