# SPDX-License-Identifier: GPL-3.0-or-later
"""A bool or a number that an inventory gives as text (INI, -e name=false) is what the plan takes it for, in every place that uses it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import options_of, request_of

CHECKOUT = Path(__file__).parents[2]
ROLES = sorted(path.parents[1].name for path in CHECKOUT.glob("roles/*/meta/argument_specs.yml"))
CONVERTED = ("bool", "int", "float")
# What only shows the variable, or the name of one.
SHOWN = re.compile(r"\s*(- )?(variable|problem|remedy):")


def options(role: str) -> dict[str, str]:
    """Return the types of the options that an inventory may give as text."""
    found = options_of(str(CHECKOUT / "roles" / role))
    return {name: option["type"] for name, option in found.items() if option.get("type") in CONVERTED}


def unconverted(line: str, types: dict[str, str], is_task: bool, is_template: bool) -> Iterator[str]:
    """Yield the options that a line uses as they are written."""
    if line.lstrip().startswith("#") or SHOWN.match(line):
        return
    for name, kind in types.items():
        for found in re.finditer(rf"(?<![\w.'\"]){name}\b(?!')", line):
            is_whole = re.search(rf"\{{\{{ *{name} *\}}\}}", line) is not None
            # A module converts by its own argument spec; a number is the same text in a file.
            fits = is_whole and (is_task or (is_template and kind != "bool"))
            if not fits and not re.match(r"\s*\|\s*(bool|int|float)\b", line[found.end() :]):
                yield name


@pytest.mark.parametrize("role", ROLES)
def test_values_are_used_as_they_are_validated(role: str) -> None:
    types, folder = options(role), CHECKOUT / "roles" / role
    files = [*folder.glob("tasks/*.yml"), *folder.glob("vars/**/*.yml"), *folder.glob("templates/**/*.j2")]
    assert not [
        f"{path.relative_to(CHECKOUT)}:{number}: {name} has no filter {types[name]}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        for name in unconverted(line, types, path.parent.name == "tasks", path.suffix == ".j2")
    ]


@pytest.mark.parametrize("role", ROLES)
def test_text_is_the_value_that_it_says(role: str) -> None:
    found = options_of(str(CHECKOUT / "roles" / role))
    needed = {name: "x" for name, option in found.items() if option.get("required")}
    values: dict[str, list[Any]] = {"bool": [True, False], "int": [7], "float": [7.5]}
    for name, kind in options(role).items():
        for value in values[kind]:
            choices = found[name].get("choices") or [value]
            for text in (str(choices[0]), str(choices[0]).lower()):
                given = request_of(role, found, {**needed, name: text})
                assert given == request_of(role, found, {**needed, name: choices[0]}), name


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("a: \"{{ x_on | ternary('b', 'c') }}\"", ["x_on"]),
        ("when: x_on and y", ["x_on"]),
        ('a: "{{ x_count }}"', ["x_count"]),
        ('a: "{{ x_count | int > 1 and x_on | bool }}"', []),
        ("# x_on", []),
        ("variable: x_on", []),
        ('problem: "is {{ x_count }}"', []),
    ],
)
def test_use_of_raw_values_is_found(line: str, found: list[str]) -> None:
    assert list(unconverted(line, {"x_on": "bool", "x_count": "int"}, is_task=False, is_template=False)) == found
