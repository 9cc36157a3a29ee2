#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sshd_info
short_description: Gather what sshd really does and who can log in
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
description:
  - Reads the effective configuration from C(sshd -T), never from the files.
  - Tells which users can log in with a key or with a password, now and after a change that is only planned, and which of them
    can become root. A role can so refuse a change that would lock everybody out before it makes it.
  - Judges keys as sshd does. The file must pass C(StrictModes), and the type and length must be accepted.
  - Changes nothing, but for C(/run/sshd), an empty directory that C(sshd -T) demands and the service makes whenever it starts.
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed when in diff mode.
    support: none
options:
  plan:
    description: A change that is weighed, not made.
    type: dict
    default: {}
    suboptions:
      config:
        description:
          - Options of sshd_config(5) that take the place of the effective ones. C(DenyUsers) and C(DenyGroups) add to them.
          - Those that may be given several times can be lists, for example C(AllowGroups).
        type: dict
        default: {}
      members:
        description: "Users that will be in a group, as C({group: [user]})."
        type: dict
        default: {}
      keys:
        description: "Public keys that will be accepted from files of root, as C({user: [key]})."
        type: dict
        default: {}
  user:
    description: The user whose effective configuration is asked for; C(Match) blocks can make it differ.
    type: str
    default: root
  client:
    description: The client address for which the effective configuration is asked for.
    type: str
    default: 127.0.0.1
  probe_address:
    description: The address at which O(probe_ports) are tried.
    type: str
    default: 127.0.0.1
  probe_ports:
    description: Ports from which an ssh banner is asked.
    type: list
    elements: int
    default: []
notes:
  - Run it as root. Keys and password hashes are read, but none is returned.
  - Not seen are keys from C(AuthorizedKeysCommand) and certificates. A user who has only those counts as one without a key.
seealso:
  - module: rigwright.workstation.config_files
"""

EXAMPLES = r"""
- name: Look who would still get in with keys alone
  rigwright.workstation.sshd_info:
    plan:
      config: {permitrootlogin: "no", allowgroups: [remote]}
      members: {remote: [alice]}
  register: __sshd

- name: Refuse to lock everybody out
  ansible.builtin.assert:
    that: __sshd.planned.key_users | intersect(__sshd.admins) | length > 0
"""

RETURN = r"""
installed:
  description: Whether sshd is installed.
  returned: always
  type: bool
version:
  description: The version of OpenSSH, empty when it is not installed.
  returned: always
  type: str
  sample: "9.2"
config:
  description: The effective configuration. Keywords that may be given several times are lists, all others are strings.
  returned: always
  type: dict
  sample: {permitrootlogin: "no", port: ["22"]}
effective:
  description: The lines of C(sshd -T) as they are, empty when there are none.
  returned: always
  type: list
  elements: str
  sample: [port 22, permitrootlogin no]
config_error:
  description: Why sshd refuses its own configuration, empty when it does not. O(ignore:config) then holds the defaults of sshd.
  returned: always
  type: str
main_config:
  description: The main configuration file as it is with the drop-in directory included before all else.
  returned: always
  type: dict
  contains:
    text:
      description: The text, empty when there is no such file yet.
      type: str
    added:
      description: Whether the include is, or has to be, added by this collection.
      type: bool
service:
  description: The unit C(ssh.service).
  returned: always
  type: dict
  contains:
    active:
      description: Whether it runs.
      type: bool
    ports:
      description: The ports on which its main process listens.
      type: list
      elements: int
socket:
  description: The unit C(ssh.socket), by which systemd starts sshd on demand.
  returned: always
  type: dict
  contains:
    active:
      description: Whether it listens.
      type: bool
    accept:
      description: Whether each connection gets a service instance of its own.
      type: bool
    ports:
      description: The ports on which it listens.
      type: list
      elements: int
connection:
  description: The ssh connection by which this module was started, V(null) when there is none.
  returned: always
  type: dict
  sample: {user: alice, client: 10.0.0.7, address: 10.0.0.5, port: 22}
now:
  description: Who can log in now.
  returned: always
  type: dict
  contains:
    key_users:
      description: The users with a key that sshd accepts.
      type: list
      elements: str
    password_users:
      description: The users with a password that sshd would accept, empty when it asks for none.
      type: list
      elements: str
planned:
  description: Who could log in after the plan.
  returned: always
  type: dict
  contains:
    key_users:
      description: The users with a key that sshd would accept.
      type: list
      elements: str
    password_users:
      description: The users with a password, as if sshd asked for passwords.
      type: list
      elements: str
admins:
  description: Those of RV(now) and RV(planned) who can become root, by C(sudo) or because root has a password for C(su).
  returned: always
  type: list
  elements: str
key_problems:
  description: What is wrong with the keys of users who have some, none of them accepted after the plan.
  returned: always
  type: list
  elements: str
  sample: ["alice: /home/alice is writable by others: StrictModes refuses it"]
