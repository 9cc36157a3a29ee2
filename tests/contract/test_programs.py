# SPDX-License-Identifier: GPL-3.0-or-later
"""All programs start with one locale (plugins/module_utils/_core/locale.py); each rule is shown to find its flaw."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.contract.sources import PYTHON, YAML, calls, flaws, literal, nodes

STARTS = re.compile(
    r"subprocess\.(run|Popen|call|check_call|check_output|getoutput|getstatusoutput)$"
    r"|os\.(system|popen|exec\w+|spawn\w+|posix_spawnp?)$|pty\.spawn$|create_subprocess_\w+$"
)
VARIABLE = re.compile(r"(LC_\w+|LANG|LANGUAGE)(=|$)")
PROGRAMS = "plugins/module_utils/_core/programs.py"
LOCALE = "plugins/module_utils/_core/locale.py"
# What replaces its own process, and why it keeps the locale that it was given.
WITHOUT = {
    "plugins/module_utils/_dataset_cache/obtain.py": "the command of a user, in the locale of the user",
    "plugins/module_utils/_system/notifier.py": "the same program with another Python",
}


def starts(text: str) -> Iterator[str]:
    """Yield calls that start a program."""
    for node, name in calls(text):
        if STARTS.search(name):
            yield f"line {node.lineno}: {name}: use _core/programs.py"


def modules(text: str) -> Iterator[str]:
    """Yield modules whose `run_command` would not have the locale."""
    for node, name in calls(text):
        if name.rpartition(".")[2] == "AnsibleModule":
            yield f"line {node.lineno}: use HostModule"


def locales(text: str) -> Iterator[str]:
    """Yield variables of the locale, as a key or as `LC_ALL=`, and not as a word of a text."""
    for node in nodes(text):
        if isinstance(node, ast.Constant) and VARIABLE.match(literal(node)):
            yield f"line {node.lineno}: {node.value!r}"


def half_locales(text: str) -> Iterator[str]:
    """Yield environments of tasks that set LC_ALL, which LANGUAGE outranks."""

    def below(value: Any) -> Iterator[str]:
        for entry in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
            yield from below(entry)
        if (
            isinstance(value, dict)
            and "LC_ALL" in value
            and (value["LC_ALL"], value.get("LANGUAGE")) != ("C.UTF-8", "")
        ):
            yield str(value)

    yield from below(yaml.safe_load(text))


def test_programs_start_in_one_place() -> None:
    assert flaws(starts, PYTHON).keys() == {PROGRAMS, *WITHOUT}


def test_modules_have_the_locale() -> None:
    assert flaws(modules, PYTHON) == {}


def test_the_locale_is_set_in_one_place() -> None:
    assert flaws(locales, PYTHON).keys() == {LOCALE}


def test_tasks_set_the_whole_locale() -> None:
    assert flaws(half_locales, YAML) == {}


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (starts, "programs.run(x)", "import subprocess\nsubprocess.run(x)"),
        (starts, "module.run_command(x)", "from subprocess import Popen\nPopen(x)"),
        (starts, "os.path.join(x)", "os.execvp(x, y)"),
        (starts, "asyncio.run(x)", "asyncio.create_subprocess_exec(x)"),
        (modules, "HostModule({})", "AnsibleModule({})"),
        (modules, "HostModule({})", "basic.AnsibleModule({})"),
        (locales, 'x = {"TZ": "UTC"}', 'x = {"LC_ALL": "C"}'),
        (locales, 'x = "LANGUAGES"', 'x = ["LC_MESSAGES=C"]'),
        (half_locales, 'environment: {LC_ALL: C.UTF-8, LANGUAGE: ""}', "environment: {LC_ALL: C.UTF-8}"),
        (half_locales, "- {environment: {TZ: UTC}}", '- {environment: {LC_ALL: C, LANGUAGE: ""}}'),
    ],
)
def test_rule_finds_its_flaw(rule: Any, good: str, bad: str) -> None:
    assert list(rule(good)) == []
    assert list(rule(bad)) != []
