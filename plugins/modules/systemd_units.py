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
  - rigwright.workstation.systemd_units
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
  secrets:
    description:
      - Secrets that never show in an error of this task, which has the last lines of a unit's journal.
      - What looks like a secret is masked without being named, as C(token=...) and what stands before the C(@) of an
        address.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Run frps with its current configuration
  rigwright.workstation.systemd_units:
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

from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_request import UNITS
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._system.systemd_run import run


def main() -> None:
    module = HostModule(
        argument_spec={
            **UNITS,
            "secrets": {"type": "list", "elements": "str", "default": [], "no_log": True},
        },
        supports_check_mode=True,
    )
    run(module)


if __name__ == "__main__":
    main()
