# SPDX-License-Identifier: GPL-3.0-or-later
"""Examples on pages and in remedies work: variables, commands, playbooks, compose files and other formats."""

from __future__ import annotations

import configparser
import copy
import functools
import json
import re
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from .sources import CHECKOUT, PYTHON, SPECS, YAML, flaws

PAGES = [
    CHECKOUT / "README.md",
    *sorted((CHECKOUT / "docs").glob("*.md")),
    *sorted((CHECKOUT / "roles").glob("*/README.md")),
]
PLAYBOOKS = {path.stem for path in (CHECKOUT / "playbooks").glob("*.yml")}
BLOCK = re.compile(r"(?ms)^( *)```([a-z]*)\n(.*?)^\1```$")
NAMED = re.compile(r"rigwright\.workstation\.([a-z_]+)")
# Compose takes the name of a CDI device in `devices` since 2.30, and Debian 13's has 2.26.
DEVICE_PATH = re.compile(r"/dev/[^ ]+")
NOT_YET_KNOWN = re.compile(r"\{\{|^\.\.\.$|<[a-z ]+>|\.\.\.")


@functools.cache
def options() -> dict[str, dict[str, Any]]:
    """Return the options of all roles by their names."""
    found: dict[str, dict[str, Any]] = {}
    for path in SPECS:
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            found |= entry.get("options", {})
    return found


def blocks(page: Path, *kinds: str) -> list[str]:
    return [textwrap.dedent(text) for _indent, kind, text in BLOCK.findall(page.read_text()) if kind in kinds]


def variables(data: Any) -> Iterator[tuple[str, Any]]:
    """Yield the variables of roles, at any depth: of hosts, plays, groups and roles."""
    if isinstance(data, dict):
        for name, value in data.items():
            if name in options():
                yield name, value
            elif is_of_a_role(str(name)):
                yield str(name), NotImplemented
            else:
                yield from variables(value)
    elif isinstance(data, list):
        for value in data:
            yield from variables(value)


@functools.cache
def is_of_a_role(name: str) -> bool:
    roles = [path.parts[-3] for path in SPECS]
    return bool(re.fullmatch(r"[a-z][a-z0-9_]*", name)) and any(name.startswith(f"{role}_") for role in roles)


def is_open(value: Any) -> bool:
    return bool(NOT_YET_KNOWN.search(json.dumps(value)))


def problems(name: str, value: Any) -> list[str]:
    """Return what the argument spec has against a value."""
    if value is NotImplemented:
        return [f"{name} is no variable of a role"]
    if is_open(value):
        return []
    spec = copy.deepcopy(options()[name])
    return [f"{name}: {error}" for error in ArgumentSpecValidator({name: spec}).validate({name: value}).error_messages]


def inline(page: Path) -> Iterator[tuple[str, Any]]:
    """Yield the variables in code within a sentence: `docker_hold: true`, and `-e docker_hold=true`."""
    text = BLOCK.sub("", page.read_text())
    for name, value in re.findall(r"`([a-z][a-z0-9_]+): ([^`\n]+)`", text):
        # Text after the name of a list is a message that the page explains.
        if name in options() and (options()[name]["type"] not in ("list", "dict") or value[0] in "[{"):
            yield name, yaml.safe_load(value)
    for name, value in re.findall(r"-e '?\"?([a-z][a-z0-9_]+)=([^\s`'\"]+)", page.read_text()):
        if is_of_a_role(name):
            yield name, value if name in options() else NotImplemented


