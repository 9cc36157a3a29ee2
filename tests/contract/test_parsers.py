# SPDX-License-Identifier: GPL-3.0-or-later
"""What reads the output of a program accounts for each line (plugins/module_utils/_core/lines.py).

In the packages below, whatever splits a text into lines is a parser that uses `lines.parse`, or a reader that is listed with its reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.contract.sources import CHECKOUT, nodes

PACKAGES = ("_apt", "_samba", "_ssh")
SPLITTERS = ("splitlines", "findall", "finditer")
# By function: why no line is lost there.
READERS = {
    "_apt/mirror_verify.py:sources": "looks for one complaint of apt; update's status decides on the others",
    "_apt/packages.py:_paragraphs": "a file of dpkg or apt",
    "_apt/pip_conf.py:_lines": "a file, of which each line is kept",
    "_apt/sources.py:_parse_deb822": "a file, of which each line is kept",
    "_apt/sources.py:_parse_one_line": "a file, of which each line is kept",
    "_apt/sources.py:_without": "a block of a file",
    "_samba/config.py:_foreign_sections": "a file: parameters that nobody knows are kept as they are",
    "_samba/config.py:read_sections": "a file of the role, and testparm's output, which has parameters alone",
    "_samba/config.py:unknown_parameters": "looks for complaints; testparm's status decides on the others",
    "_samba/facts.py:connected": "a table of the kernel: a line of another form is an error",
    "_samba/facts.py:interfaces": "a table of the kernel: a line of another form is an error",
    "_samba/plan.py:_try": "complaints of testparm, all of which are shown",
    "_samba/verify.py:anonymous": "all of an answer that is no refusal fails",
    "_samba/verify.py:shares": "a share that is not found fails",
    "_ssh/access.py:_read_keys": "a file of keys: each line is one, or a problem",
    "_ssh/access.py:grants_root": "a rule of sudo that is not known grants nothing",
    "_ssh/access.py:parse_shadow": "a file of the host",
    "_ssh/config.py:ensure_include": "a file, of which each line is kept",
    "_ssh/config.py:parse_config": "each line of `sshd -T` is a keyword and its value",
    "_ssh/config.py:read_lines": "a file: a line without a setting is a comment, or sshd refuses it",
    "_ssh/config.py:reroot": "a file, of which each line is kept",
    "_ssh/config.py:split_values": "words of a value",
    "_ssh/run.py:__init__": "keys of the request: each line is one, or a comment",
    "_ssh/verify.py:jail": "counts for people: without any, the whole output is shown",
    "_ssh/verify.py:ways_in": "without a method, the whole answer is shown, and fails",
}


def splitters(text: str) -> Iterator[str]:
    """Yield the innermost functions that split a text into lines or find many things in it."""
    for function in [node for node in nodes(text) if isinstance(node, ast.FunctionDef)]:
        inner = {
            id(node)
            for each in ast.walk(function)
            if isinstance(each, ast.FunctionDef) and each is not function
            for node in ast.walk(each)
        }
        calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call) and id(node) not in inner]
        if any(isinstance(call, ast.Attribute) and call.attr in SPLITTERS for call in calls):
            yield function.name


def found() -> set[str]:
    folder = CHECKOUT / "plugins/module_utils"
    return {
        f"{package}/{path.name}:{name}"
        for package in PACKAGES
        for path in sorted((folder / package).glob("*.py"))
        for name in splitters(path.read_text())
    }


def test_each_reader_of_lines_is_a_parser_or_has_a_reason() -> None:
    assert found() == set(READERS)


def test_rule_finds_its_flaw() -> None:
    assert list(splitters("def f(text):\n    return text.splitlines()\n")) == ["f"]
    assert list(splitters("def f(text):\n    return lines.parse('x', text, FORMS)\n")) == []
    assert list(splitters("def f(text):\n    def g():\n        return re.findall('x', text)\n    return g()\n")) == [
        "g"
    ]