invalid_keys:
  description: What is wrong with keys of O(plan.keys), without the keys.
  returned: always
  type: list
  elements: str
  sample: ["alice, key 2: not a public key"]
unknown_users:
  description: The users of O(plan) that do not exist.
  returned: always
  type: list
  elements: str
banners:
  description: The banner from each of O(probe_ports), empty when none came.
  returned: always
  type: dict
  sample: {"22": "SSH-2.0-OpenSSH_9.2p1"}
"""

import contextlib
import grp
import os
import pwd
import re
import socket
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._listeners import read_listeners
from ansible_collections.rigwright.workstation.plugins.module_utils._sshd import (
    DEFAULTS,
    INCLUDE_NOTE,
    Access,
    Account,
    Host,
    access,
    connection,
    ensure_include,
    grants_root,
    has_password,
    key_problem,
    listen_port,
    overlay,
    parse_config,
    parse_shadow,
    parse_units,
)

SSHD = "/usr/sbin/sshd"
MAIN_CONFIG = "/etc/ssh/sshd_config"
BANNER_SECONDS = 3


def read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def accounts(names: t.Iterable[str], members: t.Mapping[str, t.Sequence[str]]) -> list[Account]:
    """All users that can be listed, and the named ones, which a directory service may know without listing them."""
    shadow = parse_shadow(read("/etc/shadow"))
    entries = {entry.pw_name: entry for entry in pwd.getpwall()}
    for name in names:
        with contextlib.suppress(KeyError):
            entries.setdefault(name, pwd.getpwnam(name))
    found = []
    for name, entry in entries.items():
        password, expires = shadow.get(name, ("*", None))
        groups = {group for group, users in members.items() if name in users}
        for gid in os.getgrouplist(name, entry.pw_gid):
            with contextlib.suppress(KeyError):
                groups.add(grp.getgrgid(gid).gr_name)
        found.append(Account(name, entry.pw_uid, entry.pw_dir, entry.pw_shell, password, expires, frozenset(groups)))
    return found


def users_of(found: t.Mapping[str, Access]) -> dict[str, list[str]]:
    return {
        "key_users": sorted(name for name, entry in found.items() if entry.key),
        "password_users": sorted(name for name, entry in found.items() if entry.password),
    }


def key_problems(found: t.Mapping[str, Access], expected: t.Collection[str]) -> list[str]:
    """Why users cannot use the keys that they have, or, for the expected ones, cannot log in at all."""
    lines = []
    for name, ways in sorted(found.items()):
        problems = list(ways.problems) if not ways.key else []
        if ways.refusal and name in expected:
            problems.append(ways.refusal)
        lines += [f"{name}: {problem}" for problem in problems]
    return lines


def invalid_keys(keys: t.Mapping[str, t.Sequence[str]], config: t.Mapping[str, t.Any], today: int) -> list[str]:
    judged = [
        (user, number, key_problem(key, config, today))
        for user, found in sorted(keys.items())
        for number, key in enumerate(found, 1)
    ]
    return [f"{user}, key {number}: {problem}" for user, number, problem in judged if problem]


def effective_config(module: AnsibleModule) -> tuple[str, str]:
    """What ``sshd -T`` says, or the reason for which it says nothing."""
    # The service makes the directory when it starts; with socket activation it is missing until then, and sshd -T wants it.
    os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    asked = f"user={module.params['user']},host={module.params['client']},addr={module.params['client']}"
    rc, out, err = module.run_command([SSHD, "-T", "-C", asked])
    return (out, "") if rc == 0 else ("", err.strip())


def main_config() -> dict[str, t.Any]:
    text = read(MAIN_CONFIG) if os.path.exists(MAIN_CONFIG) else ""
    wanted = ensure_include(text) if text else ""
    return {"text": wanted, "added": wanted != text or INCLUDE_NOTE in text}


def version(module: AnsibleModule) -> str:
    # Before 9.3 -V is an unknown option, and the version stands in the complaint.
    _rc, out, err = module.run_command([SSHD, "-V"])
    found = re.search(r"OpenSSH_(\d+\.\d+)", out + err)
    return found.group(1) if found else ""


def units(module: AnsibleModule) -> tuple[dict[str, t.Any], dict[str, t.Any]]:
    """The state of ssh.service and ssh.socket."""
    wanted = "Id,ActiveState,MainPID,Accept,Listen"
    _rc, out, _err = module.run_command(["systemctl", "show", "--property", wanted, "ssh.service", "ssh.socket"])
    found = parse_units(out)
    service, listening = found.get("ssh.service", {}), found.get("ssh.socket", {})
    ports = {listen_port(value) for value in listening.get("Listen", [])} - {None}
    active = listening.get("ActiveState") == ["active"]
    return (
        {"active": service.get("ActiveState") == ["active"], "ports": ports_of(int(service.get("MainPID", ["0"])[0]))},
        {"active": active, "accept": listening.get("Accept") == ["yes"], "ports": sorted(ports) if active else []},
    )


def ports_of(pid: int) -> list[int]:
    """The ports of the main process alone: those of a session's process are forwarded ones."""
    return sorted({entry["port"] for entry in read_listeners() if pid and entry["pid"] == pid})


