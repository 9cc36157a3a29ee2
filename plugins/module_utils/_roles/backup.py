# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Backups by restic."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import facts, value_types
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import plan as planning
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.request import separate
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.value_types import BackupRequest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.verify import findings
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import FileRow

ROOT = "/"


def plan(request: BackupRequest, host: Host) -> dict[str, t.Any]:
    tree = Tree(ROOT)
    if request["state"] == "absent":
        return dataclasses.asdict(planning.plan_absent(facts.read_installed(request, tree)))
    public, _files, problems = separate(request)
    # A path with a NUL cannot be looked up on the host.
    unfit = any(value_types.problems(public))
    found = facts.Host() if unfit else facts.read_host(host.run_command, public, tree, request["planned"])
    planned = planning.plan_present(public, found)
    planned.requirements = [*problems, *planned.requirements]
    return dataclasses.asdict(planned)


def secret_files(request: BackupRequest) -> list[FileRow]:
    """Return the files with passwords, keys and commands, which the action ``plan`` adds on the controller."""
    return separate(request).files if request["state"] == "present" else []


def verify(request: BackupRequest, host: Host) -> list[Finding]:
    return findings(host.run_client, request)
