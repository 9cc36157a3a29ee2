#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: samba_directories
short_description: Have the directories of shares belong to whom they should
description:
  - Sets owner, group, mode and default ACL of the top directories of shares in one run. Their content is not touched.
  - A directory that is no longer listed gets back what it had. One whose disk is not mounted is left alone, in both directions, and the
    directory below an empty mount point is never made.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  directories:
    description:
      - The directories, each of which has to be there unless its disk is not.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Path of the directory, without links. A user who can write above it could redirect a link to files of others.
        type: path
        required: true
      owner:
        description: Its owner. Unset leaves it as it is, as with the following ones.
        type: str
      group:
        description: Its group.
        type: str
      mode:
        description: Its mode in octal digits, in quotes.
        type: str
      default_acl:
        description:
          - Whether new files have the rights that O(directories[].mode) gives user, group and others, whatever umask their maker has.
        type: bool
        default: false
      mount:
        description: Where the disk is mounted, on which the directory lies.
        type: str
        default: ""
notes:
  - Run it as root.
seealso:
  - module: rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Have the group write what anybody puts there
  rigwright.workstation.samba_directories:
    directories:
      - {path: /data/datasets, group: ml, mode: "2775", default_acl: true, mount: /data}
"""

RETURN = r"""
changed_paths:
  description: The directories that were changed, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [/data/datasets]
"""

import json
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.record import Damaged
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import directories


def write_record(record: t.Mapping[str, directories.Original]) -> None:
    Tree().replace(directories.RECORD, json.dumps(directories.dump(record), indent=1).encode() if record else None)


def main() -> None:
    module = HostModule(
        argument_spec={
            "directories": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "path": {"type": "path", "required": True},
                    "owner": {"type": "str"},
                    "group": {"type": "str"},
                    "mode": {"type": "str"},
                    "default_acl": {"type": "bool", "default": False},
                    "mount": {"type": "str", "default": ""},
                },
            }
        },
        supports_check_mode=True,
    )
    with module_lock(module, "samba_directories"):
        run(module)


def run(module: HostModule) -> None:
    try:
        record = directories.read_record(Tree())
    except Damaged as error:
        module.fail_json(msg=f"{error}. Nothing was changed.")
    try:
        # In check mode the plan knows which groups an earlier task makes, and has refused the others.
        planned = {entry["group"] for entry in module.params["directories"]} if module.check_mode else ()
        wanted = directories.wanted_of(module.params["directories"], planned)
    except KeyError as error:
        module.fail_json(msg=f"`directories`: {error.args[0]}. Make the user or group first. Nothing was changed.")
    links = [path for path in wanted if os.path.realpath(path) != path]
    if links:
        module.fail_json(
            msg=f"`directories`: a link is in {', '.join(links)}. Name the path that it leads to. Nothing was changed."
        )
    found = directories.read_all(wanted, record)
    plan = directories.plan(found, wanted, record)
    if not module.check_mode:
        # The record comes first, so that an interrupted run can still be undone.
        if plan.record.keys() - record.keys():
            write_record({**record, **plan.record})
        for path, state in plan.states.items():
            try:
                directories.write(path, state)
            except OSError as error:
                module.fail_json(
                    msg=f"{path} cannot become {state.describe()}: {error.strerror}. Check its file system."
                )
        if plan.record != record:
            write_record(plan.record)
    module.exit_json(
        changed=bool(plan.states),
        changed_paths=sorted(plan.states),
        diff={
            "before": "".join(f"{path}: {found[path].describe()}\n" for path in sorted(plan.states)),
            "after": "".join(f"{path}: {plan.states[path].describe()}\n" for path in sorted(plan.states)),
        },
    )


if __name__ == "__main__":
    main()
