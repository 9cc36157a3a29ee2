# SPDX-License-Identifier: GPL-3.0-or-later
"""What is declared for boots, and clocks that NVML cannot tell."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils import _gpu_mode_record as record
from ansible_collections.rigwright.workstation.plugins.module_utils._nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._tree import Tree

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


def test_locked_clocks_are_known_until_the_next_boot(tree: Tree, tmp_path: Path) -> None:
    record.write_locked(tree, LOCKED)
    assert record.read_locked(tree) == LOCKED
    boot(tmp_path, "second")
    assert record.read_locked(tree) == {}


def test_locked_clocks_are_known_until_the_driver_is_loaded_again(tree: Tree, tmp_path: Path) -> None:
    record.write_locked(tree, LOCKED)
    # As the kernel does it: another directory, in a place of its own.
    (tmp_path / "sys/module/other").mkdir()
    (tmp_path / "sys/module/nvidia").rmdir()
    (tmp_path / "sys/module/other").rename(tmp_path / "sys/module/nvidia")
    assert record.read_locked(tree) == {}


def test_a_record_of_nothing_is_no_file(tree: Tree) -> None:
    record.write_locked(tree, LOCKED)
    record.write_locked(tree, {"GPU-a": {}})
    assert not tree.exists(record.LOCKED)
    assert record.declared_text({}) == ""
    # Also where there was none.
    record.write_locked(tree, {})


def test_a_file_is_written_as_a_whole_or_not_at_all(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    record.write_locked(tree, LOCKED)

    def killed(_descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(record.os, "fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        record.write_locked(tree, {"GPU-a": {"locked_gpu_clocks": [1, 2]}})
    assert record.read_locked(tree) == LOCKED


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"gpus": []}', '{"gpus": {"GPU-a": null}}', "{}"])
def test_a_damaged_file_is_refused_with_its_name_and_a_remedy(tree: Tree, text: str) -> None:
    record.write(tree, record.DECLARED, b"x")
    with open(tree.at(record.DECLARED), "w", encoding="utf-8") as file:
        file.write(text)
    with pytest.raises(
        Refusal, match=r"/var/lib/rigwright_gpu_mode/declared.json is damaged .*restore it, or remove it"
    ):
        record.read_declared(tree)
