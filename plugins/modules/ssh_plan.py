#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_plan
short_description: Plan the configuration of an ssh server that locks nobody out
description:
  - Reads who can log in and who holds which port, tries the configuration that is asked for on a copy, and returns what makes the
    host so, for M(rigwright.workstation.require), M(rigwright.workstation.config_files) and M(rigwright.workstation.systemd_units).
    Changes nothing itself, but for C(/run/sshd), an empty directory that C(sshd -T) demands and the service makes whenever it starts.
  - sshd itself says what a configuration comes to, by C(sshd -T). Every setting must have the values that are asked for and no
    others, and that for a user of each kind that C(Match) blocks tell apart, and from everywhere that they speak of.
  - Keys are judged as sshd does. The file must pass C(StrictModes), and the type and length must be accepted.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
  - rigwright.workstation.fail2ban
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - Nothing is ever changed.
options:
  state:
    description: Whether sshd is to be as asked, or has its own configuration back.
    type: str
    choices: [present, absent]
    default: present
  proof:
    description:
      - What has been done so far and is to be proven. With V(none) the configuration is weighed as it would be.
      - V(open) is for after the wanted ports have been opened. They must answer within a few seconds, and others close only then.
      - V(all) is for afterwards. The configuration is the one in force, and no port may be open that is not wanted.
    type: str
    choices: [none, open, all]
    default: none
  ports:
    description: Ports on which sshd listens.
    type: list
    elements: int
    default: [22]
  listen_addresses:
    description: IP addresses of the host on which sshd listens. None means all.
    type: list
    elements: str
    default: []
  passwords:
    description:
      - Whether passwords are refused; V(auto) means as soon as a user who can become root has a key that sshd accepts, and from then on.
    type: str
    choices: [auto, allowed, refused]
    default: auto
  permit_root_login:
    description: C(PermitRootLogin).
    type: str
    choices: ["no", prohibit-password]
    default: "no"
  authorized_keys:
    description: Public keys by user, placed in files of root.
    type: list
    elements: dict
    default: []
    suboptions:
      user:
        description: User name.
        type: str
        required: true
      keys:
        description: The keys, each a line of an authorized_keys file.
        type: list
        elements: str
        required: true
  allow_groups:
    description: Groups whose members alone may log in. None means everybody.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Group name.
        type: str
        required: true
      members:
        description: Users that will be in the group, beside those who are.
        type: list
        elements: str
        default: []
  allow_tcp_forwarding:
    description: C(AllowTcpForwarding), where V(all) is sshd's C(yes).
    type: str
    choices: [local, remote, all, "no"]
    default: local
  allow_agent_forwarding:
    description: C(AllowAgentForwarding).
    type: bool
    default: false
  x11_forwarding:
    description: C(X11Forwarding).
    type: bool
    default: false
  max_auth_tries:
    description: C(MaxAuthTries).
    type: int
    default: 4
  client_alive_interval:
    description: C(ClientAliveInterval), in seconds.
    type: int
    default: 120
  client_alive_count_max:
    description: C(ClientAliveCountMax).
    type: int
    default: 3
  log_level:
    description: C(LogLevel).
    type: str
    default: VERBOSE
  extra_options:
    description: Further options of sshd_config(5) by name. A list repeats the option.
    type: dict
    default: {}
notes:
  - Run it as root. Keys and password hashes are read, but none is returned, except the keys of O(authorized_keys).
  - Not seen are keys from C(AuthorizedKeysCommand) and certificates. A user who has only those counts as one without a key.
seealso:
  - module: rigwright.workstation.config_files
  - module: rigwright.workstation.mirrors_plan
"""

EXAMPLES = r"""
- name: Plan a sshd on another port
  rigwright.workstation.ssh_plan:
    ports: [2222]
    passwords: refused
  register: plan

- name: Refuse to lock anybody out
  rigwright.workstation.require:
    that: "{{ plan.requirements }}"
"""

RETURN = r"""
installed:
  description: Whether sshd is installed. Where it is not, the plan can only be made for its defaults.
  returned: always
  type: bool
settings:
  description: The lines of the drop-in for sshd.
  returned: always
  type: list
  elements: str
  sample: [PermitRootLogin no, Port 2222]
files:
  description: The files beside it, as M(rigwright.workstation.config_files) takes them.
  returned: always
  type: list
  elements: dict
  sample: [{path: /etc/ssh/authorized_keys.d/alice, content: "ssh-ed25519 AAAA... alice@laptop\n"}]
directories:
  description: The directories that the files need.
  returned: always
  type: list
  elements: dict
  sample: [{path: /etc/ssh/authorized_keys.d}]
