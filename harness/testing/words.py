"""Check the words of files against CONTRIBUTING.md: `python -m harness words [FILE...]`, without files the whole tree.

The table there, "Words that we do not use", is the only list. Names of tests and of variables in Python are checked as well.
"""

from __future__ import annotations

import argparse
import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from harness.sandbox.lab import ROOT

TABLE = "Words that we do not use"
SUFFIXES = (".c", ".h", ".j2", ".md", ".py", ".sh", ".toml", ".yaml", ".yml")
# Texts of others, what is released, and the rules themselves.
LEFT_OUT = re.compile(
    r"^(changelogs/|CHANGELOG\.md|CONTRIBUTING\.md|LICENSE|docs/measurements/|requirements/|tests/unit/fixtures/"
    r"|harness/testing/words\.py|tests/contract/test_words\.py|harness/depot/files/)"
)
TEST_NAME = 60


class Rule(NamedTuple):
    pattern: re.Pattern[str]
    instead: str


class Rules(NamedTuple):
    words: list[Rule]
    names: frozenset[str]


@functools.cache
def rules(text: str = "") -> Rules:
    """Read the tables of CONTRIBUTING.md."""
    text = text or (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| `(.+?)` \| (.+?) \|$", text.partition(f"## {TABLE}")[2].partition("\n## ")[0], re.MULTILINE)
    names = re.search(r"no variable, parameter or function is called ((?:`\w+`(?:, | or )?)+)", text)
    return Rules(
        # A name with a dot before it is the id of a finding or an attribute, which others rely on.
        [
            Rule(
                re.compile(rf"(?<![\w.\-/])(?:{pattern.replace(chr(92) + '|', '|')})(?![\w\-])", re.IGNORECASE), instead
            )
            for pattern, instead in rows
        ],
        frozenset(re.findall(r"`(\w+)`", names[1] if names else "")),
    )


def check_words(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and message for each word of the table."""
    for number, line in enumerate(text.splitlines(), 1):
        # Names of tests are sentences. Other names may be options and keys, which others rely on.
        sentence = line.replace("_", " ") if "def test_" in line else line
        for pattern, instead in rules().words:
            if "# kept: " not in line and (found := pattern.search(sentence)):
                yield number, f"`{found[0]}`: write {instead}"


def check_names(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and message for each name in Python code that says nothing, or too much."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        name = ""
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = node.name
            if name.startswith("test_") and len(name) > TEST_NAME:
                yield node.lineno, f"`{name}` has {len(name)} characters: name a test in {TEST_NAME} or fewer"
        if name in rules().names and "# kept: " not in lines[getattr(node, "lineno", 1) - 1]:
            yield getattr(node, "lineno", 0), f"`{name}`: name the thing that it is"


def check(path: Path, root: Path = ROOT) -> list[str]:
    """Return what is wrong in a file, a line each."""
    if not path.is_relative_to(root):
        return [f"{path} is not in {root}"]
    name = str(path.relative_to(root))
    if path.suffix not in SUFFIXES or LEFT_OUT.match(name) or not path.is_file():
        return []
    try:
        text = path.read_text(encoding="utf-8")
        found = [*check_words(text), *(check_names(text) if path.suffix == ".py" else [])]
    except (UnicodeDecodeError, SyntaxError) as error:
        return [f"{name}: cannot be read: {error}"]
    return [f"{name}:{line}: {message}" for line, message in sorted(found)]


def tracked(root: Path = ROOT) -> list[Path]:
    listed = subprocess.check_output(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root, text=True
    )
    return [path for name in listed.splitlines() if not (path := root / name).is_symlink()]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", type=Path, help="files of the checkout; without one, all of them")


def main(args: argparse.Namespace) -> int:
    paths = [path.absolute() for path in args.files] or tracked()
    lines = [line for path in paths for line in check(path)]
    print("\n".join(lines), file=sys.stderr)
    return 1 if lines else 0
