# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python that playbooks of scenarios contain: the harness has what it imports."""

from __future__ import annotations

import ast
import importlib
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).parents[2]
PLAYBOOKS = sorted((CHECKOUT / "molecule").glob("*/*.yml"))


def texts(node: Any) -> Iterator[str]:
    if isinstance(node, dict | list):
        for value in node.values() if isinstance(node, dict) else node:
            yield from texts(value)
    elif isinstance(node, str):
        yield node


def missing(text: str) -> Iterator[str]:
    """Yield the imports of a program that lead nowhere."""
    for node in ast.walk(ast.parse(textwrap.dedent(text))):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("harness"):
            for alias in node.names:
                try:
                    if not hasattr(importlib.import_module(str(node.module)), alias.name):
                        importlib.import_module(f"{node.module}.{alias.name}")
                except ImportError as error:
                    yield str(error)


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_harness_has_what_a_playbook_imports(path: Path) -> None:
    programs = [text for text in texts(yaml.safe_load(path.read_text())) if "from harness" in text]
    assert [problem for program in programs for problem in missing(program)] == []


def test_import_that_leads_nowhere_is_found() -> None:
    assert list(missing("from harness import nowhere")) == ["No module named 'harness.nowhere'"]
    assert list(missing("from harness.sandbox import engine\nfrom harness.sandbox.lab import ROOT")) == []
