# SPDX-License-Identifier: GPL-3.0-or-later
"""Key files, source files, and when they have to be written."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import (
    STORE,
    Record,
    State,
    Store,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.apt_source import (
    is_due,
    read_key,
    source_text,
)

from tests.unit.plugins.module_utils._core.test_openpgp import FINGERPRINT, KEY, SMUGGLED

FILES = {"/etc/a": "a\n", "/etc/b": "b\n"}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Return a host with FILES, which a set of config_files wrote."""
    (tmp_path / "etc").mkdir()
    for path, content in FILES.items():
        (tmp_path / path.lstrip("/")).write_text(content)
    store = Store("docker_packages", f"{tmp_path}{STORE}")
    for path in FILES:
        store.keep_original(path, State("missing"))
    store.save({path: Record(State("missing"), written="1") for path in FILES}, "first")
    return Tree(str(tmp_path))


def test_source_is_deb822() -> None:
    assert (
        source_text({"URIs": "https://repo.example", "Suites": "/"})
        == "Types: deb\nURIs: https://repo.example\nSuites: /\n"
    )


@pytest.mark.parametrize("name", SMUGGLED)
def test_key_file_with_another_key_is_not_taken(tmp_path: Path, name: str) -> None:
    (tmp_path / "key").write_bytes(KEY)
    assert read_key(Tree(str(tmp_path)), "/key", [FINGERPRINT.lower()]) == KEY.decode()
    (tmp_path / "key").write_bytes(SMUGGLED[name])
    assert read_key(Tree(str(tmp_path)), "/key", [FINGERPRINT]) == ""


def test_set_in_place_is_not_due(tree: Tree) -> None:
    assert not is_due(tree, "docker_packages", FILES, ["/etc/c"])


def test_set_is_due_when_a_file_differs(tree: Tree) -> None:
    assert is_due(tree, "docker_packages", {**FILES, "/etc/a": "other"})
    assert is_due(tree, "docker_packages", {**FILES, "/etc/c": "c"})
    assert is_due(tree, "docker_packages", {"/etc/a": "a\n"})
    assert is_due(tree, "another_set", FILES)


def test_set_is_due_when_its_key_was_removed(tree: Tree) -> None:
    Path(tree.at("/etc/b")).unlink()
    assert is_due(tree, "docker_packages", {**FILES, "/etc/b": ""})


def test_set_is_due_while_a_replaced_file_exists(tree: Tree) -> None:
    assert is_due(tree, "docker_packages", {"/etc/a": "a\n"}, ["/etc/b"])
