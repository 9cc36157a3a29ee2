# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reports read from their files, as one fleet: the newest run of each host, and what changed since the run before."""

from __future__ import annotations

import collections
import datetime
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._core import json_text
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown
from ansible_collections.rigwright.workstation.plugins.plugin_utils import _finding, _report_files
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report import (
    OUTSIDE,
    SCHEMA,
    HostReport,
    PlayRun,
    Report,
    Work,
)

# Worst first: the order of hosts, and of what changed.
FAILED, NO_REPORT = "failed", "no report"
STATES = (FAILED, "fail", "warn", "pass", "skip")
GONE = "gone"

# A command's whole output as evidence would make a page that no phone opens.
LIMIT = 4000
# XML 1.0 has no place for these, and HTML none for most of them. JSON may hold halves of surrogate pairs.
_NOT_TEXT = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# What no run reaches; NaN and infinity fail the comparison, too.
_MOST = 10**12

_KINDS = {Mapping: "mapping", list: "list", str: "string", bool: "boolean", int: "whole number", float: "number"}


@dataclass(frozen=True)
class Change:
    """A finding whose status differs between two runs; `before` is empty for a new one, `after` is GONE when the role dropped it."""

    id: str
    before: str
    after: str


@dataclass
class Host:
    """The newest report of a host, and what differs from the one before."""

    name: str
    report: Report
    result: HostReport
    earlier: Report | None = None
    changes: list[Change] = field(default_factory=list)
    unchecked: int = 0

    @property
    def state(self) -> str:
        """Return the worst of the host: FAILED if Ansible counts it as failed, otherwise the worst status of its findings."""
        return FAILED if self.result.failed else min(self.counts, key=STATES.index, default="pass")

    @property
    def counts(self) -> collections.Counter[str]:
        """Return the number of findings by status."""
        return collections.Counter(finding["status"] for finding in self.result.findings)

    @property
    def works(self) -> list[tuple[str, Work]]:
        """Return the work of each role that did some, then that outside roles."""
        rows = [*self.result.roles.items(), (OUTSIDE, self.result.outside_roles)]
        return [(role, work) for role, work in rows if work != Work()]


@dataclass
class RoleTotal:
    """The work of a role on all hosts, and the host that took longest."""

    hosts: int = 0
    module_runs: int = 0
    verify_module_runs: int = 0
    changed: int = 0
    longest: float = 0.0
    slowest: str = ""


@dataclass
class Fleet:
    """All hosts of some reports, worst first; `missing` are hosts of the inventory in no report."""

    hosts: list[Host]
    reports: list[Report]
    missing: list[str] = field(default_factory=list)

    @property
    def states(self) -> collections.Counter[str]:
        """Return the number of hosts by state."""
        return collections.Counter(host.state for host in self.hosts)

    @property
    def roles(self) -> dict[str, RoleTotal]:
        """Return the work of each role, the longest first."""
        totals: dict[str, RoleTotal] = {}
        for host in self.hosts:
            for role, work in host.works:
                total = totals.setdefault(role, RoleTotal())
                total.hosts += 1
                total.module_runs += work.module_runs
                total.verify_module_runs += work.verify_module_runs
                total.changed += work.changed
                if not total.slowest or work.seconds > total.longest:
                    total.longest, total.slowest = work.seconds, host.name
        return dict(sorted(totals.items(), key=lambda item: -item[1].longest))


