"""Write the types of the requests of roles: of each `plugins/module_utils/_<package>/<role>_options.py`, from the argument spec.

A package whose role has such a file gets the options with their types, and mypy finds a name that no option has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.rigwright.workstation.plugins.plugin_utils._role_variables import OTHER_PREFIXES

from harness.sandbox.lab import ROOT

HEAD = '''\
# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the role {role} in a request. Made from its argument spec by `python -m harness pages`."""

from __future__ import annotations

import typing as t
'''
JSON = "from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject\n"
_TYPES = {
    "str": "str",
    "path": "str",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "raw": "t.Any",
    "dict": "JsonObject",
}

Options = Mapping[str, Mapping[str, Any]]


def files(root: Path = ROOT) -> dict[str, str]:
    """Return the paths of these files, with the role of each."""
    paths = sorted(root.glob("plugins/module_utils/_*/*_options.py"))
    return {str(path.relative_to(root)): path.stem.removesuffix("_options") for path in paths}


def source(role: str, root: Path = ROOT) -> str:
    """Return the source of a file."""
    text = (root / f"roles/{role}/meta/argument_specs.yml").read_text()
    options: Options = yaml.safe_load(text)["argument_specs"]["main"]["options"]
    prefixes = [role, *(prefix for prefix, owner in OTHER_PREFIXES.items() if owner == role)]
    named = {re.sub(f"^({'|'.join(prefixes)})_", "", name): option for name, option in options.items()}
    classes: dict[str, str] = {}
    rows = _fields(_camel(role), named, classes)
    classes[rows] = f"{_camel(role)}Options"
    body = "".join(
        f"\n\nclass {name}({'t.TypedDict' if fields is rows else 't.TypedDict, total=False'}):\n{fields}"
        for fields, name in classes.items()
    )
    return HEAD.format(role=role) + (f"\n{JSON}" if "JsonObject" in body else "") + body


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _fields(prefix: str, options: Options, classes: dict[str, str]) -> str:
    """Return the fields of options. The rows in them become classes, by their fields; keys of a row may be left out."""
    lines = []
    for name, option in options.items():
        row = ""
        if inner := option.get("options"):
            row = classes.setdefault(_fields(f"{prefix}{_camel(name)}", inner, classes), f"{prefix}{_camel(name)}")
        lines.append(f"    {name}: {_type(option, row)}\n")
    return "".join(lines)


def _type(option: Mapping[str, Any], row: str) -> str:
    kind = option.get("type", "str")
    found = f"list[{row or _TYPES[option.get('elements', 'raw')]}]" if kind == "list" else row or _TYPES[kind]
    is_set = option.get("required") or option.get("default") is not None
    return found if is_set or found == "t.Any" else f"{found} | None"
