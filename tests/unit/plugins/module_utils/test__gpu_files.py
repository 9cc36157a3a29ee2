# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of GPUs are whole, or they are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils import _gpu_files as files
from ansible_collections.rigwright.workstation.plugins.module_utils._nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._tree import Tree

PATH = f"{files.home('gpu_test')}/kept.json"
GPUS = {"GPU-a": {"power_limit": "80 %"}}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(str(tmp_path))


def test_what_was_written_is_read_with_what_is_told_beside(tree: Tree) -> None:
    assert files.read(tree, PATH) == {"gpus": {}}
    tree.replace(PATH, files.text(GPUS, loaded="first"))
    assert files.read(tree, PATH) == {"gpus": GPUS, "loaded": "first"}
    assert Path(tree.at(PATH)).stat().st_mode & 0o777 == 0o644


def test_a_file_is_written_as_a_whole_or_not_at_all(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.replace(PATH, files.text(GPUS))

    def killed(_descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        tree.replace(PATH, files.text({}))
    assert files.read(tree, PATH) == {"gpus": GPUS}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", "null", "{}", '{"gpus": []}', '{"gpus": {"GPU-a": null}}', '{"gpus": {"GPU-a": {}}}']
)
def test_a_damaged_file_is_refused_with_its_name_and_a_remedy(tree: Tree, text: str) -> None:
    """Taking it for empty would lose what other tasks have declared."""
    tree.replace(PATH, text.encode())
    with pytest.raises(Refusal, match=r"/var/lib/rigwright_gpu_test/kept.json is damaged .*restore it, or remove it"):
        files.read(tree, PATH)


@pytest.mark.parametrize(
    ("path", "beside", "stays"),
    [
        ("/usr/local/lib/rigwright/gpu_test.pyz", "", False),
        ("/usr/local/lib/rigwright/gpu_test.pyz", "of_another_module", True),
        ("/var/lib/rigwright_gpu_test/kept.json", "", False),
        ("/etc/systemd/system/rigwright-gpu-test.service", "", True),
    ],
)
def test_the_last_file_takes_a_directory_of_the_collection_with_it(
    tree: Tree, path: str, beside: str, stays: bool
) -> None:
    tree.replace(path, b"content")
    folder = Path(tree.at(path)).parent
    if beside:
        (folder / beside).touch()
    tree.replace(path, None)
    assert (folder.exists(), tree.exists(path)) == (stays, False)
    # Also where it is gone already.
    tree.replace(path, None)