units:
  description: The units of sshd, as M(rigwright.workstation.systemd_units) takes them.
  returned: always
  type: list
  elements: dict
  sample: [{name: ssh.service, enabled: true, restart_on: [/etc/ssh/sshd_config, /etc/ssh/sshd_config.d]}]
socket_active:
  description: Whether systemd holds the ports and starts sshd on demand.
  returned: always
  type: bool
listen_streams:
  description: What C(ssh.socket) is to listen on, as C(ListenStream).
  returned: always
  type: list
  elements: str
  sample: ["2222"]
door:
  description: An address at which sshd answers on the host itself.
  returned: always
  type: str
  sample: 127.0.0.1
fail2ban_idle:
  description: Whether fail2ban neither runs nor starts at boot, as one that is not installed.
  returned: always
  type: bool
ports_open:
  description: The ports on which sshd listens once this is in place.
  returned: always
  type: list
  elements: int
  sample: [2222, 22]
ports_to_close:
  description: The ports on which sshd listens now and that are not wanted, but for the one by which Ansible came.
  returned: always
  type: list
  elements: int
  sample: [22]
passwords_refused:
  description: Whether passwords are refused.
  returned: always
  type: bool
requirements:
  description: What speaks against the request, as M(rigwright.workstation.require) takes it. Empty when nothing does.
  returned: always
  type: list
  elements: dict
  sample: [{ok: false, variable: ssh_ports, problem: "names a port on which another program listens: 2222 python3", remedy: "choose ..."}]
findings:
  description: What is left to do or was proven, as M(rigwright.workstation.finding) takes it.
  returned: always
  type: list
  elements: dict
  sample: [{id: ssh.ports, status: pass, evidence: sshd listens on 2222, remedy: ""}]
"""

import contextlib
import dataclasses
import fnmatch
import glob
import grp
import os
import pwd
import socket
import tempfile
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import read_file
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh import plan as ssh_plan
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.access import (
    Access,
    Account,
    Host,
    access,
    connection,
    grants_root,
    has_password,
    key_problem,
    listen_port,
    parse_shadow,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import (
    DEFAULTS,
    INCLUDE_NOTE,
    MAIN_CONFIG,
    Config,
    Connection,
    Line,
    Override,
    connections,
    door,
    ensure_include,
    overrides,
    parse_config,
    read_lines,
    reroot,
    specification,
    words,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.request import input_faults
from ansible_collections.rigwright.workstation.plugins.module_utils._system import fail2ban
from ansible_collections.rigwright.workstation.plugins.module_utils._system.listeners import read_listeners
from ansible_collections.rigwright.workstation.plugins.module_utils._system.systemd import parse_show

SSHD = "/usr/sbin/sshd"
RUN = "/run/sshd"
UNITS = ("ssh.service", "ssh.socket")
# How long a server that was just started may take to answer, and one that was stopped to be gone, in seconds.
PATIENCE = 5


class Refused(Exception):
    """sshd does not accept a configuration; the text is its complaint."""


def read_keys(path: str) -> str:
    """Read a file of keys, which a user may have replaced; sshd follows links there, too."""
    return read_file(os.path.realpath(path)).decode("utf-8", errors="replace")


def read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


# --- Who can log in ---


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


def group_members(gid: int) -> set[str]:
    """The users of a group, those whose own it is among them."""
    with contextlib.suppress(KeyError):
        return {*grp.getgrgid(gid).gr_mem, *(entry.pw_name for entry in pwd.getpwall() if entry.pw_gid == gid)}
    return set()


def key_problems(found: t.Mapping[str, Access], expected: t.Collection[str]) -> list[str]:
    """Why users cannot use the keys that they have, or, for the expected ones, cannot log in at all."""
    lines = []
    for name, ways in sorted(found.items()):
        problems = list(ways.problems) if not ways.key else []
        if ways.refusal and name in expected:
            problems.append(ways.refusal)
        lines += [f"{name}: {problem}" for problem in problems]
    return lines


def invalid_keys(keys: t.Mapping[str, t.Sequence[str]], config: Config, today: int) -> list[str]:
    judged = [
        (user, number, key_problem(key, config, today))
        for user, found in sorted(keys.items())
        for number, key in enumerate(found, 1)
    ]
    return [f"{user}, key {number}: {problem}" for user, number, problem in judged if problem]


def can_sudo(module: AnsibleModule, account: Account) -> bool:
    """Whether a user is root, or can do everything as root by sudo."""
    if account.uid == 0:
        return True
    sudo = module.get_bin_path("sudo")
    if sudo is None:
        return False
    _rc, out, _err = module.run_command([sudo, "-n", "-l", "-U", account.name], environ_update={"LC_ALL": "C"})
    return grants_root(out, password=has_password(account))


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


# --- Who holds which port ---


def read_service(module: AnsibleModule, listeners: t.Sequence[t.Mapping[str, t.Any]]) -> ssh_plan.Service:
    """Only the main process counts: the ports of a session's process are forwarded ones."""
    asked = ["systemctl", "show", "--property=Id,Names,ActiveState,MainPID,Accept,Listen", *UNITS]
    _rc, out, _err = module.run_command(asked, check_rc=True)
    service, listening = parse_show(out, UNITS).values()
    pid = int(service["MainPID"][0])
    active = listening["ActiveState"] == ["active"]
    return ssh_plan.Service(
        active=service["ActiveState"] == ["active"],
        pid=pid,
        ports=tuple(sorted({entry["port"] for entry in listeners if pid and entry["pid"] == pid})),
        socket_active=active,
        socket_accept=listening.get("Accept") == ["yes"],
        socket_ports=tuple(sorted({port for port in map(listen_port, listening.get("Listen", [])) if port and active})),
    )


