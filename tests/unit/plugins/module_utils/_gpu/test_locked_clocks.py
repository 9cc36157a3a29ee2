# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of locked clocks."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import boot as gpu_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import files
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import locked_clocks as record
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

LOCKED = {"GPU-a": {"locked_gpu_clocks": [1200, 1500]}}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    boot(tmp_path, "first")
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    return Tree(str(tmp_path))


def boot(root: Path, name: str) -> None:
    place = root / record.BOOT_ID.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"{name}\n")


def test_locked_clocks_end_with_the_boot(tree: Tree, tmp_path: Path) -> None:
    record.write_locked(tree, LOCKED)
    assert record.read_locked(tree) == LOCKED
    boot(tmp_path, "second")
    assert record.read_locked(tree) == {}


def test_locked_clocks_end_when_the_driver_is_loaded_again(tree: Tree, tmp_path: Path) -> None:
    record.write_locked(tree, LOCKED)
    # As the kernel does it: another directory, in a place of its own.
    (tmp_path / "sys/module/other").mkdir()
    (tmp_path / "sys/module/nvidia").rmdir()
    (tmp_path / "sys/module/other").rename(tmp_path / "sys/module/nvidia")
    assert record.read_locked(tree) == {}


def test_a_record_of_nothing_is_no_file_and_no_directory(tree: Tree) -> None:
    record.write_locked(tree, LOCKED)
    record.write_locked(tree, {"GPU-a": {}})
    assert tree.names("/var/lib") == []
    # Also where there was none.
    record.write_locked(tree, {})


def test_declaration_keeps_the_directory(tree: Tree) -> None:
    record.write_locked(tree, LOCKED)
    tree.replace(gpu_boot.declared_path(record.NAME), files.text(LOCKED))
    record.write_locked(tree, {})
    assert tree.names(files.home(record.NAME)) == ["declared.json"]


def test_a_damaged_record_is_refused(tree: Tree) -> None:
    tree.replace(record.LOCKED, b"{")
    with pytest.raises(Refusal, match=r"/var/lib/rigwright_gpu_mode/locked.json is damaged"):
        record.read_locked(tree)
