#!/usr/bin/python
# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: config_files_apply
short_description: Put rendered configuration files in place (the target's half of config_files)
description:
  - Called by M(rigwright.workstation.config_files) on the target, once for the whole set. Not for playbooks.
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
  - rigwright.workstation.config_files
  - rigwright.workstation.systemd_units
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  files:
    description: As O(rigwright.workstation.config_files#module:files), without what their content is made from.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: Absolute path., type: str, required: true}
      state:
        description: Whether the file should be there, and whether it is the set's.
        type: str
        choices: [present, released, absent]
        default: present
      mode: {description: Octal mode in quotes., type: raw, default: "0644"}
      owner: {description: User name., type: str, default: root}
      group: {description: Group name., type: str, default: root}
      merged: {description: Whether a file of the host keeps owner and mode., type: bool, default: false}
      secret: {description: Whether the content is hidden., type: bool, default: false}
      validate: {description: Command that checks the staged file., type: str}
  contents:
    description:
      - JSON object of C(files) (path and text) and C(secrets) (words that an error must not show).
      - One opaque value, so that no content reaches the target's log.
    type: str
    default: '{"files": {}, "secrets": []}'
"""

EXAMPLES = r"""
- name: Use the action instead
  rigwright.workstation.config_files:
    name: example
    files:
      - path: /etc/example.conf
        content: "words\n"
"""

# The action returns it unchanged: plugins/modules/config_files.py.
RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_request import FILE, SET
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configure import run


def main() -> None:
    module = HostModule(
        argument_spec={
            **SET,
            "files": {"type": "list", "elements": "dict", "default": [], "options": FILE},
            "contents": {"type": "str", "default": '{"files": {}, "secrets": []}', "no_log": True},
        },
        supports_check_mode=True,
    )
    run(module)


if __name__ == "__main__":
    main()
