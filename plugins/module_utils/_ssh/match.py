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


class Entering(t.NamedTuple):
    """The users whom sshd lets in, with their groups: now, with those that the role gives them, and also those without a shell.

    The last ones can use ``ForceCommand internal-sftp``, which needs none.
    """

    now: Users
    planned: Users
    shellless: Users


class Listed(t.NamedTuple):
    """The users that the host lists, and those of its groups that have no other members."""

    users: t.Collection[str] = ()
    groups: t.Collection[str] = ()


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


def sort_out(
    found: t.Iterable[Override], tried: t.Iterable[Connection], users: Entering, host: Listed
) -> tuple[list[Override], list[Override]]:
    """Return, of what ``untried`` found, what is for users with the groups that the role gives them, and what may be for other users.

    The rest is in blocks for users and groups of this host, none of whom sshd lets in.
    """
    connections = [{**each, "user": user} for each in tried if each for user in (each["user"], *users.planned)]
    refused, unsure = [], []
    for override in found:
        match = override.lines[0].match
        if any(reaches(connection, users.planned, match) for connection in connections):
            refused.append(override)
        elif not _is_for_listed(match, users.shellless, host):
            unsure.append(override)
    return refused, unsure


def _is_for_listed(match: str, users: Users, host: Listed) -> bool:
    """Return whether a block is for certain users or groups, all of which are known, and none of the users fits."""
    who = [(name, patterns) for name, patterns in conditions(match) if name in ("user", "group")]
    named = [(name, [each for each in patterns if not each.startswith("!")]) for name, patterns in who]
    lists = [(host.users if name == "user" else host.groups, patterns) for name, patterns in named]
    if any(each not in listed and not {*each} & {*"*?"} for listed, patterns in lists for each in patterns):
        return False
    # A criterion with a wildcard may fit users whom the host does not list.
    limited = any({*patterns} <= {*listed} for listed, patterns in lists)
    return limited and not any(all(_fits({"user": user}, users, *each) for each in who) for user in users)


def _is_for_nobody(match: str) -> bool:
    return any(name == "invalid-user" for name, _patterns in conditions(match))