def foreign_listeners(listeners: t.Sequence[t.Mapping[str, t.Any]], pid: int) -> list[t.Mapping[str, t.Any]]:
    """What a sshd beside the service listens on. A session of the service does not call itself a listener."""
    found = []
    for entry in listeners:
        if entry["process"] == "sshd" and entry["pid"] != pid:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += [entry] if "[listener]" in read(f"/proc/{entry['pid']}/cmdline") else []
    return found


def can_listen(address: str) -> bool:
    """Whether the host has an IP address. The kernel chooses the port, so that none is in the way."""
    try:
        found = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        for family, kind, _protocol, _name, endpoint in found:
            with socket.socket(family, kind) as trial:
                trial.bind(endpoint)
    except OSError:
        return False
    return True


def banner(address: str, port: int, patience: float) -> str:
    """The first line of an ssh server, empty where there is none."""
    end = time.monotonic() + patience
    while True:
        try:
            with socket.create_connection((address, port), timeout=PATIENCE) as peer:
                line = peer.makefile("rb").readline(256).decode("ascii", errors="replace").strip()
                return line if line.startswith("SSH-2.0-") else ""
        except OSError:
            if time.monotonic() > end:
                return ""
            time.sleep(0.2)


# --- What sshd makes of its files ---


def effective(module: AnsibleModule, main: str, asked: Connection = None) -> dict[str, t.Any]:
    """What sshd says that a configuration comes to.

    :raises Refused: sshd does not accept it.
    """
    # The service makes the directory when it starts; with socket activation it is missing until then, and sshd -T wants it.
    os.makedirs(RUN, mode=0o755, exist_ok=True)
    rc, out, err = module.run_command([SSHD, "-T", "-f", main, "-C", specification(asked)])
    if rc != 0:
        raise Refused("; ".join(err.split("\n")).strip("; \r"))
    return parse_config(out)


class Files:
    """The files of sshd, some of them as they would be."""

    def __init__(self, planned: t.Mapping[str, str]) -> None:
        self.planned = planned
        self.lines: list[Line] = list(read_lines(MAIN_CONFIG, self.read, self.expand))

    def read(self, path: str) -> str:
        return self.planned[path] if path in self.planned else read(path) if os.path.isfile(path) else ""

    def expand(self, pattern: str) -> set[str]:
        return {*glob.glob(pattern), *fnmatch.filter(self.planned, pattern)}


@contextlib.contextmanager
def laid_out(files: Files) -> t.Iterator[tuple[str, str]]:
    """Put files that are only planned below a root of their own for a trial; gives the root, empty for none, and the main file."""
    if not files.planned:
        yield "", MAIN_CONFIG
        return
    with tempfile.TemporaryDirectory(prefix="rigwright_ssh_") as root:
        for path in {MAIN_CONFIG, *files.planned, *(line.path for line in files.lines)}:
            os.makedirs(os.path.dirname(root + path), mode=0o700, exist_ok=True)
            with open(root + path, "w", encoding="utf-8") as file:
                file.write(reroot(files.read(path), root))
        yield root, root + MAIN_CONFIG


def key_files_of(lines: t.Iterable[Line]) -> list[str]:
    """What the host says of AuthorizedKeysFile beside the role: the first line counts."""
    return next(
        (
            words(line.value)
            for line in lines
            if line.keyword == "authorizedkeysfile" and line.path != ssh_plan.DROP_IN and line.match in ("", "all")
        ),
        [],
    )


# --- The plan ---