def commands(text: str) -> Iterator[str]:
    """Yield the commands after a prompt, with the lines that go on."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith(("$ ", "# ")):
            command = line[2:]
            while command.endswith("\\"):
                command = f"{command[:-1]} {next(lines, '').removeprefix('> ')}"
            if "<<" not in command:
                yield command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_variables_of_a_page_fit_their_argument_specs(page: Path) -> None:
    found = [pair for text in blocks(page, "yaml") for data in yaml.safe_load_all(text) for pair in variables(data)]
    assert [message for name, value in [*found, *inline(page)] for message in problems(name, value)] == []


def test_commands_of_pages_parse() -> None:
    texts = {
        f"{page.name}: {command}": command
        for page in PAGES
        for text in blocks(page, "console")
        for command in commands(text)
    }
    script = "\n".join(f"f() {{\n{command}\n}}" for command in texts.values())
    if subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False).returncode:
        wrong = [
            name
            for name, command in texts.items()
            if subprocess.run(["bash", "-n", "-c", command], capture_output=True, check=False).returncode
        ]
        assert wrong == []
    assert len(texts) > 100


def test_playbooks_that_pages_and_remedies_name_exist() -> None:
    pattern = re.compile(r"ansible-playbook[^`\n]*?rigwright\.workstation\.([a-z_]+)|playbooks/([a-z_]+)\.yml")
    wrong = {
        f"{path.relative_to(CHECKOUT)}: {name}"
        for path in (*PAGES, *PYTHON, *YAML)
        for match in pattern.finditer(path.read_text())
        for name in match.groups()
        if name and name not in PLAYBOOKS and not (CHECKOUT / f"plugins/modules/{name}.py").exists()
    }
    assert wrong == set()


def test_variables_that_remedies_name_exist() -> None:
    """A remedy says `set docker_hold`, `docker_hold: true` or `-e docker_hold=true`."""
    pattern = re.compile(r"(?:\bset (?:it to )?|`|-e )((?:[a-z][a-z0-9]*_)+[a-z0-9]+)(?=: [a-z\[]|=[a-z\[]| to\b)")
    wrong = {
        f"{path.relative_to(CHECKOUT)}: {name}"
        for path in PYTHON
        for name in pattern.findall(path.read_text())
        if is_of_a_role(name) and name not in options()
    }
    assert wrong == set()


ROLES = {path.name for path in (CHECKOUT / "roles").iterdir()}
# A word after "role" is a name when it has an underscore, is code, or ends its part of the sentence: "apply the role docker."
ROLE_NAMED = re.compile(
    r"\broles? `?([a-z]+_[a-z_]+)|\broles? `([a-z_]+)|\b(?:the|a) role ([a-z]+)(?=[,.;:)\"'`]| and | or )"
)
AFTER_ROLE = re.compile(r"again|out|stay|made|wrote|rigwright|[a-z]+(?:ed|s)")
TAGS_NAMED = re.compile(r"--(?:skip-)?tags[ =]([a-z_,]+)")
PROGRAM_NAMED = re.compile(r"`(?:sudo )?((?:workstation|dataset|gpu)-[a-z-]+)(?![.@\w-])|\b(script/[a-z-]+)")


def wrong_names(text: str) -> Iterator[str]:
    """Yield roles, tags and programs of ours that a text names and that do not exist."""
    for word in (word for groups in ROLE_NAMED.findall(text) for word in groups if word):
        if word not in ROLES and not AFTER_ROLE.fullmatch(word):
            yield f"role {word}"
    for tags in TAGS_NAMED.findall(text):
        yield from (f"tag {tag}" for tag in tags.split(",") if tag not in ROLES)
    for program, script in PROGRAM_NAMED.findall(text):
        if (program and program not in programs()) or (script and not (CHECKOUT / script).exists()):
            yield program or script


@functools.cache
def programs() -> set[str]:
    """Return the programs that roles install, and those of a checkout."""
    installed = (re.findall(r"/usr/local/s?bin/([a-z-]+)", path.read_text()) for path in YAML)
    return {name for names in installed for name in names} | {path.name for path in (CHECKOUT / "script").iterdir()}


def test_roles_tags_and_programs_that_texts_name_exist() -> None:
    """A site has a tag for each role, and no other (playbooks/site.yml)."""
    assert flaws(wrong_names, [*PAGES, *PYTHON, *YAML]) == {}


@pytest.mark.parametrize(
    "text",
    ["apply the role python_environments", "needs the role `python`", "needs the role python.", "--tags ssh,python",
     "run `sudo gpu-whom`", "run script/tests"],
)  # fmt: skip
def test_name_that_does_not_exist_is_found(text: str) -> None:
    assert len(list(wrong_names(text))) == 1


def test_compose_files_run_with_the_compose_of_each_release() -> None:
    found = [
        data
        for page in PAGES
        for text in blocks(page, "yaml")
        for data in yaml.safe_load_all(text)
        if "services" in data
    ]
    assert found
    for service in (service for data in found for service in data["services"].values()):
        assert all(DEVICE_PATH.match(device) for device in service.get("devices", []))
        for device in service.get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices", []):
            assert device.keys() <= {"driver", "count", "device_ids", "capabilities", "options"}
            assert device["capabilities"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_other_formats_of_a_page_parse(page: Path) -> None:
    for text in blocks(page, "json"):
        json.loads(text)
    for text in blocks(page, "ini"):
        parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
        parser.read_string(text)
        assert parser.sections()


def test_checker_finds_what_is_wrong() -> None:
    assert problems("docker_hold", "perhaps")
    assert problems("docker_address_pools", [{"base": "10.0.0.0/8"}])
    assert [name for name, value in variables([{"vars": {"docker_holds": True}}]) if value is NotImplemented] == [
        "docker_holds"
    ]
    assert list(commands("$ a \\\n  b\noutput\n# c\n")) == ["a    b", "c"]
