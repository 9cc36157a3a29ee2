"""Show a run of `ansible-playbook` as one line a role, its changes, and its findings as one line a role."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

PROOFS = "proofs"
_TASK = re.compile(r"TASK \[(?:rigwright\.workstation\.)?(\w+) : ")
_PLAY = re.compile(r"PLAY \[(.+)\]")
_CHANGED = re.compile(r"changed: \[([^\]]+)\]")
# What roles share says nothing about the role that a reader waits for.
_SHARED = "common"


class Steps:
    """Reads the output of `ansible-playbook` line by line, and gives a line to show when a role ends."""

    def __init__(self) -> None:
        self.role = ""
        self.proving = False
        self.changed: Counter[str] = Counter()
        self.start = time.monotonic()

    def take(self, line: str) -> str:
        """Return what to show for a line of output, empty for most of them."""
        if line.startswith("still: "):
            return f"    {line}"
        if play := _PLAY.match(line):
            self.proving = play[1].startswith("Verify")
        if task := _TASK.match(line):
            role = PROOFS if self.proving else task[1]
            return self.begin(role) if role not in (self.role, _SHARED) else ""
        if line.startswith("PLAY RECAP"):
            return self.begin("")
        if found := _CHANGED.match(line):
            self.changed[found[1]] += 1
        return ""

    def begin(self, role: str) -> str:
        """Begin another role, and return the line of the one that has ended."""
        seconds = time.monotonic() - self.start
        shown = f"    {self.role:26} {seconds:6.1f} s   {self.outcome()}" if self.role else ""
        self.role, self.start = role, time.monotonic()
        self.changed.clear()
        return shown

    def outcome(self) -> str:
        if self.role == PROOFS:
            return "see the findings"
        if not self.changed:
            return "nothing to change"
        return "changed " + ", ".join(f"{host} ({count})" for host, count in sorted(self.changed.items()))


def changes(output: str, host: str) -> Iterator[str]:
    """Yield what a run with -v changed on a host: the task, and each path or unit that its result names."""
    task = ""
    for line in output.splitlines():
        if heading := re.match(r"TASK \[(?:\S+ : )?(.+)\] \*", line):
            task = heading[1]
        elif found := re.match(rf"changed: \[{host}\] => (?:\(item=.*\) => )?(\{{.*\}})$", line):
            result = json.loads(found[1])
            units = [f"{verb} {unit}" for unit, verbs in result.get("actions", {}).items() for verb in verbs]
            for subject in [*result.get("changed_paths", []), *units] or ["changed"]:
                yield f"{task}: {subject}"


def findings(hosts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line with the counts of each role, and one for each finding that did not pass, with its remedy."""
    rows = [(name, finding) for name, host in hosts.items() for finding in host["findings"]]
    width = max((len(_role(finding)) for _name, finding in rows), default=0)
    for role in dict.fromkeys(_role(finding) for _name, finding in rows):
        of_role = [(name, finding) for name, finding in rows if _role(finding) == role]
        yield f"    {role:{width}}  {counts(finding for _name, finding in of_role)}"
        for name, finding in of_role:
            if finding["status"] in ("fail", "warn"):
                remedy = f"; {finding['remedy']}" if finding["remedy"] else ""
                yield f"      {finding['status']}: {finding['id']} on {name}: {_one_line(finding['evidence'] + remedy)}"


def counts(found: Iterable[Mapping[str, Any]]) -> str:
    """Return `30 pass, 3 skip`."""
    numbers = Counter(finding["status"] for finding in found)
    return ", ".join(f"{numbers[status]} {status}" for status in ("pass", "warn", "fail", "skip") if numbers[status])


def _role(finding: Mapping[str, Any]) -> str:
    return str(finding["id"]).partition(".")[0]


def _one_line(text: str) -> str:
    return " ".join(text.split())
