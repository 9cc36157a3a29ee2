# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a finding is, apart from Ansible."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.redact import without_credentials
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.plugin_utils._check_mode import changes
from ansible_collections.rigwright.workstation.plugins.plugin_utils._role import Variables

if TYPE_CHECKING:
    from ansible.playbook.task import Task

STATUSES = ("pass", "warn", "fail", "skip")
KEYS = ("id", "status", "evidence", "remedy")

_ID = re.compile(r"[a-z][a-z0-9_]*(\.[A-Za-z0-9_-]+)+")


def parse(raw: object) -> Finding:
    """Return the finding that *raw* describes; remedy is empty when none is given. What looks like a secret of another file is masked.

    Raises ValueError, which names the finding and the key but not its value.
    """
    if not isinstance(raw, Mapping):
        raise ValueError("a finding is a mapping of id, status, evidence and remedy")
    id_ = raw.get("id")
    if not (isinstance(id_, str) and _ID.fullmatch(id_)):
        raise ValueError("id of a finding must be <role>.<what>, such as ssh.key_login")
    unknown = sorted(str(key) for key in raw.keys() - set(KEYS))
    if unknown:
        raise ValueError(f"{id_}: unknown key {', '.join(unknown)}; known are {', '.join(KEYS)}")
    if raw.get("status") not in STATUSES:
        raise ValueError(f"{id_}: status must be one of {', '.join(STATUSES)}")
    if not _is_text(raw.get("evidence")):
        raise ValueError(f"{id_}: evidence must be a string that says what was seen")
    remedy = raw.get("remedy")
    if remedy is not None and not isinstance(remedy, str):
        raise ValueError(f"{id_}: remedy must be a string")
    if raw["status"] in ("warn", "fail") and not _is_text(remedy):
        raise ValueError(f"{id_}: remedy must say what to do about a {raw['status']}")
    return {
        "id": id_,
        "status": raw["status"],
        "evidence": without_credentials(raw["evidence"].strip()),
        "remedy": (remedy or "").strip(),
    }


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value.strip() != ""


def not_seen(finding: Finding) -> Finding:
    """Return *finding* as check mode may record it before the change that it is about: pass becomes skip."""
    if finding["status"] != "pass":
        return finding
    evidence = f"check mode: the run changes this host first; expected then: {finding['evidence']}"
    return {**finding, "status": "skip", "evidence": evidence}


def merge(recorded: Sequence[Finding], new: Sequence[Finding]) -> list[Finding]:
    """Return *recorded* with *new*: a finding that is recorded again replaces the earlier one."""
    return list({finding["id"]: finding for finding in [*recorded, *new]}.values())


def recorded(findings: Sequence[Finding], task: Task, task_vars: Variables, changed: bool = False) -> JsonObject:
    """Return the result of a task that records *findings* as facts of the host.

    :param changed: whether the task itself changes the host.
    """
    role = task._role
    if task.check_mode and role and (changed or changes(task_vars, role.get_name().rpartition(".")[2])):
        findings = [not_seen(finding) for finding in findings]
    earlier = task_vars.get("ansible_facts", {}).get("rigwright_findings", [])
    return {
        "changed": changed,
        "findings": list(findings),
        "ansible_facts": {"rigwright_findings": merge(earlier, findings)},
    }
