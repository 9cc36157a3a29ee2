# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of several directories are read by their names, and one of a name counts."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._system.parts import by_name


def test_first_directory_has_a_name(tmp_path: Path) -> None:
    for path in ("etc/b.conf", "etc/a.conf.old", "lib/a.conf", "lib/b.conf"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    assert by_name(Tree(str(tmp_path)), ["/etc", "/none", "/lib"], ".conf") == ["/lib/a.conf", "/etc/b.conf"]
