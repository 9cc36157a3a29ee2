# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: backup_request
short_description: The repositories of the role backup, parted into what may be seen and what may not
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Secrets come out as the content of files that root alone reads, and nowhere else. All that plans is given the rest.
  - Whether a password has changed is told by a fingerprint that is dear to compute, so that it says nothing about the password.
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
    """Return the repositories without secrets, their files, and the problems."""
    faults = [row for row in addresses.requirements(entries) if not row["ok"]]
    return {
        "requirements": faults,
        "repositories": [addresses.public(entry) for entry in entries],
        "files": [] if faults else addresses.files(entries, folder),
    }


class FilterModule:
    """Filters of this collection."""

    def filters(self) -> dict[str, Any]:
        return {"backup_request": backup_request}
