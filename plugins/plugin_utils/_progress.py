# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of a run for the progress callback: events in, lines and a table out. Nothing here writes to a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ansible_collections.rigwright.workstation.plugins.plugin_utils._report import proves, short_role

OUTSIDE = "(playbook)"
_GAP = "  "
# Lines that are already shown cannot get wider columns: these fit most names.
_LEAST_HOST, _LEAST_ROLE = 12, 22
# Of the table, in which a long name does not take the room of the task.
_MOST_HOST, _MOST_ROLE = 20, 32
_LEAST_TASK = 12
# Hosts of a line.
_NAMED = 5


class Line(NamedTuple):
    """A line to show; the status colours it (empty: no colour)."""

    text: str
    status: str = ""


class Task(NamedTuple):
    """A task that starts on a host."""

    name: str
    role: str | None = None
    packages: bool = False


class _Row(NamedTuple):
    host: str
    role: str
    task: str
    seconds: str
    changed: str
    status: str = ""


# Tasks for all roles of a host.
OF_ALL = {"rigwright.workstation.plan": "all roles (plan)", "rigwright.workstation.verify": "all roles (verify)"}


def is_live(isatty: bool, environment: Mapping[str, str]) -> bool:
    """Return whether the output is a terminal on which lines can be drawn again."""
    return isatty and environment.get("TERM", "dumb") != "dumb"


def role_of(task: Any) -> str | None:
    """Return the role that the play applies: roles and tasks that it includes count for it; None is a task outside roles.

    :param task: a task of Ansible.
    """
    role, node = None, task
    while node is not None:
        role = node._role or role
        node = node._parent
    if role is None:
        return OF_ALL.get(task.action)
    return f"{short_role(role.get_name())}{' (verify)' if proves(task) else ''}"


def is_rescued(task: Any) -> bool:
    """Return whether a failure of a task is caught: a block on the way to it has a `rescue`, and the task is not in that."""
    way, node = {task._uuid}, task._parent
    while node is not None:
        if getattr(node, "rescue", None) and way & {each._uuid for each in node.block}:
            return True
        way.add(node._uuid)
        node = node._parent
    return False


def installs_packages(action: str) -> bool:
    """Return whether an action may wait for package downloads, or for the lock of apt and dpkg."""
    name = action.rpartition(".")[2]
    return name in ("apt", "package") or name.endswith("_packages")


def width(text: str) -> int:
    """Return the number of columns that a terminal needs for printable text."""
    return sum(_columns(character) for character in text)


def fit(text: str, columns: int) -> str:
    """Return text as one printable line that has at most so many columns."""
    text = "".join(character if character.isprintable() else " " for character in text)
    if width(text) <= columns:
        return text
    fitting, used = "", 0
    for character in text:
        used += _columns(character)
        if used > columns - 1:
            break
        fitting += character
    return f"{fitting}…" if columns > 0 else ""


def named(hosts: Collection[str]) -> str:
    """Return hosts for a line: the names of the first ones, and how many more there are."""
    names = sorted(hosts)
    more = len(names) - _NAMED
    return f"{', '.join(names[:_NAMED])} and {more} more" if more > 1 else ", ".join(names)


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _cell(text: str, columns: int) -> str:
    text = fit(text, columns)
    return text + " " * (columns - width(text))


@dataclass
class _Applied:
    """A role, or the tasks outside roles, on one host in one play. `since` and `until` are of the last stretch without other roles."""

    role: str
    since: float
    until: float
    spent: float = 0.0
    changed: int = 0
    results: list[str] = field(default_factory=list)
    ended: bool = False
    task: Task | None = None
    task_since: float = 0.0
    attempt: int = 0

    def seconds(self, now: float) -> float:
        return self.spent + (now if self.task else self.until) - self.since

    def status(self) -> str:
        for status in ("unreachable", "failed"):
            if status in self.results:
                return status
        # The rescue is not the role's own: nothing of the role came after.
        if self.results[-1:] == ["rescued"] and self.role != OUTSIDE:
            return "failed"
        if self.changed:
            return "changed"
        return "skipped" if {*self.results} == {"skipped"} else "ok"

    def outcome(self) -> str:
        return f"changed ({self.changed})" if self.status() == "changed" else self.status()

    def doing(self) -> str:
        if self.task is None:
            return ""
        waiting = "waiting for packages: " if self.task.packages else ""
        attempt = f" (attempt {self.attempt})" if self.attempt > 1 else ""
        return f"{waiting}{self.task.name}{attempt}"


