# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: backup_request
short_description: Separate the secrets from the repositories of the role backup
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Secrets are returned only as the content of files that only root can read. Plans get the rest.
  - A fingerprint of the password shows whether it has changed. It is expensive to compute, so that nobody can guess the password from it.
positional: _input, folder
options:
  _input:
    description: The repositories, as in C(backup_repositories).
    type: list
    elements: dict
    required: true
  folder:
    description: Directory of the files.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show where the backups go
  ansible.builtin.debug:
    msg: "{{ (backup_repositories | rigwright.workstation.backup_request('/etc/rigwright/backup')).repositories }}"
"""

RETURN = r"""
_value:
  description:
    - C(repositories) without a secret, C(files) for M(rigwright.workstation.config_files), and C(requirements) for
      M(rigwright.workstation.require).
  type: dict
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import address as addresses


def backup_request(entries: Sequence[Mapping[str, Any]], folder: str) -> dict[str, Any]:
    """Return the repositories without secrets, the files of secrets, and the problems."""
    problems = [row for row in addresses.requirements(entries) if not row["ok"]]
    return {
        "requirements": problems,
        "repositories": [addresses.public(entry) for entry in entries],
        "files": [] if problems else addresses.files(entries, folder),
    }


class FilterModule:
    """Filters of this collection."""

    def filters(self) -> dict[str, Any]:
        return {"backup_request": backup_request}
