# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rows of storage_disks and storage_directories: their keys and types. All problems are reported at once, by the name of the variable."""

from __future__ import annotations

import difflib
import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject, Spec


class DiskRow(t.TypedDict, total=False):
    """A row of storage_disks."""

    id: str | None
    serial: str | None
    role: str | None
    mount: str | None
    fs: str
    label: str | None
    partition: bool
    options: list[str]
    owner: str | None
    group: str | None
    mode: t.Any
    wipe: bool
    quota: bool


class DirectoryRow(t.TypedDict, total=False):
    """A row of storage_directories."""

    path: str
    owner: str
    group: str
    mode: t.Any
    setgid: bool
    default_acl: list[str]
    quota: str


DISK: Spec = {
    "id": {"type": "str"},
    "serial": {"type": "str"},
    "role": {"type": "str", "choices": ["data", "cache", "scratch"]},
    "mount": {"type": "str"},
    "fs": {"type": "str", "choices": ["ext4", "xfs", "btrfs", "vfat"], "default": "ext4"},
    "label": {"type": "str"},
    "partition": {"type": "bool", "default": True},
    "options": {"type": "list", "elements": "str", "default": []},
    "owner": {"type": "str"},
    "group": {"type": "str"},
    "mode": {"type": "raw"},
    "wipe": {"type": "bool", "default": False},
    "quota": {"type": "bool", "default": False},
}
DIRECTORY: Spec = {
    "path": {"type": "str", "required": True},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str", "default": "root"},
    "mode": {"type": "raw", "default": "0755"},
    "setgid": {"type": "bool", "default": False},
    "default_acl": {"type": "list", "elements": "str", "default": []},
    "quota": {"type": "str", "default": "0"},
}
# What a row is known by.
NAMES = ("serial", "id", "path", "mount")


def read_rows(variable: str, given: t.Sequence[JsonObject], spec: Spec) -> tuple[list[t.Any], list[Problem]]:
    """Return the rows (`DiskRow` or `DirectoryRow`) with the types and defaults of their keys, and the problems.

    A wrong value becomes its default.
    """
    rows, refused = [], []
    for number, row in enumerate(given):
        found = list(_wrong(row, spec))
        name = next((str(row[key]) for key in NAMES if row.get(key)), f"entry {number + 1}")
        refused += [problem(variable, f"has {name}, {text}", remedy) for _key, text, remedy in found]
        good = {key: value for key, value in row.items() if key not in [key for key, _problem, _remedy in found]}
        if good or not found:
            lenient = {key: {**option, "required": False} for key, option in spec.items()}
            rows.append(ArgumentSpecValidator(lenient).validate(good).validated_parameters)
    return [row for row in rows if all(row.get(key) for key in spec if spec[key].get("required"))], refused


def _wrong(row: JsonObject, spec: Spec) -> t.Iterator[tuple[str, str, str]]:
    """Yield key, problem and remedy."""
    for key, value in row.items():
        if key not in spec:
            near = difflib.get_close_matches(str(key), spec, 1)
            yield key, f"with the unknown key {key!r}", f"name it {near[0]}" if near else f"keys are {', '.join(spec)}"
        elif ArgumentSpecValidator({key: spec[key]}).validate({key: value}).error_messages:
            choices = spec[key].get("choices")
            remedy = f"choose one of {', '.join(choices)}" if choices else f"give it a {spec[key]['type']}"
            yield key, f"whose {key} is {value!r}", remedy
    for key, option in spec.items():
        if option.get("required") and not row.get(key):
            yield key, f"without {key}", f"set `{key}`"
