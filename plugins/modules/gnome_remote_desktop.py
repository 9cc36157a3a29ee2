#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gnome_remote_desktop
short_description: Configure the remote login of GNOME Remote Desktop
description:
  - Configures the system daemon of GNOME Remote Desktop, by which users who are not there log in at GDM over RDP. Clients first need the
    one credential of the machine, O(user) and O(password), and then log in as themselves.
  - What C(grdctl) tells is compared with what is wanted. Only what differs is set, and then read back.
  - The password goes to C(grdctl) by its standard input. It is neither in the arguments of a process nor in a log, a diff or an error.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - Without C(grdctl), which a package would have brought by then, all that is wanted counts as a change.
  diff_mode:
    support: full
    details:
      - Without the password.
options:
  state:
    description:
      - V(absent) disables RDP and clears the credential, so that nobody gets in and no secret is left.
    type: str
    choices: [present, absent]
    default: present
  enabled:
    description:
      - Whether the daemon serves RDP. With the setting C(grdctl) starts and enables C(gnome-remote-desktop.service), or stops and disables
        it.
      - Like every other setting it is left as it is when unset.
    type: bool
  port:
    description: TCP port that it listens at. There is no option for the address; it listens at all of them.
    type: int
  certificate:
    description: Path of the certificate, a file that the account C(gnome-remote-desktop) can read.
    type: path
  key:
    description: Path of its private key, a file that the account C(gnome-remote-desktop) can read.
    type: path
  user:
    description: User of the machine's credential. It is no user of the system and should not be named like one.
    type: str
  password:
    description:
      - Password of the machine's credential.
      - Without a TPM the daemon keeps it as it is, in a file that its own account alone can read.
    type: str
requirements:
  - GNOME Remote Desktop 46 or later, with C(grdctl).
notes:
  - The daemon reads O(port), O(user) and O(password) when it starts. Until C(gnome-remote-desktop.service) is restarted it goes on at
    the old port and accepts the old password.
  - A restart of the daemon ends every session of its users, with what runs in it. So does disabling RDP. RV(sessions) tells whose.
seealso:
  - name: GNOME Remote Desktop
    description: Its modes, and how they are configured by hand.
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

- name: See whether all is as it should be
  rigwright.workstation.gnome_remote_desktop:
    port: 3389
    enabled: true
  check_mode: true
  register: seen
  failed_when: seen is changed
"""

RETURN = r"""
changes:
  description: What was set, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: ["port 3389", "credential of workstation: another password"]
settings:
  description: What the daemon is told after the module, or would be in check mode, without the password.
  returned: success
  type: dict
  sample:
    enabled: true
    port: 3389
    certificate: /etc/gnome-remote-desktop/server.crt
    key: /etc/gnome-remote-desktop/server.key
    user: workstation
sessions:
  description: Users with a graphical session that began by remote login, which a restart of the daemon would end.
  returned: success
  type: list
  elements: str
  sample: [alice]
"""

import dataclasses
import pwd
import shutil
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils import _gnome_remote_desktop as remote

NONE = remote.Settings(enabled=False)
NOWHERE = "install the package gnome-remote-desktop, 46 or later"
SESSION = ("Name", "Remote", "Service", "Type", "Class")


class GrdctlError(Exception):
    """What went wrong, and what to do."""


class Grdctl:
    """The program, run as the daemon's account."""

    def __init__(self, module: AnsibleModule, home: str) -> None:
        self.module = module
        self.home = home

    def run(self, *words: str, data: str | None = None) -> str:
        rc, out, err = self.module.run_command(
            remote.as_account(self.home, "grdctl", *words), data=data, binary_data=True
        )
        if rc:
            # Of stdout nothing: it may be the status, with the password.
            said = err.strip() or "nothing"
            raise GrdctlError(
                f"`grdctl {' '.join(words)}` as {remote.ACCOUNT} ended with {rc} and said: {said}. "
                "See `journalctl -u polkit -u gnome-remote-desktop`, then run again."
            )
        return str(out)

    def settings(self) -> remote.Settings:
        try:
            return remote.parse_status(self.run("status", "--show-credentials"))
        except ValueError as error:
            raise GrdctlError(f"the answer of `grdctl status` was not understood ({error}): {NOWHERE}") from None

    def reads(self, path: str) -> bool:
        rc, _out, _err = self.module.run_command(remote.as_account(self.home, "test", "-f", path, "-a", "-r", path))
        return bool(rc == 0)


