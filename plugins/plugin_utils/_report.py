# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the report callback has seen, as one plain mapping (docs/report.md) and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.plugin_utils._finding import merge

SCHEMA = 1
# The ending of the report of the run before, which the callback keeps.
PREVIOUS = ".previous"

MARKS = {"pass": "✔", "warn": "!", "fail": "✘", "skip": "-"}

_COLLECTION = "rigwright.workstation."
OUTSIDE = "(outside roles)"


def short_role(name: str) -> str:
    """Return the name of a role, without the collection's name when it is ours."""
    return name[len(_COLLECTION) :] if name.startswith(_COLLECTION) else name


def own_role(task: Any) -> str | None:
    """Return the short name of the role that a task of Ansible is in."""
    role = task._role
    return None if role is None else short_role(role.get_name())


def proves(task: Any) -> bool:
    """Return whether a task of Ansible verifies roles, or is in a role's tasks/verify.yml, or was included from it."""
    if task.action == f"{_COLLECTION}verify":
        return True
    node = task
    while node is not None:
        path = (node.get_path() or "").rpartition(":")[0]
        if path.endswith("/tasks/verify.yml"):
            return True
        node = node._parent
    return False


@dataclass
class Work:
    """Module runs, changes and time of a role, or of tasks outside roles, on one host."""

    module_runs: int = 0
    verify_module_runs: int = 0
    changed: int = 0
    seconds: float = 0.0


@dataclass
class HostReport:
    """The results of one host; stats are Ansible's own final counts."""

    findings: list[Finding] = field(default_factory=list)
    failures: list[dict[str, str | None]] = field(default_factory=list)
    roles: dict[str, Work] = field(default_factory=dict)
    outside_roles: Work = field(default_factory=Work)
    stats: dict[str, int] = field(default_factory=dict)

    def work(self, role: str | None) -> Work:
        """Return the account of *role*; None is what stands outside roles."""
        return self.outside_roles if role is None else self.roles.setdefault(role, Work())

    def add_findings(self, findings: list[Finding]) -> None:
        """Take *findings* in; one that is made again takes the place of the earlier one."""
        self.findings = merge(self.findings, findings)

    @property
    def failed(self) -> bool:
        """Return True if Ansible counts the host as failed or as never reached."""
        return bool(self.stats.get("failures") or self.stats.get("unreachable"))


class ModuleRun(TypedDict, total=False):
    """What is noted of a module that a task starts. The role is None outside of one."""

    host: str
    role: str | None
    verify: bool


class PlayRun(TypedDict):
    """A play of a report."""

    name: str
    seconds: float


@dataclass
class Report:
    """One run of a playbook; times are UTC in ISO 8601, durations seconds of wall time."""

    playbook: str
    ansible_core: str
    check_mode: bool
    started: str
    seconds: float = 0.0
    plays: list[PlayRun] = field(default_factory=list)
    hosts: dict[str, HostReport] = field(default_factory=dict)

    def host(self, name: str) -> HostReport:
        """Return the account of the host *name* of the inventory."""
        return self.hosts.setdefault(name, HostReport())

    def add_module_run(self, run: ModuleRun) -> None:
        """Count one module run: host, role (or None), verify (whether it proves instead of provisions)."""
        work = self.host(run["host"]).work(run["role"])
        if run["verify"]:
            work.verify_module_runs += 1
        else:
            work.module_runs += 1

    def as_data(self) -> JsonObject:
        """Return what is written as JSON."""
        data = {"schema": SCHEMA, **asdict(self)}
        data["seconds"] = round(self.seconds, 3)
        for play in data["plays"]:
            play["seconds"] = round(play["seconds"], 3)
        for name, host in data["hosts"].items():
            host["failed"] = self.hosts[name].failed
            for work in [*host["roles"].values(), host["outside_roles"]]:
                work["seconds"] = round(work["seconds"], 3)
        return data


def table(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the lines of the table, each with the status that colours it (empty: none)."""
    for name, host in report.hosts.items():
        yield from _host_lines(name, host, host.findings)
        rows = [*host.roles.items(), (OUTSIDE, host.outside_roles)]
        rows = [(role, work) for role, work in rows if work != Work()]
        width = max((len(role) for role, _work in rows), default=0)
        if rows:
            yield f"  {'role':{width}}  module runs  verify  changed  seconds", ""
        for role, work in rows:
            counts = f"{work.module_runs:11}  {work.verify_module_runs:6}  {work.changed:7}  {work.seconds:7.1f}"
            yield f"  {role:{width}}  {counts}", ""


def summary(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the lines of the short table: by host what is not a pass, and the counts by role over all hosts."""
    roles: dict[str, _Total] = {}
    for name, host in report.hosts.items():
        problems = [finding for finding in host.findings if finding["status"] != "pass"]
        if problems or host.failures or host.failed:
            yield from _host_lines(name, host, problems)
            # The message is above, perhaps beyond what the terminal keeps.
            status, end = ("fail", "") if host.failed else ("warn", " (a rescue caught it)")
            for failure in host.failures:
                yield f"  {MARKS[status]} task: {failure['task']}{end}", status
        passes = Counter(finding["id"].partition(".")[0] for finding in host.findings if finding["status"] == "pass")
        works = {**host.roles, OUTSIDE: host.outside_roles}
        for role in [*works, *(role for role in passes if role not in works)]:
            work = works.get(role, Work())
            if work != Work() or passes[role]:
                roles.setdefault(role, _Total()).add(work, passes[role])
    width = max((len(role) for role in roles), default=0)
    if roles:
        yield f"{'role':{width}}  hosts  pass  changed  seconds", ""
    for role, total in sorted(roles.items(), key=lambda item: item[0] == OUTSIDE):
        yield f"{role:{width}}  {total.hosts:5}  {total.passes:4}  {total.changed:7}  {total.seconds:7.1f}", ""


@dataclass
class _Total:
    hosts: int = 0
    passes: int = 0
    changed: int = 0
    seconds: float = 0.0

    def add(self, work: Work, passes: int) -> None:
        self.hosts += 1
        self.passes += passes
        self.changed += work.changed
        # Hosts work at the same time, so a sum would say nothing about the run.
        self.seconds = max(self.seconds, work.seconds)


def _host_lines(name: str, host: HostReport, findings: list[Finding]) -> Iterator[tuple[str, str]]:
    yield f"{name}{' FAILED' if host.failed else ''}", "fail" if host.failed else ""
    width = max((len(finding["id"]) for finding in findings), default=0)
    for finding in findings:
        evidence = " ".join(finding["evidence"].split())
        yield f"  {MARKS[finding['status']]} {finding['id']:{width}}  {evidence}", finding["status"]
        if finding["remedy"] and finding["status"] in ("warn", "fail"):
            yield f"    {'':{width}}  remedy: {' '.join(finding['remedy'].split())}", finding["status"]
