# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that rules about code are held against, and what is read from them."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2]
PYTHON = sorted([*(CHECKOUT / "plugins").rglob("*.py"), *(CHECKOUT / "roles").glob("*/files/*.py")])
YAML = sorted([*(CHECKOUT / "roles").rglob("*.yml"), *(CHECKOUT / "playbooks").rglob("*.yml")])
SPECS = sorted((CHECKOUT / "roles").glob("*/meta/argument_specs.yml"))


def flaws(rule: Callable[[str], Iterable[str]], files: Iterable[Path]) -> dict[str, list[str]]:
    """Return what a rule finds, by file."""
    found = {str(path.relative_to(CHECKOUT)): list(rule(path.read_text())) for path in files}
    return {name: lines for name, lines in found.items() if lines}


CONSTANT = re.compile(r"^(\w+) = f?\"([^\"]+)\"$", re.MULTILINE)


def resolved(text: str) -> str:
    """Return a source with the values of its constants in the place of their names in f-strings."""
    for name, value in CONSTANT.findall(text):
        text = text.replace(f"{{{name}}}", value)
    return text


@functools.lru_cache(maxsize=1)
def nodes(text: str) -> list[ast.AST]:
    """Return all nodes of a source. The rules read one file after the other, and each several times."""
    return list(ast.walk(ast.parse(text)))


def calls(text: str) -> Iterator[tuple[ast.Call, str]]:
    """Yield each call with the full name of the function: also of `chown` after `from os import chown`, or of `o.chown`."""
    names: dict[str, str] = {}
    for node in nodes(text):
        if isinstance(node, ast.Import):
            names |= {each.asname: each.name for each in node.names if each.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    for node in nodes(text):
        if isinstance(node, ast.Call):
            first, dot, rest = dotted(node.func).partition(".")
            yield node, f"{names.get(first, first)}{dot}{rest}"


def dotted(node: ast.expr) -> str:
    """Return the name of a function as the code has it, without what it is called on where that is no name."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "()"


def commands(text: str) -> Iterator[tuple[ast.expr, list[ast.expr]]]:
    """Yield each list or tuple, which may be a command, without the programs that start another."""
    for node in nodes(text):
        if isinstance(node, ast.List | ast.Tuple):
            arguments = list(node.elts)
            while arguments and literal(arguments[0]) in ("env", "ionice", "nice", "sudo", "timeout"):
                arguments = arguments[1:]
            if arguments:
                yield node, arguments


def literal(node: ast.expr | None) -> str:
    """Return a string of the code, and nothing for any other expression."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


SPEC_WORDS = {f"'{word}'" for word in ("type", "elements", "required", "default", "choices", "no_log", "options")}


def literal_specs(text: str) -> dict[str, dict[str, Any]]:
    """Return option name -> its literal words, of every dictionary that looks like an argument spec."""
    found = {}
    for node in nodes(text):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and isinstance(value, ast.Dict):
                    arguments = {
                        ast.unparse(k): ast.unparse(v) for k, v in zip(value.keys, value.values, strict=True) if k
                    }
                    if arguments and arguments.keys() <= SPEC_WORDS:
                        found[key.value] = {name.strip("'"): word.strip("'") for name, word in arguments.items()}
    return found