def find_home() -> str | None:
    """The home of the daemon's account; None where GNOME Remote Desktop is not installed."""
    try:
        home = pwd.getpwnam(remote.ACCOUNT).pw_dir
    except KeyError:
        return None
    return home if shutil.which("grdctl") else None


def read_sessions(module: AnsibleModule) -> list[str]:
    rc, listed, _err = module.run_command(["loginctl", "list-sessions", "--no-legend"])
    ids = [line.split()[0] for line in listed.splitlines() if line.strip()]
    if rc or not ids:
        return []
    # A session may end in between: loginctl then says no more than the others.
    _rc, shown, _err = module.run_command(
        ["loginctl", "show-session", *(f"--property={name}" for name in SESSION), *ids]
    )
    return remote.parse_sessions(shown)


def result(commands: t.Sequence[remote.Command], before: remote.Settings, after: remote.Settings) -> dict[str, t.Any]:
    settings = dataclasses.asdict(after)
    del settings["password"]
    return {
        "changed": bool(commands),
        "changes": [command.change for command in commands],
        "settings": settings,
        "diff": {"before": remote.shown(before), "after": remote.shown(after)},
    }


def configure(module: AnsibleModule, grdctl: Grdctl, wanted: remote.Settings) -> dict[str, t.Any]:
    """:raises GrdctlError: it cannot be done, or was not."""
    found = grdctl.settings()
    absent = module.params["state"] == "absent"
    if absent:
        wanted = remote.Settings(enabled=False)
    differ = remote.differences(found, wanted)
    for name in ("certificate", "key"):
        path = getattr(wanted, name)
        if name in differ and not module.check_mode and not grdctl.reads(path):
            raise GrdctlError(
                f"`{name}` is {path}, which is no file that {remote.ACCOUNT} can read: put it there, with this group and mode 0640."
            )
    commands = remote.plan_absent(found) if absent else remote.plan(found, wanted)
    after = dataclasses.replace(found, **{name: getattr(wanted, name) for name in differ})
    if absent:
        after = dataclasses.replace(after, user=None, password=None)
    if commands and not module.check_mode:
        for command in commands:
            grdctl.run(*command.words, data=command.data)
        kept = grdctl.settings()
        lost = remote.differences(kept, after)
        if lost or (absent and remote.plan_absent(kept)):
            raise GrdctlError(
                f"grdctl did not keep {', '.join(lost) or 'what it was told'}: "
                f"see that {remote.ACCOUNT} can write /etc/{remote.ACCOUNT} and its home {grdctl.home}, then run again."
            )
    return result(commands, found, after)


def main() -> None:
    module = AnsibleModule(
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
    wanted = remote.Settings(**{field.name: module.params[field.name] for field in dataclasses.fields(remote.Settings)})
    absent = module.params["state"] == "absent"
    faults = [] if absent else remote.find_faults(wanted)
    if faults:
        module.fail_json(msg="; ".join(faults) + ". Nothing was changed.")
    home = find_home()
    if home is None and not absent and not module.check_mode:
        module.fail_json(msg=f"GNOME Remote Desktop is not installed: {NOWHERE}. Nothing was changed.")
    if home is None:
        commands = [] if absent else remote.plan(NONE, wanted)
        outcome = result(commands, NONE, NONE if absent else wanted)
    else:
        try:
            outcome = configure(module, Grdctl(module, home), wanted)
        except GrdctlError as error:
            module.fail_json(msg=str(error))
    module.exit_json(sessions=read_sessions(module) if home else [], **outcome)


if __name__ == "__main__":
    main()
