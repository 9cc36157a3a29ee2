#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gnome_remote_desktop
short_description: Configure the remote login of GNOME Remote Desktop
description:
  - Configures the system daemon of GNOME Remote Desktop, by which remote users log in at GDM over RDP. Clients first need the
    credential of the machine, O(user) and O(password), and then log in as themselves.
  - Compares the settings that C(grdctl) prints with the wanted ones, sets only the differences, and reads them back.
  - C(grdctl) gets the password by its standard input. It is neither in the arguments of a process nor in a log, a diff or an error.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - Without C(grdctl), which the real run would have installed by then, all wanted settings count as a change.
  diff_mode:
    support: full
    details:
      - Without the password.
options:
  state:
    description:
      - V(absent) disables RDP, clears the credential and removes all settings, as in a new installation.
    type: str
    choices: [present, absent]
    default: present
  enabled:
    description:
      - Whether the daemon serves RDP. C(grdctl) then starts and enables C(gnome-remote-desktop.service), or stops and disables it.
      - An unset option keeps the present value, as all other options do.
    type: bool
  port:
    description: TCP port. There is no option for the address; the daemon listens on all of them.
    type: int
  certificate:
    description: Path of the certificate, a file that the account C(gnome-remote-desktop) can read.
    type: path
  key:
    description: Path of its private key, a file that the account C(gnome-remote-desktop) can read.
    type: path
  user:
    description: User of the machine's credential. It is not a user of the system and should have another name than those.
    type: str
  password:
    description:
      - Password of the machine's credential.
      - Without a TPM the daemon stores it in clear text, in a file that only its own account can read.
    type: str
requirements:
  - GNOME Remote Desktop 47 or later, with C(grdctl). Version 46 takes the password only as an argument, and the module refuses it.
notes:
  - The daemon reads O(port), O(user) and O(password) when it starts. Until C(gnome-remote-desktop.service) is restarted, it keeps
    the old port and accepts the old password.
  - A restart of the daemon ends every session of its users and everything that runs in it. So does disabling RDP. RV(sessions) names
    the users.
seealso:
  - name: GNOME Remote Desktop
    description: Its modes and their configuration by hand.
    link: https://gitlab.gnome.org/GNOME/gnome-remote-desktop
"""

EXAMPLES = r"""
- name: Let users log in to GNOME over RDP
  rigwright.workstation.gnome_remote_desktop:
    port: 3389
    certificate: /etc/gnome-remote-desktop/server.crt
    key: /etc/gnome-remote-desktop/server.key
    user: workstation
    password: "{{ vault_rdp_password }}"
    enabled: true

- name: Check the settings
  rigwright.workstation.gnome_remote_desktop:
    port: 3389
    enabled: true
  check_mode: true
  register: result
  failed_when: result is changed
"""

RETURN = r"""
changes:
  description: The changes, or those that check mode would make.
  returned: success
  type: list
  elements: str
  sample: ["port 3389", "credential of workstation: another password"]
settings:
  description: The settings after the module, or those that check mode would set, without the password.
  returned: success
  type: dict
  sample:
    enabled: true
    port: 3389
    certificate: /etc/gnome-remote-desktop/server.crt
    key: /etc/gnome-remote-desktop/server.key
    user: workstation
sessions:
  description: Users with a graphical session by remote login, which a restart of the daemon would end.
  returned: success
  type: list
  elements: str
  sample: [alice]
"""

import dataclasses

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import gnome_apply
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import gnome_remote_desktop as remote
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import grdctl as xrdp_grdctl


def main() -> None:
    module = HostModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "enabled": {"type": "bool"},
            "port": {"type": "int"},
            "certificate": {"type": "path"},
            "key": {"type": "path", "no_log": False},
            "user": {"type": "str"},
            "password": {"type": "str", "no_log": True},
        },
        supports_check_mode=True,
    )
    with module_lock(module, "gnome_remote_desktop"):
        run(module)


def run(module: HostModule) -> None:
    wanted = remote.Settings(**{field.name: module.params[field.name] for field in dataclasses.fields(remote.Settings)})
    absent = module.params["state"] == "absent"
    problems = [] if absent else remote.find_problems(wanted)
    if problems:
        module.fail_json(msg="; ".join(problems) + ". Nothing was changed.")
    grdctl = xrdp_grdctl.find(module.run_command)
    if grdctl is None and not absent and not module.check_mode:
        module.fail_json(msg=f"GNOME Remote Desktop is not installed: {xrdp_grdctl.INSTALL}. Nothing was changed.")
    if grdctl is None:
        changes = [] if absent else [command.change for command in remote.plan(gnome_apply.NONE, wanted)]
        outcome = gnome_apply.result(changes, gnome_apply.NONE, gnome_apply.NONE if absent else wanted)
    else:
        try:
            outcome = (
                gnome_apply.remove(grdctl, module.check_mode)
                if absent
                else gnome_apply.configure(grdctl, wanted, module.check_mode)
            )
        except xrdp_grdctl.GrdctlError as error:
            module.fail_json(msg=str(error))
    module.exit_json(sessions=xrdp_grdctl.sessions(module.run_command) if grdctl else [], **outcome)


if __name__ == "__main__":
    main()
