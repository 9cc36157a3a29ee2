# SPDX-License-Identifier: GPL-3.0-or-later
"""No name that others see has a word that says nothing: options, variables, results, ids of findings, files on hosts."""

from __future__ import annotations

import re

import pytest

from .sources import CHECKOUT, PYTHON, YAML

WORD = r"(?:strangers?|looks?|brought|guest_ok)"
# A part of a name or a path, a key, or a value in quotes. In a sentence, such a word is free.
NAME = re.compile(
    rf"\w*[_./]{WORD}(?:_\w+|\.\w+)*\b|\b{WORD}(?:_\w+|\.\w+)+|^\s*(?:- )?{WORD}(?=:(?:\s|$))|(?<=[\"'`]){WORD}(?=[\"'`])",
    re.MULTILINE,
)
# What hosts had before 0.1.0 is read under its old name, and moved.
FORMER = {
    "plugins/module_utils/_docker/gpu_toolkit.py": ["/brought.json"],
    "plugins/module_utils/_docker/model.py": ["/brought.json"],
    "plugins/module_utils/_nvidia/driver_record.py": ["brought", "brought"],
    "plugins/module_utils/_system/fail2ban.py": ["rigwright_fail2ban/brought"],
}
FILES = [*PYTHON, *YAML, *(CHECKOUT / "roles").rglob("*.j2"), *(CHECKOUT / "docs").glob("*.md"), CHECKOUT / "README.md"]


def test_no_public_name_has_such_a_word() -> None:
    found = {str(path.relative_to(CHECKOUT)): NAME.findall(path.read_text()) for path in FILES}
    assert {path: names for path, names in found.items() if names} == FORMER


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("          guest_ok:\n", "          guest_ok"),
        ('card["since_last_look"]', "since_last_look"),
        ("`docker.strangers` names", "docker.strangers"),
        ('users: "strangers"', "strangers"),
        ('f"{FOLDER}/brought.json"', "/brought.json"),
        ("  look:\n    type: bool\n", "  look"),
    ],
)
def test_such_a_name_is_found(text: str, name: str) -> None:
    assert NAME.findall(text) == [name]


@pytest.mark.parametrize("text", ["It looks for tags: a user looked up.", "brought to its state", "Strangers look."])
def test_a_sentence_is_free(text: str) -> None:
    assert NAME.findall(text) == []
