# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Match blocks that no tried connection reaches: what they set is judged by their lines. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.access import matches_address, matches_any
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import (
    REPEATED,
    Connection,
    Line,
    Override,
    conditions,
    expected,
    is_harmless,
    split_values,
)

Users = t.Mapping[str, t.Collection[str]]


def reaches(connection: t.Mapping[str, str], users: Users, match: str) -> bool:
    """Return whether a connection is one of those that a Match block is for. A criterion that nobody knows here fits none."""
    return all(_fits(connection, users, name, patterns) for name, patterns in conditions(match))


def _fits(connection: t.Mapping[str, str], users: Users, name: str, patterns: t.Sequence[str]) -> bool:
    if name == "all":
        return True
    if name == "group":
        return matches_any(users.get(connection["user"], ()), patterns)
    if name in ("address", "localaddress"):
        return matches_address(patterns, connection[name])
    return name in connection and matches_any([connection[name]], patterns)


def untried(
    wanted: t.Mapping[str, frozenset[str]], lines: t.Sequence[Line], tried: t.Iterable[Connection], users: Users
) -> list[Override]:
    """Return the settings of blocks that none of the connections reaches, where they are looser than wanted.

    A group of a directory service that does not list its members is an example.
    """
    connections = [connection for connection in tried if connection]
    found = []
    for line in lines:
        if line.keyword not in wanted or line.match in ("", "all") or _is_for_nobody(line.match):
            continue
        values, several = split_values(line.value), line.keyword in REPEATED
        now = (
            frozenset(map(str.lower, values))
            if several
            else expected([f"{line.keyword} {' '.join(values)}"])[line.keyword]
        )
        allowed = now <= wanted[line.keyword] if several else now == wanted[line.keyword]
        if allowed or is_harmless(line.keyword, wanted[line.keyword], now):
            continue
        if not any(reaches(connection, users, line.match) for connection in connections):
            found.append(Override(line.keyword, wanted[line.keyword], now, (), (line,), untried=True))
    return found


def _is_for_nobody(match: str) -> bool:
    return any(name == "invalid-user" for name, _patterns in conditions(match))
