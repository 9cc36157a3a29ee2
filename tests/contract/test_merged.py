# SPDX-License-Identifier: GPL-3.0-or-later
"""A file of the host that a role reads and writes again keeps owner, mode and attributes: its entry says `merged` (config_files)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

UTILS = Path(__file__).parents[2] / "plugins/module_utils"
PACKAGES = sorted(path for path in UTILS.iterdir() if path.is_dir() and path.name.startswith("_"))
READS = re.compile(r"(\.text|\.bytes|\bread|text_of|read_text)$")
CONSTANT = re.compile(r'^(\w+)(?:: \w+)? = f?"([^"]*/[^"]+)"', re.MULTILINE)


def unmerged(sources: list[str]) -> Iterator[str]:
    """Yield the paths that one of the sources reads, and that an entry without `merged` or a mode of its own writes."""
    constants = {name: path for source in sources for name, path in CONSTANT.findall(source)}
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]

    def path_of(node: ast.expr) -> str:
        text = ast.unparse(node)
        return constants.get(text.rpartition(".")[2], text.strip("'"))

    calls = [node for node in nodes if isinstance(node, ast.Call) and node.args]
    read = {path_of(call.args[0]) for call in calls if READS.search(ast.unparse(call.func))}
    for node in nodes:
        if isinstance(node, ast.Dict):
            entry = {
                key.value: value
                for key, value in zip(node.keys, node.values, strict=True)
                if isinstance(key, ast.Constant)
            }
            path = path_of(entry["path"]) if {"path", "content"} <= entry.keys() else ""
            if (
                path in read
                and "/" in path
                and "rigwright" not in path
                and "merged" not in entry
                and None not in node.keys
            ):
                yield path


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_merged_files_keep_their_rights(package: Path) -> None:
    assert not list(unmerged([path.read_text() for path in package.rglob("*.py")]))


def test_unmerged_file_is_found() -> None:
    reads = 'X = "/etc/x.conf"\ntext = tree.text(X)\n'
    assert list(unmerged([reads, 'rows = [{"path": X, "content": text}]\n'])) == ["/etc/x.conf"]
    assert not list(unmerged([reads, 'rows = [{"path": X, "content": text, "merged": True}]\n']))
