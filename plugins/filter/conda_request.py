# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject

DOCUMENTATION = r"""
name: conda_request
short_description: Turn the environments of the role conda into those of the module
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Turns the environments of the role P(rigwright.workstation.conda#role) into those of M(rigwright.workstation.conda_environment),
    and puts the base before them.
  - The packages of an C(environment.yml) are added. Older forms of match specs, such as C(numpy=2.1.*), C(numpy=2.1.0=py312_0) and
    C(pytorch=*=*cuda*), become forms that every tool reads alike. A channel that only a package names comes after the others.
positional: _input, files
options:
  _input:
    description: The environments, as in C(conda_environments).
    type: list
    elements: dict
    required: true
  files:
    description: The text of every C(file) and C(lock) that they name, by its path.
    type: dict
    required: true
  base:
    description: Packages of the environment C(base); without any there is no base.
    type: list
    elements: str
    default: []
  update:
    description: Whether to use newer packages in all environments.
    type: bool
    default: false
  channels:
    description: Channels of environments that name none.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Show the request for the module
  ansible.builtin.debug:
    msg: "{{ ([{'name': 'research', 'python': '3.12'}] | rigwright.workstation.conda_request({}, base=['conda'])).environments }}"
"""

RETURN = r"""
_value:
  description: C(environments), and C(requirements) for M(rigwright.workstation.require).
  type: dict
"""

import difflib
import re
from collections.abc import Mapping
from typing import Any, TypedDict

import yaml

BASE = "base"
# Anaconda's own channels, by name or by present and former address. Organizations have to pay for them.
PAID = re.compile(
    r"(defaults|anaconda|main|r|msys2|pkgs)(/.*)?|https?://(([\w-]+\.)*anaconda\.com|repo\.continuum\.io)/.*"
)
# What means something to conda, and is not supported; and `pip` beside the dependencies, whose packages conda would not install.
REFUSED = ("variables", "pip")
# The role decides on name and prefix.
KNOWN = ("name", "prefix", "channels", "dependencies")
ALIKE = 0.8
SUBDIRECTORY = re.compile(r"/(noarch|(linux|osx|win)-\w+)$")


class Request(TypedDict):
    """The environments for the module, and requirements."""

    environments: list[JsonObject]
    requirements: list[Problem]


class Written(TypedDict, total=False):
    """What an environment.yml has."""

    packages: list[str]
    pip: list[str]
    channels: list[str]


def conda_request(
    rows: list[JsonObject],
    files: Mapping[str, str],
    base: list[str] | None = None,
    update: bool = False,
    channels: list[str] | None = None,
) -> Request:
    """Return the environments for the module, and requirements."""
    environments: list[JsonObject] = []
    requirements = [_base_is_free(rows, base or [])]
    if base:
        # Conda's own tools need no GPU: a new driver is no reason to solve again.
        environments.append({"name": BASE, "state": "present", "packages": base, "cuda": "", "update": update})
    for row in rows:
        written, problem = _read(files[row["file"]]) if row.get("file") else ({}, "")
        requirements.append(
            {
                "ok": not problem,
                "variable": "conda_environments",
                "problem": f"has for {row['name']} the file {row.get('file')}, which {problem}",
                "remedy": "correct the file, or list its packages in packages, pip and channels",
            }
        )
        environments.append(_environment(row, written, files, update, channels or []))
    named = [channel for row in environments for channel in row.get("channels") or []]
    requirements += [_are_free("conda_channels", channels or []), _are_free("conda_environments", named)]
    return {"environments": environments, "requirements": requirements}


def _are_free(variable: str, channels: list[str]) -> Problem:
    paid = sorted({channel for channel in channels if PAID.fullmatch(channel)})
    return {
        "ok": not paid,
        "variable": variable,
        "problem": f"names {', '.join(paid)}, Anaconda's own channels, for which organizations have to pay",
        "remedy": "name conda-forge, which has the same packages",
    }


def _base_is_free(rows: list[JsonObject], base: list[str]) -> Problem:
    return {
        "ok": not base or all(row["name"] != BASE for row in rows),
        "variable": "conda_environments",
        "problem": "has an environment named base, which is the name of conda's own tools",
        "remedy": "choose another name, or add its packages to conda_base_packages",
    }