class Planner:
    """One request, weighed against what the host is."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params: dict[str, t.Any] = module.params
        self.keys = {
            entry["user"]: [line.strip() for key in entry["keys"] for line in key.splitlines() if line.strip()]
            for entry in self.params["authorized_keys"]
        }
        self.members = {group["name"]: group["members"] for group in self.params["allow_groups"]}
        self.installed = os.path.exists(SSHD)
        self.host = Host(os.stat, read_keys, int(time.time()) // 86400, group_members)

    def run(self) -> dict[str, t.Any]:
        config = self._config()
        seen = self._look(config)
        faults = list(input_faults(self.params))
        # Who gets in hangs on the configuration to come, and on who gets in whether that refuses passwords: nothing else of it.
        draft = ssh_plan.decide(self.params, seen)
        # What is wrong by itself is not tried: sshd would only say so again.
        drafted = self._files(seen, draft)
        tried, refused = ([], "") if faults else self._try(drafted, [None])
        planned = tried[0][1] if tried else ssh_plan.assumed(draft, config)
        able, seen = self._weigh(seen, config, planned)
        decision = ssh_plan.decide(self.params, seen)
        found, files = tried, self._files(seen, decision)
        if tried:
            everybody, *others = connections(files.lines, able)
            known = files.planned == drafted.planned
            more, refused = self._try(files, others if known else [everybody, *others])
            found = [*tried, *more] if known else more
        wrong = self._overrides(seen, decision, found, files)
        seen = dataclasses.replace(seen, overridden=ssh_plan.overridden(decision, files.lines, wrong))
        return {
            "installed": self.installed,
            "settings": list(decision.drop_in),
            "files": ssh_plan.files(self.params, seen),
            "directories": ssh_plan.directories(self.params, seen.service),
            "units": ssh_plan.units(self.params, seen.service),
            "socket_active": seen.service.socket_active,
            "listen_streams": ssh_plan.listen_streams(self.params, decision.ports),
            "door": door(config),
            "fail2ban_idle": fail2ban.is_idle(self.module.run_command),
            "ports_open": list(decision.ports.open),
            "ports_to_close": list(decision.ports.surplus),
            "passwords_refused": decision.passwords_refused,
            "requirements": [*faults, *ssh_plan.host_faults(self.params, seen, decision, wrong, refused)],
            "findings": ssh_plan.findings(self.params, seen, decision, wrong),
        }

    def _look(self, config: Config) -> ssh_plan.Seen:
        """What the host is. Who gets in is not known before the configuration to come."""
        peer = own_connection()
        service, listeners = self._settled(peer)
        main = read(MAIN_CONFIG) if os.path.exists(MAIN_CONFIG) else ""
        included = ensure_include(main) if main else ""
        return ssh_plan.Seen(
            service=service,
            listeners=listeners,
            connection=peer,
            passwords_asked="yes" in (config["passwordauthentication"], config["kbdinteractiveauthentication"]),
            main_config=included,
            main_config_added=included != main or INCLUDE_NOTE in main,
            key_files=key_files_of(Files({}).lines),
            banners=self._banners(service, peer, door(config)),
            foreign=foreign_listeners(listeners, service.pid),
            missing_addresses=[one for one in self.params["listen_addresses"] if not can_listen(one)],
        )

    def _weigh(
        self, seen: ssh_plan.Seen, config: Config, planned: Config
    ) -> tuple[dict[str, t.Collection[str]], ssh_plan.Seen]:
        """The users whom sshd will not turn away with the groups that they are in now, and who gets in now and then."""
        users = {*self.keys, *(user for found in self.members.values() for user in found)}
        named = {*users, *([seen.peer] if seen.peer else [])}
        present, joined = accounts(named, {}), accounts(named, self.members)
        clients = {seen.connection["user"]: seen.connection["client"]} if seen.connection else {}
        now = {
            one.name: access(one, config, self.host, client=clients.get(one.name))
            for one in (present if self.installed else ())
        }
        beside = ssh_plan.without_own_keys(planned)
        then = {
            one.name: access(one, beside, self.host, self.keys.get(one.name, ()), clients.get(one.name))
            for one in joined
        }
        entering = {name for found in (now, then) for name, ways in found.items() if ways.key or ways.password}
        su = any(one.uid == 0 and has_password(one) for one in present)
        return {one.name: one.groups for one in present if then[one.name].refusal is None}, dataclasses.replace(
            seen,
            now=[name for name, ways in now.items() if ways.key or (ways.password and seen.passwords_asked)],
            key_users=[name for name, ways in then.items() if ways.key],
            password_users=[name for name, ways in then.items() if ways.password],
            admins=[one.name for one in present if one.name in entering and (su or can_sudo(self.module, one))],
            key_problems=key_problems(then, self.keys),
            invalid_keys=invalid_keys(self.keys, planned, self.host.today),
            unknown_users=sorted(users - then.keys()),
        )

    def _config(self) -> dict[str, t.Any]:
        """What sshd goes by now; its defaults where it is not installed, or broken."""
        if self.installed:
            with contextlib.suppress(Refused):
                return effective(self.module, MAIN_CONFIG)
        return dict(DEFAULTS)

    def _settled(self, peer: t.Mapping[str, t.Any] | None) -> tuple[ssh_plan.Service, list[dict[str, t.Any]]]:
        """The listeners; where all is to be proven, ports that are not wanted get some time to close."""
        end = time.monotonic() + (PATIENCE if self.params["proof"] == "all" else 0)
        while True:
            listeners = read_listeners()
            service = read_service(self.module, listeners)
            if not ssh_plan.surplus_ports(self.params, service, peer) or time.monotonic() >= end:
                return service, listeners
            time.sleep(0.2)

    def _banners(self, service: ssh_plan.Service, peer: t.Mapping[str, t.Any] | None, address: str) -> dict[int, str]:
        """What answers on the wanted ports. It is asked only where something hangs on it: sshd counts strangers who say nothing."""
        if self.params["proof"] == "none" and not ssh_plan.surplus_ports(self.params, service, peer):
            return {}
        patience = 0 if self.params["proof"] == "none" else PATIENCE
        # Ports out of range are refused, not asked.
        ports = [port for port in self.params["ports"] if 1 <= port <= 65535]
        return {port: banner(address, port, patience) for port in ports}

    def _files(self, seen: ssh_plan.Seen, decision: ssh_plan.Decision) -> Files:
        """The files as they would be; those in force where these are to be proven."""
        drop_in = "".join(f"{line}\n" for line in decision.drop_in)
        return Files(
            {} if self.params["proof"] == "all" else {MAIN_CONFIG: seen.main_config, ssh_plan.DROP_IN: drop_in}
        )

    def _try(self, files: Files, asked: t.Sequence[Connection]) -> tuple[list[tuple[Connection, Config]], str]:
        """What sshd makes of the files for each connection, or why it refuses them."""
        if not asked or not self.installed or self.params["state"] == "absent":
            return [], ""
        with laid_out(files) as (root, main):
            try:
                return [(one, effective(self.module, main, one)) for one in asked], ""
            except Refused as error:
                return [], str(error).replace(root, "") if root else str(error)

    def _overrides(
        self,
        seen: ssh_plan.Seen,
        decision: ssh_plan.Decision,
        found: t.Sequence[tuple[Connection, Config]],
        files: Files,
    ) -> list[Override]:
        """Where sshd would do something else than asked."""
        if not found:
            return []
        wanted = ssh_plan.wanted_values(decision, seen.service, found[0][1])
        return overrides(wanted, found, [line for line in files.lines if line.path != ssh_plan.DROP_IN])


def main() -> None:
    switch = {"type": "bool", "default": False}
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "proof": {"type": "str", "choices": ["none", "open", "all"], "default": "none"},
            "ports": {"type": "list", "elements": "int", "default": [22]},
            "listen_addresses": {"type": "list", "elements": "str", "default": []},
            "passwords": {"type": "str", "choices": ["auto", "allowed", "refused"], "default": "auto"},
            "permit_root_login": {"type": "str", "choices": ["no", "prohibit-password"], "default": "no"},
            "authorized_keys": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "no_log": False,
                "options": {
                    "user": {"type": "str", "required": True},
                    "keys": {"type": "list", "elements": "str", "required": True, "no_log": False},
                },
            },
            "allow_groups": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "members": {"type": "list", "elements": "str", "default": []},
                },
            },
            "allow_tcp_forwarding": {"type": "str", "choices": ["local", "remote", "all", "no"], "default": "local"},
            "allow_agent_forwarding": switch,
            "x11_forwarding": switch,
            "max_auth_tries": {"type": "int", "default": 4},
            "client_alive_interval": {"type": "int", "default": 120},
            "client_alive_count_max": {"type": "int", "default": 3},
            "log_level": {"type": "str", "default": "VERBOSE"},
            "extra_options": {"type": "dict", "default": {}},
            **fail2ban.OPTIONS,
        },
        supports_check_mode=True,
    )
    if os.geteuid() != 0:
        module.fail_json(msg="ssh_plan must run as root. Set `become: true`.")
    module.exit_json(changed=False, **Planner(module).run())


if __name__ == "__main__":
    main()
