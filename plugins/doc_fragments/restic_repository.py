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
      - The repository of restic, as C(backup_repositories) of the role P(rigwright.workstation.backup#role) has it. Secrets reach
        restic in files and in its environment, never in a command.
    type: dict
    suboptions:
      name: {description: Name., type: str, default: backup}
      url: {description: "Address, such as V(rest:https://backup.example:8000/ws1/) or V(/mnt/backup).", type: str, required: true}
      password: {description: Password of the repository., type: str}
      password_file: {description: "File of the live system with the password, instead.", type: str}
      user: {description: User of a REST server., type: str}
      user_password: {description: Password of that user., type: str}
      env: {description: "Environment of restic, such as the keys of S3.", type: dict}
      ca_certificate: {description: Certificate that the server's is signed by., type: str}
      ssh_key: {description: Private key for sftp., type: str}
      known_hosts: {description: The server's keys for sftp., type: str}
      options: {description: Further options of restic., type: list, elements: str}
      append_only: {description: Whether the server only appends. Nothing is removed here in any case., type: bool}
      init: {description: Accepted as in the role's list; nothing is made here., type: bool, default: true}
  snapshots:
    description:
      - The snapshots to restore, in this order. The first has the manifest, where none is given.
    type: list
    elements: dict
    default: [{id: latest, filters: []}]
    suboptions:
      id:
        description: The id of a snapshot, or V(latest).
        type: str
        default: latest
      filters:
        description: What V(latest) is the latest of, such as V(--host=ws1) and V(--tag=job:system,part:files).
        type: list
        elements: str
        default: []
"""