def started(report: Report) -> datetime.datetime:
    """Return when the run began; a time without zone is UTC.

    :raises ValueError: the report has no such time.
    """
    try:
        time = datetime.datetime.fromisoformat(report.started)
        return time.replace(tzinfo=datetime.UTC) if time.tzinfo is None else time.astimezone(datetime.UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError("started is no time in ISO 8601") from error


def fleet(reports: Sequence[Report], earlier: Sequence[Report] = (), inventory: Sequence[str] = ()) -> Fleet:
    """Return the newest result of each host in *reports*, compared with the next older one in *reports* or *earlier*."""
    reports = sorted(reports, key=started, reverse=True)
    newest: dict[str, Host] = {}
    for report in reports:
        for name, result in report.hosts.items():
            newest.setdefault(name, Host(name, report, result))
    for report in sorted([*reports, *earlier], key=started, reverse=True):
        for name in newest.keys() & report.hosts.keys():
            host = newest[name]
            if host.earlier is None and started(report) < started(host.report):
                host.earlier = report
                host.changes, host.unchecked = compare(report.hosts[name], host.result)
    return Fleet(
        hosts=sorted(newest.values(), key=lambda host: (STATES.index(host.state), host.name)),
        reports=reports,
        missing=sorted(clean(name) for name in inventory if clean(name) not in newest),
    )


def compare(before: HostReport, after: HostReport) -> tuple[list[Change], int]:
    """Return the findings whose status differs, worst first, and how many this run did not check again.

    A finding is gone only if the run recorded others of its role. Otherwise the run left the role out, as with --tags.
    """
    old, new = ({finding["id"]: finding["status"] for finding in host.findings} for host in (before, after))
    changes = [Change(id_, old.get(id_, ""), status) for id_, status in new.items() if old.get(id_) != status]
    checked = {id_.partition(".")[0] for id_ in new}
    lost = [id_ for id_ in old if id_ not in new]
    changes += [Change(id_, old[id_], GONE) for id_ in lost if id_.partition(".")[0] in checked]
    order = (*STATES, GONE)
    return (
        sorted(changes, key=lambda change: order.index(change.after)),
        sum(id_.partition(".")[0] not in checked for id_ in lost),
    )


def clean(text: str) -> str:
    """Return *text* with U+FFFD for characters that a page or an XML file cannot have."""
    return _NOT_TEXT.sub("\ufffd", text.replace("\r\n", "\n"))


def shorten(text: str) -> str:
    """Return at most LIMIT characters of *text*, and how many more the report has."""
    return text if len(text) <= LIMIT else f"{text[:LIMIT]} … ({len(text) - LIMIT} more characters in the report)"


def parse(content: bytes) -> Report:
    """Return the report that the callback wrote as *content*.

    Keys of a later release are ignored, as the schema promises.

    :raises ValueError: it is none, or of another schema. The message names the key, not its value.
    """
    try:
        data = json_text.parse(content, _report_files.LIMIT)
    except ValueError as error:
        raise ValueError(f"is not JSON, or not all of it ({error})") from error
    if not isinstance(data, Mapping):
        raise ValueError("is not a report of the callback rigwright.workstation.report: it is no mapping")
    schema = data.get("schema")
    if type(schema) is int and schema != SCHEMA:
        raise ValueError(f"has schema {schema}, and this release reads schema {SCHEMA}")
    try:
        _take(data, "schema", int)
        report = Report(
            playbook=_take(data, "playbook", str),
            ansible_core=_take(data, "ansible_core", str),
            check_mode=_take(data, "check_mode", bool),
            started=_take(data, "started", str),
            seconds=_take(data, "seconds", float),
            plays=[
                PlayRun(name=_take(play, "name", str, "plays"), seconds=_take(play, "seconds", float, "plays"))
                for play in _take(data, "plays", list)
            ],
            hosts=_named(_take(data, "hosts", Mapping), _host),
        )
        started(report)
    except ValueError as error:
        raise ValueError(f"is not a report of the callback rigwright.workstation.report: {error}") from error
    return report


def _named(data: Mapping[str, Any], read: Callable[[str, Any], Any]) -> dict[str, Any]:
    """Return what *read* makes of each value, by clean names."""
    found = {clean(name): read(name, value) for name, value in data.items()}
    if len(found) != len(data):
        raise ValueError("two names differ by control characters alone")
    return found


def _host(name: str, data: object) -> HostReport:
    place = f"hosts.{shown(name)}"
    stats = _take(data, "stats", Mapping, place)
    failures = [
        {"role": _take(failure, "role", str, place, none=True), "task": _take(failure, "task", str, place)}
        for failure in _take(data, "failures", list, place)
    ]
    return HostReport(
        findings=list(_findings(_take(data, "findings", list, place), place)),
        failures=failures,
        roles=_named(_take(data, "roles", Mapping, place), lambda _role, work: _work(work, place)),
        outside_roles=_work(_take(data, "outside_roles", Mapping, place), place),
        stats={key: _take(stats, key, int, place) for key in stats},
    )


def _findings(data: list[Any], place: str) -> Iterator[Finding]:
    for raw in data:
        if not isinstance(raw, Mapping):
            raise ValueError(f"a finding of {place} is no mapping")
        try:
            parsed = _finding.parse({key: raw.get(key) for key in _finding.KEYS})
        except ValueError as error:
            raise ValueError(f"a finding of {place}: {error}") from error
        yield Finding(
            id=clean(parsed["id"]),
            status=clean(parsed["status"]),
            evidence=clean(parsed["evidence"]),
            remedy=clean(parsed["remedy"]),
        )


def _work(data: object, place: str) -> Work:
    counts = {key: _take(data, key, int, place) for key in ("module_runs", "verify_module_runs", "changed")}
    return Work(**counts, seconds=_take(data, "seconds", float, place))


def _take(data: object, key: str, kind: type, place: str = "", none: bool = False) -> Any:
    """Return `data[key]`, which must be of the type *kind*; a string is made clean."""
    value: Any = data.get(key) if isinstance(data, Mapping) else None
    if none and value is None:
        return None
    name = f"{place}.{shown(key)}" if place else key
    number = kind in (int, float)
    kinds = (int, float) if kind is float else (kind,)
    fits = isinstance(value, kinds) and not (number and isinstance(value, bool))
    if not fits:
        raise ValueError(f"{name} is missing or no {_KINDS[kind]}")
    if number and not 0 <= value < _MOST:
        raise ValueError(f"{name} is out of range")
    return clean(value) if kind is str else value
