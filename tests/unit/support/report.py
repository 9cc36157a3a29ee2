# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports as the callback writes them."""

from __future__ import annotations

from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding

MONDAY, TUESDAY, WEDNESDAY = (f"2026-11-{day}T10:00:00+00:00" for day in (23, 24, 25))
# What a user of a host may call a process, a file or an account.
HOSTILE = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "</style><script>alert(1)</script>",
    "{{ 7 * 7 }}{% raw %}",
    "two\nlines\r\nand\ttabs",
    "NUL \0, escape \x1b[31m, half \ud800, last \uffff",
    "]]> &amp; <!-- <![CDATA[",
    "\u202egnp.exe",
]


def finding(id_: str, status: str = "pass", evidence: str = "rc 0", remedy: str = "fix it") -> Finding:
    return {"id": id_, "status": status, "evidence": evidence, "remedy": remedy}


def work(changed: int = 0, seconds: float = 1.5) -> Any:
    return {"module_runs": 3, "verify_module_runs": 1, "changed": changed, "seconds": seconds}


def host(*findings: Finding, failures: Any = (), failed: Any = False, **roles: Any) -> Any:
    """Return what a report says about a host; *failures* are names of tasks of the role ssh, *roles* the work by role."""
    return {
        "findings": list(findings),
        "failures": [{"role": "ssh", "task": task} for task in failures],
        "roles": roles,
        "outside_roles": {"module_runs": 0, "verify_module_runs": 0, "changed": 0, "seconds": 0.0},
        "stats": {"ok": 5, "failures": int(failed)},
        "failed": failed,
    }


def report(started: Any = TUESDAY, check_mode: Any = False, **hosts: Any) -> Any:
    return {
        "schema": 1,
        "playbook": "site.yml",
        "ansible_core": "2.21.5",
        "check_mode": check_mode,
        "started": started,
        "seconds": 61.5,
        "plays": [{"name": "Provision", "seconds": 60.0}],
        "hosts": hosts,
    }


def hostile(text: str) -> Any:
    """Return a report in which everything that hosts can choose is *text*."""
    entry = host(
        finding("ssh.login", "fail", text, text),
        finding("ssh.port", "warn", text, text),
        finding("ssh.root", "skip", text),
        finding("ssh.user", "pass", text),
        failures=(text,),
        failed=True,
        **{text: work(changed=1)},
    )
    return report(**{text: entry}) | {"playbook": text, "plays": [{"name": text, "seconds": 1.0}]}


def large(hosts: int = 50, findings: int = 60) -> Any:
    """Return a report of a fleet: some hosts fail, some warn, evidence is a line as those of roles are."""
    evidence = "42 MB/s on /dev/nvme0n1 as user owner, three services answer: rc 0"
    entries: Any = {}
    for number in range(hosts):
        statuses = ["fail" if number % 10 == 0 else "pass", "warn" if number % 3 == 0 else "pass", "skip"]
        recorded: Any = [
            finding(f"role{i % 20}.check_{i}", statuses[i] if i < len(statuses) else "pass", f"check {i}: {evidence}")
            for i in range(findings)
        ]
        entries[f"workstation{number:02}"] = host(*recorded, **{f"role{i}": work() for i in range(20)})
    return report(**entries)