def _environment(
    row: JsonObject, written: Written, files: Mapping[str, str], update: bool, default: list[str]
) -> JsonObject:
    python = [f"python {row['python']}.*"] if row.get("python") else []
    packages = [*python, *map(plain, [*(row.get("packages") or []), *written.get("packages", [])])]
    pip = [*(row.get("pip") or []), *written.get("pip", [])]
    if pip and not packages and not row.get("lock"):
        # As conda does, so that there is a Python.
        packages = ["pip"]
    channels = list(row.get("channels") or written.get("channels") or [])
    others = [channel for channel in dict.fromkeys(map(channel_of, packages)) if channel]
    if set(others) - set(channels or default):
        channels = list(dict.fromkeys([*(channels or default), *others]))
    return {
        "name": row["name"],
        "state": row.get("state") or "present",
        "packages": packages,
        "pip": pip,
        "lock": files[row["lock"]] if row.get("lock") else "",
        "cuda": "auto" if row.get("cuda") is None else str(row["cuda"]),
        "generation": int(row.get("generation") or 0),
        "update": update or bool(row.get("update")),
        **({"channels": channels} if channels else {}),
    }


def plain(text: str) -> str:
    """Return a match spec without older forms of conda."""
    build = re.fullmatch(r"\s*([^\s=<>!~\[]+)\s*={1,2}\s*([^=\s<>~,|]+)=([^=\s,|]+)\s*", text)
    if build and not re.fullmatch(r"[\w.:-]+=[^*!]+=[\w*]+", text.strip()):
        name, version, rest = build.groups()
        return f"{name}[version='{'' if '*' in version else '=='}{version}',build='{rest}']"
    several = re.fullmatch(r"\s*([\w.:-]+)(?:\s*(=)\s*|\s+)([\w.+!*]+(?:[,|][\w.+!*]+)+)\s*", text)
    if several:
        # conda takes the version after an equals sign as the beginning of one, and the others as they are.
        name, equals, versions = several.groups()
        exact = re.sub(r"(^|[,|])(?=[^*,|]+(?:[,|]|$))", r"\1==", versions)
        return f"{name} " + (re.sub(r"^==([^,|]+)", r"\1.*", exact) if equals else exact)
    found = re.fullmatch(r"\s*([\w.:-]+)\s*=\s*([^=\s<>!~*,|]+)(\.\*|=[\w*]+)?\s*", text)
    if not found:
        return text
    name, version, rest = found.groups()
    if rest and rest.startswith("="):
        return f"{name} =={version} {rest[1:]}"
    return f"{name} {version}.*"


def channel_of(text: str) -> str:
    """Return the channel that a match spec names, empty without one."""
    found = re.match(r"\s*([^\s\[]+?)::", text) or re.search(r"""\[.*\bchannel=["']?([^"',\]]+)""", text)
    return SUBDIRECTORY.sub("", found[1]) if found else ""


def _read(text: str) -> tuple[Written, str]:
    """Return the packages and channels of an environment.yml, and the problem with it, if any."""
    try:
        data = yaml.safe_load(text)
        rows = data["dependencies"]
        packages = [row for row in rows if isinstance(row, str)]
        sections = [row["pip"] or [] for row in rows if not isinstance(row, str)]
        pip = [line for section in sections for line in ([section] if isinstance(section, str) else section)]
    except (yaml.YAMLError, KeyError, TypeError):
        return {}, "is not an environment.yml with dependencies"
    # conda ignores sections of other tools. A word that is close to a known one is a mistake.
    wrong = [
        str(key)
        for key in data.keys() - {*KNOWN}
        if key in REFUSED or difflib.get_close_matches(str(key), KNOWN, cutoff=ALIKE)
    ]
    if wrong:
        return {}, f"has {', '.join(sorted(wrong))}, which the role does not support"
    channels = data.get("channels") or []
    if not isinstance(channels, list):
        return {}, f"has channels that are no list: write `channels: [{channels}]`"
    beside = [str(channel) for channel in channels if str(channel).startswith((".", "~"))]
    if beside:
        return {}, f"has the channel {beside[0]}, a path beside it, which hosts do not have"
    channels = [channel for channel in channels if channel != "nodefaults"]
    return {"packages": packages, "pip": pip, "channels": channels}, ""


class FilterModule:
    """Filters of this collection."""

    def filters(self) -> dict[str, Any]:
        return {"conda_request": conda_request}
