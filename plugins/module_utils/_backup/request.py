# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Separate the secrets from a request for backups: they become the content of files that only root can read.

Plans, logs and diffs have the rest.
"""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import address as addresses
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import hooks
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.units import SECRETS
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.value_types import BackupRequest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import FileRow


class Separated(t.NamedTuple):
    """A request without secrets, and the files of its secrets.

    :ivar problems: what is wrong with the secrets; there are no files then. No text has a secret.
    """

    request: BackupRequest
    files: list[FileRow]
    problems: list[Problem]


def separate(request: BackupRequest) -> Separated:
    """Return a request without passwords, keys and commands."""
    entries, jobs = request["repositories"], request["jobs"]
    problems = [row for row in addresses.requirements(entries) if not row["ok"]] + list(hooks.problems(jobs))
    rows = [addresses.public(entry) for entry in entries]
    public = t.cast("BackupRequest", {**request, "repositories": rows, "jobs": hooks.public(jobs)})
    files = [] if problems else [*addresses.files(entries, SECRETS), hooks.file(jobs, SECRETS)]
    return Separated(public, files, problems)
