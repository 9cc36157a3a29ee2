# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: backup_commands
short_description: Separate the commands of hooks and dumps from the jobs of the role backup
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Arguments of commands may be secrets. They are returned only as the content of a file that only root can read.
positional: _input, folder
options:
  _input:
    description: The jobs, as in C(backup_jobs).
    type: list
    elements: dict
    required: true
  folder:
    description: Directory of the file.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show what is backed up
  ansible.builtin.debug:
    msg: "{{ (backup_jobs | rigwright.workstation.backup_commands('/etc/rigwright/backup')).jobs }}"
"""

RETURN = r"""
_value:
  description:
    - C(jobs) without commands, only with the programs that root would run, C(files) for M(rigwright.workstation.config_files), and
      C(requirements) for M(rigwright.workstation.require).
  type: dict
"""

from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import hooks


def backup_commands(jobs: Any, folder: str) -> dict[str, Any]:
    """Return the jobs without commands, the file of commands, and the problems."""
    problems = list(hooks.problems(jobs))
    file = {"path": f"{folder}/{hooks.FILE}", "mode": "0600", "secret": True}
    return {
        "requirements": problems,
        "jobs": hooks.public(jobs),
        "files": [] if problems else [{**file, "content": hooks.text(jobs)}],
    }


class FilterModule:
    """Filters of this collection."""

    def filters(self) -> dict[str, Any]:
        return {"backup_commands": backup_commands}
