# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd reads every section of the units that plans and templates have: it ignores those that it does not know."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .sources import CHECKOUT

# systemd.unit(5) and the pages that it names.
SECTIONS = {"Unit", "Install", "Service", "Socket", "Timer", "Mount", "Automount", "Path", "Slice", "Scope", "Swap"}
# A section, and a setting in the way that systemd writes them.
SECTION = re.compile(r"^\[(\w+)\]\n(?:[#;].*\n)*[A-Z][A-Za-z]+=", re.MULTILINE)
FILES = [
    path
    for folder in ("plugins", "roles", "harness/scaffold")
    for path in sorted((CHECKOUT / folder).rglob("*"))
    if path.suffix in (".py", ".j2", ".tmpl", ".service", ".timer", ".socket") and path.is_file()
]


def texts(path: Path) -> Iterator[str]:
    if path.suffix != ".py":
        yield path.read_text()
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def sections(path: Path) -> set[str]:
    return {match[1] for text in texts(path) for match in SECTION.finditer(text)}


def test_each_section_of_a_unit_is_one_that_systemd_knows() -> None:
    found = {path.relative_to(CHECKOUT): sections(path) for path in FILES}
    assert {path: names - SECTIONS for path, names in found.items() if names - SECTIONS} == {}
    assert len([path for path, names in found.items() if names]) > 20


@pytest.mark.parametrize(
    "text", ['f"# of {a}\\n[UnitRow]\\nRequiresMountsFor={a}\\n"', '"""\n[Uint]\n# why\nAfter=a\n"""']
)
def test_unknown_section_is_found(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.py").write_text(f"a = 1\nTEXT = {text}\n")
    assert len(sections(tmp_path / "plan.py") - SECTIONS) == 1
