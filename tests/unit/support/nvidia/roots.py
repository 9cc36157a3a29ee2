# SPDX-License-Identifier: GPL-3.0-or-later
"""A root directory to write files and links into."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree


class Root:
    """A root directory to write files and links into."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = Tree(str(path))

    def write(self, name: str, content: str | bytes = b"") -> None:
        file = self.path / name.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)

    def link(self, name: str, target: str) -> None:
        link = self.path / name.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
