# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Users and the owners of processes, below a root directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import owners
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "etc").mkdir()
    (tmp_path / "proc" / "42").mkdir(parents=True)
    return Tree(str(tmp_path))


def test_user_is_found_by_number(tree: Tree) -> None:
    Path(tree.at("/etc/passwd")).write_text(
        "root:x:0:0::/root:/bin/sh\nann:x:1001:1001:Ann\u2028bob:/home/ann:/bin/sh\n"
    )
    assert owners.user_names(tree) == {0: "root", 1001: "ann"}


@pytest.mark.parametrize("line", ["", "+::::::", "ann:x:1001", "ann:x:many:1::/:/bin/sh"])
def test_line_without_a_number_is_left_out(tree: Tree, line: str) -> None:
    Path(tree.at("/etc/passwd")).write_text(f"{line}\n")
    assert owners.user_names(tree) == {}


def test_owner_is_the_real_user(tree: Tree) -> None:
    Path(tree.at("/proc/42/status")).write_text("Name:\tx\nUid:\t1001\t0\t0\t0\n")
    assert owners.owner_of(tree, 42) == 1001


def test_ended_process_has_no_owner(tree: Tree) -> None:
    assert owners.owner_of(tree, 42) is None
