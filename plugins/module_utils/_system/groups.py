# Copyright: the Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the groups of a host and their members."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.names import is_group_name


class _Name(t.TypedDict):
    name: str


class GroupRow(_Name, total=False):
    """A group, as the module ``group_members`` takes it."""

    state: str
    system: bool
    members: list[str]
    append: bool


# None is a group that does not exist.
Members = t.Optional["list[str]"]


def find_problems(groups: t.Sequence[GroupRow]) -> list[str]:
    """Return the problems of a request."""
    problems = [
        f"{group['name']!r} is no name for a group: use at most 32 lower case letters, digits, dots, _ and -, or name a group that exists"
        for group in groups
        if not is_group_name(group["name"])
    ]
    names = [group["name"] for group in groups]
    return problems + [f"{name} is listed twice" for name in sorted({name for name in names if names.count(name) > 1})]


def named_users(groups: t.Sequence[GroupRow]) -> list[str]:
    """Return the users that should become members."""
    return sorted({user for group in groups if group["state"] == "present" for user in group["members"]})


def plan(current: dict[str, Members], groups: t.Sequence[GroupRow]) -> dict[str, Members]:
    """Return the members, sorted, that each group should have; None for a group that should not exist."""
    wanted: dict[str, Members] = {}
    for group in groups:
        if group["state"] == "absent":
            wanted[group["name"]] = None
            continue
        before = (current[group["name"]] or []) if group["append"] else []
        wanted[group["name"]] = sorted({*before, *group["members"]})
    return wanted


def commands(current: dict[str, Members], wanted: dict[str, Members], system: t.Container[str]) -> list[list[str]]:
    """Return the commands for a change of groups: groups are created first and removed last.

    :param system: the groups that get an id from the system's range if they are created.
    """
    created, filled, removed = [], [], []
    for name, members in wanted.items():
        if members is None:
            removed += [] if current[name] is None else [["groupdel", name]]
            continue
        if current[name] is None:
            created.append(["groupadd", *(["--system"] if name in system else []), name])
        if (current[name] or []) != members:
            filled.append(["gpasswd", "--members", ",".join(members), name])
    return [*created, *filled, *removed]
