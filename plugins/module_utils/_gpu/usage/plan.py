# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the role gpu_usage: what is wrong with its request, and what is missing on the host."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._conda import venv
from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, Problem
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import request as options

ROLE = "gpu_usage"
DOCKER_GROUP = "docker"
# What only the plan and the tasks of the role need.
NOT_OF_SAMPLER = {"state", "containers", "textfile_directory", "index_url", "python", "account", "planned"}


class Plan(t.TypedDict):
    """What the role installs or removes, and whether docker is asked for containers."""

    requirements: list[Problem]
    install: list[str]
    remove: list[str]
    containers: bool
    settings: dict[str, object]
    findings: list[Finding]


def environment_due(environment: str, requirements: str, present: bool) -> bool:
    """Return whether python_environment would change the Python of modules for this role."""
    return venv.is_due(environment, requirements, ROLE, present)


def settings(request: options.Request) -> dict[str, object]:
    """Return the options that the sampler reads, see :func:`_gpu.usage.program.settings_of`."""
    return {name: value for name, value in request.items() if name not in NOT_OF_SAMPLER}


def plan(request: options.Request, environment: str) -> Plan:
    """Return the problems, what is to be installed or removed, and whether docker is asked for containers."""
    present = request["state"] == "present"
    due = environment_due(environment, request["python"] if present else "", present)
    missing = {"environment": due, "account": accounts.user(request["account"]) is None}
    docker = bool(request["planned"].get("docker")) or accounts.group(DOCKER_GROUP) is not None
    return {
        "requirements": options.problems(request) if present else [],
        "install": [name for name, is_due in missing.items() if is_due] if present else [],
        "remove": ["environment"] if due and not present else [],
        "containers": request["containers"] and docker,
        "settings": settings(request),
        "findings": [],
    }
