#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: backup_repository
short_description: Make repositories of restic, open them, and change their passwords
description:
  - A repository that is not there is made, if its C(init) allows it. A repository that rejects its password is never made again.
  - Where the password in O(folder) still opens it, the new one is added to it. The old one is removed with O(retire=true), when the
    new one is in its file. So a step that is cut short locks nobody out.
  - The module keeps what it did in O(record), so that a role runs it only when there is something to do. Where a repository was
    before, none is made. A repository with another id is refused.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - No repository is opened, since restic may not be installed yet. Settings that differ from those in O(record)
        count as a change.
  diff_mode:
    support: none
options:
  repositories:
    description:
      - The repositories, as the role P(rigwright.workstation.backup#role) has them in C(backup_repositories).
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name., type: str, required: true}
      url: {description: Address., type: str, required: true}
      password: {description: Password of the repository., type: str}
      password_file: {description: "File on the host with the password, instead.", type: str}
      user: {description: User of a REST server., type: str}
      user_password: {description: Password of that user., type: str}
      env: {description: "Environment of restic, such as the keys of S3.", type: dict}
      ca_certificate: {description: Certificate that the server's is signed by., type: str}
      ssh_key: {description: Private key for sftp., type: str}
      known_hosts: {description: The server's keys for sftp., type: str}
      options: {description: Further options of restic., type: list, elements: str}
      append_only: {description: Whether the server only appends., type: bool}
      init: {description: Whether it is made where it is missing., type: bool, default: true}
  names:
    description:
      - Which of them are due.
    type: list
    elements: str
    required: true
  retire:
    description:
      - Remove the old passwords of O(names) instead, now that the units read the new ones.
    type: bool
    default: false
  program:
    description:
      - Path of restic.
    type: path
    default: /usr/bin/restic
  user:
    description:
      - Owner of a repository on this machine.
    type: str
    required: true
  folder:
    description:
      - Directory of the current password files. It is refused where users other than root may write in it or above it.
    type: path
    default: /etc/rigwright/backup
  record:
    description:
      - File with the record of opened repositories. It is refused where users other than root may write above it.
    type: path
    default: /var/lib/rigwright_backup/repositories.json
seealso:
  - module: rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Make a repository on a disk of its own
  rigwright.workstation.backup_repository:
    repositories: [{name: disk, url: /backup/ws, password: "{{ vault_backup_password }}"}]
    names: [disk]
    user: rigwright-backup
"""

RETURN = r"""
repositories:
  description:
    - What was done, by name. V(made), V(opened), V(password_added), V(password_retired), or V(password_kept) where a server that only
      appends has kept the key of the old password.
  returned: success
  type: dict
  sample: {disk: made}
findings:
  description: What the user has to do at the repositories, as M(rigwright.workstation.finding) takes it.
  returned: success
  type: list
  elements: dict
  sample: []
changed_paths:
  description: The record, if it has changed.
  returned: success
  type: list
  elements: str
  sample: [/var/lib/rigwright_backup/repositories.json]
"""

import os
import signal
import tempfile
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import record as records
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.address import OPTIONS
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.record import (
    RECORD,
    RepositoryRecord,
    findings,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.repository import (
    Opener,
    OpenError,
    settings_of,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import ConfigError, read_version
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.record import Damaged
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._core.writable import open_problem

# Memory, which nobody else can read, and which is gone after a boot.
SCRATCH = "/run"


def open_repositories(module: HostModule, record: dict[str, JsonObject], version: t.Sequence[int]) -> dict[str, str]:
    """Open the repositories that are due, or retire their old passwords; return what was done.

    :raises OpenError: one of them cannot be used; those before it are remembered.
    """
    params = module.params
    done: dict[str, str] = {}
    for entry in params["repositories"]:
        if entry["name"] not in params["names"]:
            continue
        with tempfile.TemporaryDirectory(prefix="rigwright-", dir=SCRATCH) as scratch:
            opener = Opener(entry, params["program"], version, params["user"], params["folder"], scratch)
            step = opener.retire if params["retire"] else opener.open
            done[entry["name"]], opened = step(RepositoryRecord.of(record.get(entry["name"])))
        record[entry["name"]] = opened.row()
        records.write(params["record"], record)
    return done


def would_change(params: t.Mapping[str, t.Any], record: dict[str, JsonObject]) -> bool:
    named = [entry for entry in params["repositories"] if entry["name"] in params["names"]]
    return any(
        RepositoryRecord.of(record.get(entry["name"])).is_due(settings_of(entry, params["user"])) for entry in named
    )


def stop(number: int, _frame: t.Any) -> t.NoReturn:
    """End as after an error: remove the secrets that were written, and end restic."""
    raise SystemExit(128 + number)


def main() -> None:
    module = HostModule(
        argument_spec={
            "repositories": {"type": "list", "elements": "dict", "required": True, "options": OPTIONS},
            "names": {"type": "list", "elements": "str", "required": True},
            "retire": {"type": "bool", "default": False},
            "program": {"type": "path", "default": "/usr/bin/restic"},
            "user": {"type": "str", "required": True},
            "folder": {"type": "path", "default": "/etc/rigwright/backup"},
            "record": {"type": "path", "default": RECORD},
        },
        supports_check_mode=True,
    )
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, stop)
    with module_lock(module, "backup_repository"):
        run(module)


def run(module: HostModule) -> None:
    params = module.params
    if problem := open_problem([os.path.dirname(params["record"]), params["folder"], params["program"]]):
        module.fail_json(msg=f"`record`, `folder` or `program`: {problem}. Nothing was changed.")
    names = [entry["name"] for entry in params["repositories"]]
    done: dict[str, str] = {}
    try:
        before, record = records.read(params["record"]), records.read(params["record"])
        if module.check_mode:
            changed = would_change(params, record)
        else:
            done = open_repositories(module, record, read_version(params["program"]))
            changed = record != before or any(kind != "opened" for kind in done.values())
    except (OpenError, ConfigError, Damaged) as error:
        module.fail_json(msg=f"{error}. Nothing else was changed.")
    module.exit_json(
        changed=changed,
        repositories=done,
        findings=findings(record, names),
        changed_paths=[params["record"]] if changed else [],
    )


if __name__ == "__main__":
    main()
