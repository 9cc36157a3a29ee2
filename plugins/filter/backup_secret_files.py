# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: backup_secret_files
short_description: The files with the secrets of backups
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Turns the repositories and jobs of the role P(rigwright.workstation.backup#role) into files that only root can read, with
    passwords, keys and commands. So the plan of the role has no secret.
positional: _input, jobs
options:
  _input:
    description: The repositories, as in C(backup_repositories).
    type: list
    elements: dict
    required: true
  jobs:
    description: The jobs, as in C(backup_jobs).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the paths of the files
  ansible.builtin.debug:
    msg: "{{ backup_repositories | rigwright.workstation.backup_secret_files(backup_jobs) | map(attribute='path') }}"
"""

RETURN = r"""
_value:
  description: Files, as M(rigwright.workstation.config_files) takes them.
  type: list
  elements: dict
"""

import json
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._backup.request import separate
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import options_of, request_of
from ansible_collections.rigwright.workstation.plugins.plugin_utils._role import ROLES


def secret_files(repositories: list[dict[str, Any]], jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    options = options_of(str(ROLES / "backup"))
    # Ansible's lazy containers in them cannot be copied by the validator.
    values = json.loads(json.dumps({"backup_repositories": repositories, "backup_jobs": jobs}, default=str))
    request, secrets = request_of("backup", options, values)
    return separate({**request, **secrets}).files


class FilterModule:
    """Filters of this collection."""

    def filters(self) -> dict[str, Any]:
        return {"backup_secret_files": secret_files}
