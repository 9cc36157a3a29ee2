# SPDX-License-Identifier: GPL-3.0-or-later
"""Files by GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import files
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

PATH = f"{files.home('gpu_test')}/kept.json"
GPUS = {"GPU-a": {"power_limit": "80 %"}}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(str(tmp_path))


def test_written_entries_and_other_keys_are_read(tree: Tree) -> None:
    assert files.read(tree, PATH) == {"gpus": {}}
    tree.replace(PATH, files.text(GPUS, loaded="first"))
    assert files.read(tree, PATH) == {"gpus": GPUS, "loaded": "first"}
    assert Path(tree.at(PATH)).stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"gpus": {}, "gpus": {}}',
        "",
        "{",
        "[]",
        "3",
        "null",
        "{}",
        '{"gpus": []}',
        '{"gpus": {"GPU-a": null}}',
        '{"gpus": {"GPU-a": {}}}',
    ],
)
def test_damaged_file_is_refused_with_a_remedy(tree: Tree, text: str) -> None:
    """Refuse it: to accept it as empty would lose the declarations of other tasks."""
    tree.replace(PATH, text.encode())
    with pytest.raises(Refusal, match=r"/var/lib/rigwright_gpu_test/kept.json is damaged .*restore it, or remove it"):
        files.read(tree, PATH)
