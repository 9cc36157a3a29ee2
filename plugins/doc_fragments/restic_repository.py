# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The repository that modules restore from."""

    DOCUMENTATION = r"""
options:
  repository:
    description:
      - The repository of restic.
    type: dict
    suboptions:
      url:
        description: Where it is, as restic's C(--repo) takes it, such as V(rest:https://backup.example:8000/ws1) or V(/mnt/backup).
        type: str
        required: true
      password:
        description: Its password. restic gets it in its environment.
        type: str
      password_file:
        description: A file of the live system that has the password.
        type: path
      environment:
        description: Variables that restic needs, such as E(AWS_SECRET_ACCESS_KEY).
        type: dict
        default: {}
      options:
        description: Options of the backend, as C(-o) of restic takes them.
        type: list
        elements: str
        default: []
  snapshots:
    description:
      - What is restored, in this order. The first has the manifest, where none is given.
    type: list
    elements: dict
    default: [{id: latest, filters: []}]
    suboptions:
      id:
        description: The id of a snapshot, or V(latest).
        type: str
        default: latest
      filters:
        description: What V(latest) is the latest of, such as V(--host=ws1) and V(--tag=system).
        type: list
        elements: str
        default: []
"""
