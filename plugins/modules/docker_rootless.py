#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: docker_rootless
short_description: Set up rootless docker for users
description:
  - Sets up rootless docker for exactly the listed users. Each gets subordinate ids, a user manager that starts at boot, and
    C(docker.service) of that manager, whose unit is in C(/etc/systemd/user).
  - For users who are no longer listed, the module removes what it has added, and nothing else.
  - A docker whose containers would end is neither restarted nor stopped, unless O(allow_disruption) is set. Its user is returned in
    RV(waiting).
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
  users:
    description:
      - Existing users of the host. The module sets up rootless docker for no others.
    type: list
    elements: str
    required: true
  files:
    description:
      - Files that rootless docker reads when it starts. A docker that was started before they changed is restarted.
    type: list
    elements: path
    default: []
  allow_disruption:
    description:
      - Whether containers may end.
    type: bool
    default: false
seealso:
  - name: Rootless mode
    description: Its requirements and limits.
    link: https://docs.docker.com/engine/security/rootless/
"""

EXAMPLES = r"""
- name: Set up rootless docker for Alice
  rigwright.workstation.docker_rootless:
    users: [alice]
    files: [/etc/systemd/user/docker.service, /etc/docker/rootless.json]
"""

RETURN = r"""
changes:
  description: The changes, or in check mode the planned changes.
  returned: success
  type: list
  elements: str
  sample: ["alice: docker started"]
waiting:
  description: The users whose docker was left alone, with the containers that would have ended.
  returned: success
  type: dict
  sample: {bob: [train]}
failed_users:
  description: The users whose docker could not be set up or removed, with the reason. The others are not concerned.
  returned: success
  type: dict
  sample: {carol: the user's service manager does not answer}
"""

import json
import os

from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import clip, shown
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import rootless, rootless_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.rootless_facts import (
    RECORD,
    read_record,
    read_user,
)


def write_record(tree: Tree, record: rootless.Record) -> None:
    path = tree.at(RECORD)
    if not record:
        if os.path.exists(path):
            os.unlink(path)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    replace_file(path, json.dumps(record, indent=1, sort_keys=True))


def run_all(module: HostModule, commands: list[list[str]]) -> str:
    """Run the commands for a user up to the first that fails, and return its error."""
    for command in commands:
        rc, out, err = module.run_command(command)
        if rc != 0:
            lines = (err.strip() or out.strip()).splitlines()
            return clip(shown(lines[-1] if lines else f"{command[0]} ended with {rc}"), 200)
    return ""


def main() -> None:
    module = HostModule(
        argument_spec={
            "users": {"type": "list", "elements": "str", "required": True},
            "files": {"type": "list", "elements": "path", "default": []},
            "allow_disruption": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    with module_lock(module, "docker_rootless"):
        run(module)


def run(module: HostModule) -> None:
    tree = Tree(rootless_facts.ROOT)
    try:
        record = read_record(tree)
    except ValueError as error:
        module.fail_json(msg=f"{error}. Nothing was changed.")
    wanted = list(dict.fromkeys(module.params["users"]))
    found = {name: read_user(module.run_command, name, module.params["files"]) for name in {*wanted, *record}}
    users = {name: user for name, user in found.items() if user}
    unknown = [name for name in wanted if name not in users]
    if unknown:
        module.fail_json(msg=f"`users` names no user of this host: {', '.join(unknown)}. Nothing was changed.")
    ranges = {option: tree.text(path) for option, path in rootless.SUBORDINATE.items()}
    plan = rootless.plan(users, wanted, record, ranges, module.params["allow_disruption"])
    if not module.check_mode:
        # Record first, so that a later run removes what an interrupted run has added.
        planned = {**record, **plan.record}
        if planned != record:
            write_record(tree, planned)
        for name, commands in plan.steps.items():
            message = run_all(module, commands)
            if message:
                plan.failed[name] = message
                plan.record[name] = planned[name]
        if plan.record != record:
            write_record(tree, plan.record)
    module.exit_json(
        changed=bool(plan.changes),
        changes=plan.changes,
        waiting=plan.waiting,
        failed_users=plan.failed,
        diff={"before": "", "after": "".join(f"{line}\n" for line in plan.changes)},
    )


if __name__ == "__main__":
    main()