def ancestors() -> t.Iterator[tuple[int, dict[str, str]]]:
    """User id and environment of this process, its parent and so on, as far as they may be read."""
    pid = os.getpid()
    while pid > 1:
        try:
            environment = dict(
                entry.split("=", 1) for entry in read(f"/proc/{pid}/environ").split("\0") if "=" in entry
            )
            yield os.stat(f"/proc/{pid}").st_uid, environment
            # The name, in brackets, may hold anything; the parent is the second field after it.
            pid = int(read(f"/proc/{pid}/stat").rpartition(")")[2].split()[1])
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            return


def own_connection() -> dict[str, t.Any] | None:
    found = connection(ancestors())
    return found and {"user": pwd.getpwuid(found.pop("uid")).pw_name, **found}


def can_sudo(module: AnsibleModule, account: Account) -> bool:
    """Whether a user is root, or sudo lets him do everything as root."""
    if account.uid == 0:
        return True
    sudo = module.get_bin_path("sudo")
    if sudo is None:
        return False
    _rc, out, _err = module.run_command([sudo, "-n", "-l", "-U", account.name], environ_update={"LC_ALL": "C"})
    return grants_root(out)


def banner(address: str, port: int) -> str:
    """The first line of an ssh server. One that was just reloaded gets some time to listen again."""
    end = time.monotonic() + BANNER_SECONDS
    while True:
        try:
            with socket.create_connection((address, port), timeout=BANNER_SECONDS) as peer:
                line = peer.makefile("rb").readline(256).decode("ascii", errors="replace").strip()
                return line if line.startswith("SSH-2.0-") else ""
        except OSError:
            if time.monotonic() > end:
                return ""
            time.sleep(0.2)


def gather(module: AnsibleModule) -> dict[str, t.Any]:
    plan = module.params["plan"]
    keys = {
        user: [line.strip() for key in found for line in key.splitlines() if line.strip()]
        for user, found in plan["keys"].items()
    }
    members = plan["members"]
    users = {*keys, *(user for found in members.values() for user in found)}
    installed = os.path.exists(SSHD)
    effective, config_error = effective_config(module) if installed else ("", "")
    config = parse_config(effective) if effective else dict(DEFAULTS)
    planned_config = overlay(config, plan["config"])
    service, listening = units(module)
    peer = own_connection()

    host = Host(os.stat, read, int(time.time()) // 86400)
    present = accounts({*users, *([peer["user"]] if peer else [])}, {})
    now = {account.name: access(account, config, host) for account in present} if installed else {}
    if "yes" not in (config["passwordauthentication"], config["kbdinteractiveauthentication"]):
        now = {name: ways._replace(password=False) for name, ways in now.items()}
    planned = {
        account.name: access(account, planned_config, host, keys.get(account.name))
        for account in accounts(users, members)
    }
    entering = {name for found in (now, planned) for name, ways in found.items() if ways.key or ways.password}
    su = any(account.uid == 0 and has_password(account) for account in present)
    return {
        "installed": installed,
        "version": version(module) if installed else "",
        "config": config,
        "effective": effective.splitlines(),
        "config_error": config_error,
        "main_config": main_config(),
        "service": service,
        "socket": listening,
        "connection": peer,
        "now": users_of(now),
        "planned": users_of(planned),
        "admins": sorted(
            account.name for account in present if account.name in entering and (su or can_sudo(module, account))
        ),
        "key_problems": key_problems(planned, keys),
        "invalid_keys": invalid_keys(keys, planned_config, host.today),
        "unknown_users": sorted(users - planned.keys()),
        "banners": {str(port): banner(module.params["probe_address"], port) for port in module.params["probe_ports"]},
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "plan": {
                "type": "dict",
                "default": {},
                "options": {
                    "config": {"type": "dict", "default": {}},
                    "members": {"type": "dict", "default": {}},
                    "keys": {"type": "dict", "default": {}, "no_log": False},
                },
                "apply_defaults": True,
            },
            "user": {"type": "str", "default": "root"},
            "client": {"type": "str", "default": "127.0.0.1"},
            "probe_address": {"type": "str", "default": "127.0.0.1"},
            "probe_ports": {"type": "list", "elements": "int", "default": []},
        },
        supports_check_mode=True,
    )
    if os.geteuid() != 0:
        module.fail_json(msg="sshd_info must run as root. Set `become: true`.")
    module.exit_json(changed=False, **gather(module))


if __name__ == "__main__":
    main()
