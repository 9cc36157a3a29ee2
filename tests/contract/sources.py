# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that rules about code are held against, and what is read from them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PYTHON = sorted([*(CHECKOUT / "plugins").rglob("*.py"), *(CHECKOUT / "roles").glob("*/files/*.py")])
YAML = sorted([*(CHECKOUT / "roles").rglob("*.yml"), *(CHECKOUT / "playbooks").rglob("*.yml")])
SPECS = sorted((CHECKOUT / "roles").glob("*/meta/argument_specs.yml"))


def flaws(rule: Callable[[str], Iterable[str]], files: Iterable[Path]) -> dict[str, list[str]]:
    """Return what a rule finds, by file."""
    found = {str(path.relative_to(CHECKOUT)): list(rule(path.read_text())) for path in files}
    return {name: lines for name, lines in found.items() if lines}


def calls(text: str) -> Iterator[tuple[ast.Call, str]]:
    """Yield each call with the full name of the function: also of `chown` after `from os import chown`, or of `o.chown`."""
    tree = ast.parse(text)
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.asname: each.name for each in node.names if each.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            first, dot, rest = ast.unparse(node.func).partition(".")
            yield node, f"{names.get(first, first)}{dot}{rest}"


def commands(text: str) -> Iterator[tuple[ast.expr, list[ast.expr]]]:
    """Yield each list or tuple of words, which may be a command, without the programs that start another."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.List | ast.Tuple):
            words = list(node.elts)
            while words and literal(words[0]) in ("env", "ionice", "nice", "sudo", "timeout"):
                words = words[1:]
            if words:
                yield node, words


def literal(node: ast.expr | None) -> str:
    """Return a string of the code, and nothing for any other expression."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
