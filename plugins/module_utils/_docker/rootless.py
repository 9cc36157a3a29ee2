# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan rootless docker for users. Pure: users and a record in, commands out.

The unit itself is a file of the role, the same for all users. Each user needs a range of subordinate ids, a user manager that runs
without a login, and the docker that this manager runs.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject

# The files by the option of usermod. COUNT is the size of a range, enough ids for all users of an image (the default of useradd).
SUBORDINATE = {"--add-subuids": "/etc/subuid", "--add-subgids": "/etc/subgid"}
REMOVE = {"--add-subuids": "--del-subuids", "--add-subgids": "--del-subgids"}
COUNT = 65536
FIRST = 100000
UNIT = "docker.service"
# Seconds for what runs as a user, who may never answer: to read, and to start or stop docker.
READ_S, START_S = 30, 300
SILENT = "the user's service manager does not answer"


@dataclasses.dataclass(frozen=True)
class User:
    """A user of the host. ``active``: the user's docker runs; ``older``: since before its files were written.

    ``silent``: the user's service manager gives no answer that can be read.
    """

    uid: int
    lingers: bool = False
    active: bool = False
    older: bool = False
    containers: tuple[str, ...] = ()
    silent: bool = False


# What the role has added for a user, and will remove again: the ranges as ``first-last`` by the option that adds them, and whether
# the user lingers because of the role.
Given = JsonObject
Record = dict[str, Given]


@dataclasses.dataclass
class Plan:
    """The steps. Those of one user are carried out apart: what a user has in the way stops nobody else's docker."""

    record: Record = dataclasses.field(default_factory=dict)
    steps: dict[str, list[list[str]]] = dataclasses.field(default_factory=dict)
    waiting: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    changes: list[str] = dataclasses.field(default_factory=list)

    def do(self, user: str, change: str, *commands: list[str]) -> None:
        self.changes.append(f"{user}: {change}")
        self.steps.setdefault(user, []).extend(commands)

    @property
    def commands(self) -> list[list[str]]:
        return [command for commands in self.steps.values() for command in commands]


def parse_ranges(text: str) -> list[tuple[str, int, int]]:
    """Return owner, first id and count of each line of /etc/subuid; invalid lines are skipped, as newuidmap(1) does."""
    found = []
    for line in text.splitlines():
        fields = line.strip().split(":")
        if len(fields) == 3 and fields[1].isdecimal() and fields[2].isdecimal():
            found.append((fields[0], int(fields[1]), int(fields[2])))
    return found


def first_free(taken: t.Iterable[tuple[int, int]]) -> int:
    """Return the first id of a range that overlaps none of these: each a first id and a count."""
    start = FIRST
    for first, count in sorted(taken):
        if first - start >= COUNT:
            break
        start = max(start, first + count)
    return start


def as_user(user: str, uid: int, *command: str, seconds: int = START_S) -> list[str]:
    """Return a command that runs for a limited time as a user who may never have logged in."""
    limit = ["timeout", "--kill-after=5", str(seconds)]
    return [*limit, "runuser", "-u", user, "--", "env", f"XDG_RUNTIME_DIR=/run/user/{uid}", *command]


def read_as_user(user: str, uid: int, *command: str) -> list[str]:
    """Return such a command whose output is limited."""
    limited = 'set -o pipefail; "$@" | head --bytes=65536'
    return ["bash", "-c", limited, "bash", *as_user(user, uid, *command, seconds=READ_S)]


def systemctl(user: str, uid: int, *arguments: str) -> list[str]:
    return as_user(user, uid, "systemctl", "--user", *arguments)


def plan(
    users: t.Mapping[str, User],
    wanted: t.Sequence[str],
    record: t.Mapping[str, Given],
    ranges: t.Mapping[str, str],
    allow_disruption: bool,
) -> Plan:
    """Plan the steps so that exactly these users have rootless docker.

    :param users: facts of the users who are wanted or in the record, if they exist.
    :param ranges: the content of the two files of :data:`SUBORDINATE`, by the option that adds to them.
    """
    steps = Plan(record={name: dict(given) for name, given in record.items() if name in users})
    taken = {option: [(first, count) for _owner, first, count in parse_ranges(text)] for option, text in ranges.items()}
    silent = {name for name in (*wanted, *steps.record) if users[name].silent}
    steps.failed = dict.fromkeys(sorted(silent), SILENT)
    for name in (name for name in wanted if name not in silent):
        user, given = users[name], steps.record.setdefault(name, {})
        for option, text in ranges.items():
            if not any(
                owner in (name, str(user.uid)) and count >= COUNT for owner, _start, count in parse_ranges(text)
            ):
                first = first_free(taken[option])
                taken[option].append((first, COUNT))
                given[option] = f"{first}-{first + COUNT - 1}"
                steps.do(name, f"{SUBORDINATE[option]} {given[option]}", ["usermod", option, given[option], name])
        if not user.lingers:
            given["linger"] = True
            # logind starts the manager without waiting for it.
            manager = ["systemctl", "start", f"user@{user.uid}.service"]
            steps.do(name, "user manager from boot on", ["loginctl", "enable-linger", name], manager)
        # A manager that was just started is starting docker itself: `start` waits for it, `restart` would interrupt it.
        reload = systemctl(name, user.uid, "daemon-reload")
        if not user.active:
            steps.do(name, "docker started", reload, systemctl(name, user.uid, "start", UNIT))
        elif user.older and user.containers and not allow_disruption:
            steps.waiting[name] = user.containers
        elif user.older:
            steps.do(name, "docker restarted", reload, systemctl(name, user.uid, "restart", UNIT))
    for name in sorted(steps.record.keys() - set(wanted) - silent):
        user, given = users[name], steps.record[name]
        if user.containers and not allow_disruption:
            steps.waiting[name] = user.containers
            continue
        if user.active:
            steps.do(name, "docker stopped", systemctl(name, user.uid, "stop", UNIT))
        if given.get("linger"):
            steps.do(name, "user manager from login on", ["loginctl", "disable-linger", name])
        for option in ranges:
            if option in given:
                steps.do(
                    name,
                    f"{SUBORDINATE[option]} without {given[option]}",
                    ["usermod", REMOVE[option], given[option], name],
                )
        del steps.record[name]
    return steps
