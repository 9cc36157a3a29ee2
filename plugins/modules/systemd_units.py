#!/usr/bin/python
# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: systemd_units
short_description: Bring systemd units to a state and make them load their current files, in one run
description:
  - Enables, starts, stops, reloads and restarts a list of units; a C(daemon-reload) is done first when systemd asks for one, or
    does not know a drop-in in C(/etc/systemd/system).
  - What a running unit has loaded is compared with what its files are now. There is no handler to lose, so a run that was killed
    between writing a file and restarting the service is completed by the next one.
  - A unit that was started has to stay up; when it does not, the task fails with the last lines of its journal.
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - A unit that does not exist yet counts as one that would be started.
      - O(units[].validate) is not run when O(changed_paths) names something, since the files are not yet what it would judge.
  diff_mode:
    support: full
    details:
      - Each unit's state before and after.
options:
  units:
    description: The units, in the order in which they are handled.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Full unit name, such as C(frps.service).
        type: str
        required: true
      state:
        description: Desired state of the unit. A unit that does not exist counts as V(stopped).
        type: str
        choices: [started, stopped]
        default: started
      enabled:
        description: Whether it starts at boot. Not touched when unset.
        type: bool
      restart_on:
        description:
          - Paths that the unit reads when it starts. The unit is restarted when one is not what it loaded.
          - A directory stands for the files in it, a symbolic link for the path that it leads to.
        type: list
        elements: path
        default: []
      reload_on:
        description: Paths that the unit reads again when it is reloaded.
        type: list
        elements: path
        default: []
      loaded:
        description:
          - Those of O(units[].restart_on) and O(units[].reload_on) that were written after the unit started and say nothing that it does
            not know. They are noted as loaded.
        type: list
        elements: path
        default: []
      may_restart:
        description: With V(false) a restart that is due is announced by a warning and in RV(pending), not done.
        type: bool
        default: true
      validate:
        description:
          - Command that is run, without a shell, before this unit is restarted or reloaded while it runs. When it fails, nothing is done to
            any unit, and the task fails with the output of the command.
          - It protects a running service from a mistake that somebody else made in its files.
        type: str
  changed_paths:
    description:
      - Paths that earlier tasks changed, as M(rigwright.workstation.config_files), M(rigwright.workstation.release_archive) and
        M(rigwright.workstation.tls_certificate) return it.
      - Only check mode needs it, to report which units would be restarted or reloaded for a change that was not made. Otherwise the
        module reads the paths themselves, and a file with only another mode restarts nothing.
    type: list
    elements: path
    default: []
  secrets:
    description:
      - Secrets that never show in an error of this task, which has the last lines of a unit's journal.
      - What looks like a secret is masked without being named, as C(token=...) and what stands before the C(@) of an
        address.
    type: list
    elements: str
    default: []
  settle:
    description: Seconds for which a unit that was just started has to stay up.
    type: float
    default: 1.0
"""

EXAMPLES = r"""
- name: Configure frps
  rigwright.workstation.config_files:
    name: frp_server
    files:
      - path: /etc/frp/frps.toml
      - path: /etc/systemd/system/frps.service
  register: __frp_server_written

- name: Run frps with its current configuration
  rigwright.workstation.systemd_units:
    changed_paths: "{{ __frp_server_written.changed_paths }}"
    units:
      - name: frps.service
        enabled: true
        restart_on:
          - /etc/systemd/system/frps.service
          - /etc/frp/frps.toml
        validate: frps verify -c /etc/frp/frps.toml
"""

RETURN = r"""
actions:
  description: What was done, or would be, per unit.
  returned: always
  type: dict
  sample: {frps.service: [enable, start]}
pending:
  description: Units that still run with older files because O(units[].may_restart) is V(false).
  returned: always
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._system.systemd_run import run


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "units": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
                    "enabled": {"type": "bool"},
                    "restart_on": {"type": "list", "elements": "path", "default": []},
                    "reload_on": {"type": "list", "elements": "path", "default": []},
                    "loaded": {"type": "list", "elements": "path", "default": []},
                    "may_restart": {"type": "bool", "default": True},
                    "validate": {"type": "str"},
                },
            },
            "changed_paths": {"type": "list", "elements": "path", "default": []},
            "settle": {"type": "float", "default": 1.0},
            "secrets": {"type": "list", "elements": "str", "default": [], "no_log": True},
        },
        supports_check_mode=True,
    )
    run(module)


if __name__ == "__main__":
    main()