@dataclass
class Progress:
    """What each host of a play does, and has done. Times are seconds of one clock."""

    began: float = 0.0
    show_skipped: bool = False
    _play: str = ""
    _announced: bool = True
    # Of the present play: the last one of a host is what it does now.
    _hosts: dict[str, list[_Applied]] = field(default_factory=dict)
    # A line is as wide as the names before it.
    _host_width: int = _LEAST_HOST
    _role_width: int = _LEAST_ROLE

    def begin_play(self, name: str) -> list[Line]:
        """Begin a play, and return the lines of the one before."""
        lines = self.end_play()
        self._play, self._announced = name, False
        return lines

    def begin_task(self, host: str, task: Task, now: float) -> list[Line]:
        """Note that a task starts on a host; return the line of the role that has ended there."""
        lines = self._enter(host, task.role, now)
        applied = self._hosts[host][-1]
        applied.task, applied.task_since, applied.attempt = task, now, 0
        return lines

    def retry(self, host: str, attempt: int) -> None:
        """Note that the task of a host starts again."""
        if host in self._hosts:
            self._hosts[host][-1].attempt = attempt

    def end_task(self, host: str, role: str | None, status: str, changed: bool, now: float) -> list[Line]:
        """Note the result of a task: `ok`, `skipped`, `rescued`, `failed` or `unreachable`; return the lines of what ends with it."""
        lines = self._enter(host, role, now)
        applied = self._hosts[host][-1]
        applied.task, applied.until = None, now
        applied.changed += changed
        applied.results.append(status)
        if status == "unreachable":
            lines += self._leave(host)
        return lines

    def end_play(self) -> list[Line]:
        """End the play, and return the lines of what its hosts did last."""
        lines = [line for host in self._hosts for line in [*self._leave(host), *self._outside(host)]]
        self._hosts = {}
        return lines

    def interrupt(self, now: float) -> list[Line]:
        """End the run, and return the lines of roles that have not ended."""
        lines = []
        for host, roles in self._hosts.items():
            if not roles[-1].ended:
                task = roles[-1].task
                outcome = f"interrupted{f': {task.name}' if task else ''}"
                lines.append(self._line(host, roles[-1], outcome, "interrupted", now))
        self._hosts = {}
        return self._under_the_play(lines)

    def table(self, now: float, columns: int, rows: int) -> list[Line]:
        """Return the lines of the live table: at most so many rows, each of fewer columns than the terminal has."""
        columns -= 1  # in the last column, terminals differ about when they break the line
        if not self._hosts:
            return []
        shown = [*self._rows(now, max(rows - 2, 1))]
        hosts = min(max(width(text) for text in ("host", *(row.host for row in shown))), _MOST_HOST)
        roles = min(max(width(text) for text in ("role", *(row.role for row in shown))), _MOST_ROLE)
        lines = [Line(f"{self._play}{_GAP}{now - self.began:.0f} s")]
        for row in [_Row("host", "role", "task", "seconds", "changed"), *shown]:
            names = f"{_cell(row.host, hosts)}{_GAP}{_cell(row.role, roles)}{_GAP}"
            counts = f"{_GAP}{row.seconds:>7}{_GAP}{row.changed:>7}"
            task = _cell(row.task, max(columns - width(names) - len(counts), _LEAST_TASK))
            lines.append(Line(f"{names}{task}{counts}", row.status))
        others = len(self._hosts) - sum(bool(row.host) for row in shown)
        if others:
            lines.append(Line(f"… and {others} more hosts"))
        return [Line(fit(line.text, columns), line.status) for line in lines[: max(rows, 0)]]

    def _enter(self, host: str, role: str | None, now: float) -> list[Line]:
        """Let a host be in a role, and return the line of another one that has ended."""
        roles = self._hosts.setdefault(host, [])
        name = OUTSIDE if role is None else role
        if roles and roles[-1].role == name:
            return []
        lines = self._leave(host)
        applied = next((earlier for earlier in roles if earlier.role == name == OUTSIDE), None)
        if applied is None:
            applied = _Applied(name, now, now)
        else:
            # One row, and one line, for all tasks outside roles.
            roles.remove(applied)
            applied.spent, applied.since, applied.until = applied.seconds(now), now, now
        roles.append(applied)
        self._host_width = max(self._host_width, width(host))
        self._role_width = max(self._role_width, width(name))
        return lines

    def _leave(self, host: str) -> list[Line]:
        roles = self._hosts[host]
        if not roles or roles[-1].role == OUTSIDE:
            return []
        return self._end(host, roles[-1])

    def _outside(self, host: str) -> list[Line]:
        """Return the line of the tasks outside roles, unless roles were applied and these tasks changed nothing."""
        applied = next((earlier for earlier in self._hosts[host] if earlier.role == OUTSIDE), None)
        if applied is None or (len(self._hosts[host]) > 1 and applied.status() in ("ok", "skipped")):
            return []
        return self._end(host, applied)

    def _end(self, host: str, applied: _Applied) -> list[Line]:
        if applied.ended or not applied.results:
            return []
        applied.ended = True
        if applied.status() == "skipped" and not self.show_skipped:
            return []
        line = self._line(host, applied, applied.outcome(), applied.status(), applied.until)
        return self._under_the_play([line])

    def _line(self, host: str, applied: _Applied, outcome: str, status: str, now: float) -> Line:
        names = f"{host}{' ' * (self._host_width - width(host))}{_GAP}{applied.role}{' ' * (self._role_width - width(applied.role))}"
        return Line(f"{names}{_GAP}{applied.seconds(now):7.1f} s{_GAP}{outcome}", status)

    def _under_the_play(self, lines: list[Line]) -> list[Line]:
        if lines and not self._announced:
            self._announced = True
            return [Line(f"{self._play}:"), *lines]
        return lines

    def _rows(self, now: float, room: int) -> Iterator[_Row]:
        """Yield a row for each host, and as many earlier roles of each as there is room for."""
        names = list(self._hosts)
        if len(names) > room:
            # The sort is stable: rows change places only when hosts start or end something. One line is for the others.
            chosen = sorted(names, key=lambda host: self._hosts[host][-1].task is None)[: room - 1]
            names = [host for host in names if host in chosen]
        earlier = self._earlier(names, room - len(self._hosts))
        for host in names:
            roles = self._hosts[host]
            for number, applied in enumerate(roles[len(roles) - 1 - earlier[host] :]):
                yield self._row(host if number == 0 else "", applied, applied is roles[-1], now)

    def _earlier(self, names: list[str], room: int) -> dict[str, int]:
        """Return how many earlier roles are shown of each host: the latest ones, and as many of one host as of another."""
        earlier = dict.fromkeys(names, 0)
        while room > 0:
            more = [host for host in names if earlier[host] < len(self._hosts[host]) - 1][:room]
            if not more:
                break
            for host in more:
                earlier[host] += 1
            room -= len(more)
        return earlier

    def _row(self, host: str, applied: _Applied, last: bool, now: float) -> _Row:
        changed = str(applied.changed)
        if applied.task:
            return _Row(host, applied.role, applied.doing(), f"{now - applied.task_since:.0f}", changed)
        status = applied.status()
        busy = any(roles[-1].task for roles in self._hosts.values())
        waiting = last and busy and status not in ("failed", "unreachable")
        seconds = f"{applied.seconds(now):.0f}"
        return _Row(
            host,
            applied.role,
            "waiting for other hosts" if waiting else status,
            seconds,
            changed,
            "" if waiting else status,
        )
