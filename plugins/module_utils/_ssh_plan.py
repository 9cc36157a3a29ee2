# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""What sshd is to be told on a host, which ports open and close, and what speaks against it.

Pure: the module ssh_plan reads the host and hands in what it saw.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._sshd_config import (
    MAIN_CONFIG,
    Config,
    Override,
    endpoints,
    expected,
    parse_config,
)

DROP_IN = "/etc/ssh/sshd_config.d/00-rigwright.conf"
KEYS_FILE = ".ssh/authorized_keys"
KEYS_DIRECTORY = "/etc/ssh/authorized_keys.d"
UNIT_FILES = "/etc/systemd/system"

# What sshd calls all addresses, by its AddressFamily.
EVERYWHERE = {"any": ("0.0.0.0", "::"), "inet": ("0.0.0.0",), "inet6": ("::",)}  # noqa: S104 - to recognise, not to bind

# The role's variable behind each setting; those without one are what every other setting rests on.
VARIABLES = {
    "allowagentforwarding": "ssh_allow_agent_forwarding",
    "allowgroups": "ssh_allow_groups",
    "allowtcpforwarding": "ssh_allow_tcp_forwarding",
    "authorizedkeysfile": "ssh_authorized_keys",
    "clientalivecountmax": "ssh_client_alive_count_max",
    "clientaliveinterval": "ssh_client_alive_interval",
    "kbdinteractiveauthentication": "ssh_passwords",
    # sshd tells both in one.
    "listenaddress": "ssh_ports or ssh_listen_addresses",
    "loglevel": "ssh_log_level",
    "maxauthtries": "ssh_max_auth_tries",
    "passwordauthentication": "ssh_passwords",
    "permitrootlogin": "ssh_permit_root_login",
    "port": "ssh_ports",
    "x11forwarding": "ssh_x11_forwarding",
}
# Not for `ssh_extra_options`: the role writes them itself, or they would begin another file or block within its own.
OWN = frozenset(VARIABLES) | {"pubkeyauthentication", "permitemptypasswords", "include", "match"}

# jail.conf(5), "TIME ABBREVIATION FORMAT", without the long names of the units.
FAIL2BAN_TIME = re.compile(r"-1|[0-9]+([smhdwy]|mo)?( [0-9]+([smhdwy]|mo))*")
USER_NAME = re.compile(r"[a-z_][a-z0-9_.-]*")

Params = t.Mapping[str, t.Any]
Fault = dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Service:
    """Who holds the ports of sshd: ``ssh.service``, or ``ssh.socket``, with which systemd starts sshd on demand."""

    active: bool = False
    pid: int = 0
    ports: tuple[int, ...] = ()
    socket_active: bool = False
    socket_accept: bool = False
    socket_ports: tuple[int, ...] = ()

    @property
    def ports_in_use(self) -> tuple[int, ...]:
        return tuple(sorted({*self.ports, *self.socket_ports}))


@dataclasses.dataclass(frozen=True)
class Seen:
    """What was read on the host, and, once the configuration to come is known, who gets in with it.

    ``connection`` is the ssh connection by which Ansible came, None when it came otherwise. ``banners`` has the answer of each
    wanted port that was asked, empty for none. ``foreign`` are listeners of any sshd, but for those of the units. ``key_files``
    is what the host's own files say of AuthorizedKeysFile; on ``missing_addresses`` nothing can listen, though it is asked for.
    """

    service: Service
    listeners: t.Sequence[t.Mapping[str, t.Any]]
    connection: t.Mapping[str, t.Any] | None
    passwords_asked: bool
    main_config: str
    main_config_added: bool
    key_files: t.Sequence[str] = ()
    now: t.Collection[str] = ()
    key_users: t.Collection[str] = ()
    password_users: t.Collection[str] = ()
    admins: t.Collection[str] = ()
    key_problems: t.Sequence[str] = ()
    invalid_keys: t.Sequence[str] = ()
    unknown_users: t.Sequence[str] = ()
    missing_addresses: t.Sequence[str] = ()
    banners: t.Mapping[int, str] = dataclasses.field(default_factory=dict)
    foreign: t.Sequence[t.Mapping[str, t.Any]] = ()

    @property
    def peer(self) -> str:
        """The user as whom Ansible came by ssh, empty when it came otherwise."""
        return t.cast(str, self.connection["user"]) if self.connection else ""


@dataclasses.dataclass(frozen=True)
class Ports:
    """Ports by what becomes of them: ``own`` is the one by which Ansible came and which is not wanted."""

    wanted: tuple[int, ...]
    own: tuple[int, ...]
    surplus: tuple[int, ...]
    proven: bool

    @property
    def open(self) -> tuple[int, ...]:
        """A port that is not wanted stays open until every wanted one has answered."""
        return (*self.wanted, *self.own, *(() if self.proven else self.surplus))


@dataclasses.dataclass(frozen=True)
class Decision:
    """What the role writes. ``settings`` are the lines that sshd must have exactly so; ``extra`` are the user's own."""

    ports: Ports
    passwords_refused: bool
    settings: tuple[str, ...]
    extra: tuple[str, ...]

    @property
    def drop_in(self) -> tuple[str, ...]:
        return (*self.settings, *self.extra)


def surplus_ports(params: Params, service: Service, connection: t.Mapping[str, t.Any] | None) -> tuple[int, ...]:
    """The ports of sshd that are not wanted, without the one by which Ansible came."""
    own = connection["port"] if connection else None
    return tuple(port for port in service.ports_in_use if port not in params["ports"] and port != own)


def decide(params: Params, seen: Seen) -> Decision:
    wanted = tuple(dict.fromkeys(params["ports"]))
    own = tuple(
        port
        for port in seen.service.ports_in_use
        if seen.connection and port == seen.connection["port"] and port not in wanted
    )
    ports = Ports(
        wanted,
        own,
        surplus_ports(params, seen.service, seen.connection),
        proven=all(seen.banners.get(port) for port in wanted),
    )
    # Once refused they stay so: a key that cannot be read today (a home that is not mounted) opens no second door.
    refused = params["passwords"] == "refused" or (
        params["passwords"] == "auto" and (_keys_suffice(seen) or not seen.passwords_asked)
    )
    settings = (
        *(f"{name} {value}" for name, value in single_settings(params, seen.key_files).items()),
        *(f"Port {port}" for port in ports.open),
        *(f"ListenAddress {address}" for address in params["listen_addresses"]),
        *_password_settings(params, refused),
        *(f"AllowGroups {group['name']}" for group in params["allow_groups"]),
    )
    return Decision(ports, refused, settings, tuple(_extra_lines(params["extra_options"])))


def single_settings(params: Params, key_files: t.Sequence[str]) -> dict[str, str]:
    """The settings with one value, whoever can log in. Where the host has keys elsewhere, they stay keys."""
    own = (KEYS_FILE, f"{KEYS_DIRECTORY}/%u")
    return {
        "PermitRootLogin": params["permit_root_login"],
        "PubkeyAuthentication": "yes",
        "AuthorizedKeysFile": " ".join(dict.fromkeys((*own, *(path for path in key_files if path != "none")))),
        "PermitEmptyPasswords": "no",
        # sshd_config(5) has two words for it, and `sshd -T` says this one.
        "AllowTcpForwarding": "yes" if params["allow_tcp_forwarding"] == "all" else params["allow_tcp_forwarding"],
        "AllowAgentForwarding": _yes_no(params["allow_agent_forwarding"]),
        "X11Forwarding": _yes_no(params["x11_forwarding"]),
        "MaxAuthTries": str(params["max_auth_tries"]),
        "ClientAliveInterval": str(params["client_alive_interval"]),
        "ClientAliveCountMax": str(params["client_alive_count_max"]),
        "LogLevel": params["log_level"],
    }


def _password_settings(params: Params, refused: bool) -> tuple[str, ...]:
    """With `auto` and nobody who has a key, passwords stay as the host has them."""
    if refused:
        return "PasswordAuthentication no", "KbdInteractiveAuthentication no"
    if params["passwords"] == "allowed":
        return "PasswordAuthentication yes", "KbdInteractiveAuthentication no"
    return ()


def _extra_lines(options: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    for name, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            yield f"{name} {_yes_no(one) if isinstance(one, bool) else one}"


def _yes_no(value: bool) -> str:
    return "yes" if value else "no"


def assumed(decision: Decision, config: Config) -> dict[str, t.Any]:
    """The configuration to come where sshd cannot be asked for it."""
    return {
        **config,
        **{keyword: value for keyword, value in parse_config("\n".join(decision.settings)).items() if value},
    }


def without_own_keys(config: Config) -> dict[str, t.Any]:
    """A configuration without the directory of the role's keys: what it will hold is known, not what it holds."""
    files = [word for word in config["authorizedkeysfile"].split() if not word.startswith(f"{KEYS_DIRECTORY}/")]
    return {**config, "authorizedkeysfile": " ".join(files)}


def wanted_values(decision: Decision, service: Service, config: Config) -> dict[str, frozenset[str]]:
    """What ``sshd -T`` has to say, keyword by keyword. With ssh.socket, what it says of ports means nothing."""
    wanted = expected(decision.settings)
    # Of ports sshd says the same in its endpoints.
    ports = {int(port) for port in wanted.pop("port")}
    addresses = wanted.pop("listenaddress", None) or EVERYWHERE[config.get("addressfamily", "any")]
    return wanted if service.socket_active else {**wanted, "listenaddress": endpoints(addresses, ports)}


def listen_streams(params: Params, ports: Ports) -> list[str]:
    """ListenStream of systemd.socket(5): a port alone, or addresses with each of the ports."""
    addresses = [address for address in params["listen_addresses"] if _address(address)]
    return sorted(endpoints(addresses, ports.open)) or [str(port) for port in ports.open]


def files(params: Params, seen: Seen) -> list[dict[str, str]]:
    """The files that are no templates: the keys, and the main file where it has to name the drop-ins before all else."""
    keys = [
        {"path": f"{KEYS_DIRECTORY}/{entry['user']}", "content": "".join(f"{key}\n" for key in entry["keys"])}
        for entry in params["authorized_keys"]
    ]
    return [*keys, *([{"path": MAIN_CONFIG, "content": seen.main_config}] if seen.main_config_added else [])]


def directories(params: Params, service: Service) -> list[dict[str, str]]:
    needed = {"ssh.socket": service.socket_active, "ssh.service": service.socket_active or params["listen_addresses"]}
    return [{"path": KEYS_DIRECTORY}, *({"path": f"{UNIT_FILES}/{unit}.d"} for unit in needed if needed[unit])]


# A restart, not a reload: a sshd that got its ports from ssh.socket does not find them again on SIGHUP. Sessions outlive both.
SERVICE = {"name": "ssh.service", "restart_on": [MAIN_CONFIG, f"{MAIN_CONFIG}.d"], "validate": "/usr/sbin/sshd -t"}
SOCKET = {"name": "ssh.socket", "restart_on": [f"{UNIT_FILES}/ssh.socket.d"]}


def units(params: Params, service: Service) -> list[dict[str, t.Any]]:
    """The units of sshd as systemd_units takes them.

    With ssh.socket, systemd holds the ports; sshd then runs from the first connection on, or once for each (Accept=yes).
    """
    if params["state"] == "absent":
        # Whether they start at boot is the host's own affair.
        if service.socket_active:
            # A running service keeps its socket from starting again.
            return [{"name": "ssh.service", "state": "stopped"}, SOCKET]
        return [SERVICE] if service.active else []
    if not service.socket_active:
        return [{**SERVICE, "enabled": True}]
    listening = {**SOCKET, "enabled": True}
    return [listening] if service.socket_accept else [listening, SERVICE]


def _key_admins(seen: Seen) -> list[str]:
    return sorted({*seen.key_users} & {*seen.admins})


def _keys_suffice(seen: Seen) -> bool:
    """Whether somebody who can become root has a key, and whoever is connected too."""
    return bool(_key_admins(seen)) and seen.peer in ("", *seen.key_users)


def _fault(variable: str, problem: str, remedy: str) -> Fault:
    return {"ok": False, "variable": variable, "problem": problem, "remedy": remedy}


def input_faults(params: Params) -> t.Iterator[Fault]:
    """What is wrong with the request by itself, as the action ``require`` takes it."""
    users = [entry["user"] for entry in params["authorized_keys"]]
    extra = {name.lower() for name in params["extra_options"]}
    lines = list(_extra_lines(params["extra_options"]))
    if not params["ports"] or not all(1 <= port <= 65535 for port in params["ports"]):
        yield _fault(
            "ssh_ports",
            f"must hold ports from 1 to 65535, and is {params['ports']}",
            "list at least one port, for example [22]",
        )
    if not all(_address(address) for address in params["listen_addresses"]):
        yield _fault(
            "ssh_listen_addresses", "must hold IP addresses", "write an address such as 192.0.2.10 or 2001:db8::10"
        )
    for name in ("bantime", "findtime"):
        if not FAIL2BAN_TIME.fullmatch(params[f"fail2ban_{name}"]):
            yield _fault(
                f"ssh_fail2ban_{name}",
                "is not a time that fail2ban reads",
                "write it as 600, 10m, 1h or 1d 12h; -1 is for good",
            )
    if len(set(users)) < len(users):
        yield _fault("ssh_authorized_keys", "names a user twice", "put all keys of a user into one entry")
    if not all(USER_NAME.fullmatch(user) for user in users):
        yield _fault(
            "ssh_authorized_keys",
            "holds something that is no user name",
            "use lower-case letters, digits, dots, dashes and underscores",
        )
    if extra & OWN:
        yield _fault(
            "ssh_extra_options",
            f"sets {', '.join(sorted(extra & OWN))}, which the role sets itself or which ends its file",
            "use the role's own variable, or a later file in /etc/ssh/sshd_config.d for Match blocks",
        )
    if not all(re.fullmatch("[a-z0-9]+", name) for name in extra) or any("\n" in line for line in lines):
        yield _fault(
            "ssh_extra_options",
            "holds a name that is no word, or a value of several lines",
            "give one option of sshd_config(5) an entry",
        )


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An IP address without its scope, None for anything else."""
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _listens_on(addresses: t.Sequence[str], address: str) -> bool:
    """Whether a sshd that listens on some addresses is reached by another; ``::`` is all of IPv6 and nothing of IPv4."""
    one = _address(address)
    found = [other for other in map(_address, addresses) if other]
    return any(other == one or (one and other.is_unspecified and other.version == one.version) for other in found)


def host_faults(
    params: Params, seen: Seen, decision: Decision, overrides: t.Sequence[Override], refusal: str
) -> list[Fault]:
    """What speaks against the request on this host, as the action ``require`` takes it.

    :param refusal: why sshd refuses the configuration as it would be, empty when it does not.
    """
    return [
        *_port_faults(params, seen, decision.ports),
        *_lockout_faults(params, seen, decision),
        *_config_faults(overrides, refusal),
    ]


def _port_faults(params: Params, seen: Seen, ports: Ports) -> t.Iterator[Fault]:
    taken = {
        f"{entry['port']} {entry['process'] or 'of a process that cannot be seen'}"
        for entry in seen.listeners
        if entry["protocol"] == "tcp"
        and entry["port"] in ports.wanted
        and entry["port"] not in seen.service.ports_in_use
    }
    if taken:
        yield _fault(
            "ssh_ports",
            f"names a port on which another program listens: {', '.join(sorted(taken))}",
            "choose a free port, or stop that program",
        )
    silent = [str(port) for port in ports.wanted if not seen.banners.get(port)]
    if params["proof"] != "none" and silent:
        yield _fault(
            "ssh_ports",
            f"names a port on which no ssh server answers ({', '.join(silent)})",
            "look at `journalctl -u ssh`"
            + (f"; {', '.join(map(str, ports.surplus))} stays open until then" if ports.surplus else ""),
        )
    elif params["proof"] == "all" and ports.surplus:
        yield _fault(
            "ssh_ports",
            f"leaves out {', '.join(map(str, ports.surplus))}, where sshd listens all the same",
            "see who makes it do so: `systemctl cat ssh.socket ssh.service`, `ss -Hltnp`",
        )
    missing = [address for address in seen.missing_addresses if _address(address)]
    if missing:
        yield _fault(
            "ssh_listen_addresses",
            f"names what is no address of this host: {', '.join(missing)}",
            "see `ip address`",
        )
    if seen.connection and params["listen_addresses"]:
        address = seen.connection["address"]
        if not _listens_on(params["listen_addresses"], address):
            yield _fault(
                "ssh_listen_addresses",
                f"leaves out {address}, by which Ansible is connected",
                "add it, or connect by another address; 0.0.0.0 is all of IPv4, and :: all of IPv6",
            )


def _lockout_faults(params: Params, seen: Seen, decision: Decision) -> t.Iterator[Fault]:
    if seen.invalid_keys:
        yield _fault(
            "ssh_authorized_keys",
            f"holds what sshd would not accept ({'; '.join(seen.invalid_keys)})",
            "paste the whole line of the .pub file, `ssh-keygen -t ed25519` makes one",
        )
    admins = {*seen.admins}
    then = _entering(params, seen, decision)
    if params["passwords"] == "refused" and not _key_admins(seen):
        yield _fault(
            "ssh_passwords",
            f"is refused, but nobody who can become root would have a key that sshd accepts{_because(seen.key_problems)}",
            "add a key to ssh_authorized_keys, or leave ssh_passwords at auto",
        )
    restriction = "ssh_allow_groups" if params["allow_groups"] else ""
    if seen.peer and seen.peer not in then:
        problems = [problem for problem in seen.key_problems if problem.startswith(f"{seen.peer}: ")]
        yield _fault(
            "ssh_permit_root_login" if seen.peer == "root" else restriction or "ssh_passwords",
            f"would lock out {seen.peer}, as whom Ansible is connected{_because(problems)}",
            f"connect as one of those who keep their access ({', '.join(sorted(then)) or 'nobody'}),"
            f" or give {seen.peer} a key and the right to log in",
        )
    if {*seen.now} & admins and not then & admins:
        yield _fault(
            restriction or "ssh_permit_root_login",
            f"would leave nobody who can log in and become root; now {', '.join(sorted({*seen.now} & admins))} can",
            "add a key of somebody who may use sudo to ssh_authorized_keys, or set ssh_permit_root_login: prohibit-password",
        )


def _because(problems: t.Sequence[str]) -> str:
    return f" ({'; '.join(problems)})" if problems else ""


def _entering(params: Params, seen: Seen, decision: Decision) -> set[str]:
    """Who can log in after the change."""
    by_password = not decision.passwords_refused and (params["passwords"] == "allowed" or seen.passwords_asked)
    return {*seen.key_users, *(seen.password_users if by_password else ())}


def _config_faults(overrides: t.Sequence[Override], refusal: str) -> t.Iterator[Fault]:
    if refusal:
        ours = DROP_IN in refusal
        yield _fault(
            "ssh_extra_options" if ours else MAIN_CONFIG,
            f"would be refused by sshd: {refusal}",
            "see sshd_config(5)" if ours else "mend it until `sshd -t` is silent",
        )
    for override in overrides:
        yield _fault(
            VARIABLES.get(override.keyword, MAIN_CONFIG),
            f"would not be in force: {override}",
            "take that out of the file" + (" or Match block" if override.connections else "") + ", or ask for it here",
        )


def findings(params: Params, seen: Seen, decision: Decision, overrides: t.Sequence[Override]) -> list[dict[str, str]]:
    """What is left to do, and with ``proof: all`` also what was proven, as the action ``finding`` takes it."""
    found = [
        _password_finding(params, seen, decision),
        _port_finding(params, seen, decision.ports),
        _key_finding(seen),
        _access_finding(params, seen, decision),
    ]
    if params["proof"] != "all":
        return found
    silent = not all(seen.banners.values())
    return [
        *found,
        {
            "id": "ssh.configuration",
            "status": "fail" if overrides else "pass",
            "evidence": "; ".join(map(str, overrides))
            or "sshd -T says what is asked, to every user and from everywhere",
            "remedy": "take that out of the file or Match block, or ask for it by the variables of the role",
        },
        {
            "id": "ssh.banner",
            "status": "fail" if silent else "pass",
            "evidence": ", ".join(f"{port}: {text or 'no answer'}" for port, text in seen.banners.items()),
            "remedy": "look at `journalctl -u ssh`",
        },
        {
            "id": "ssh.login",
            "status": "pass" if seen.connection else "skip",
            "evidence": f"this run came by ssh as {seen.peer}, port {seen.connection['port']}"
            if seen.connection
            else "Ansible did not come by ssh",
            "remedy": "",
        },
    ]


def _password_finding(params: Params, seen: Seen, decision: Decision) -> dict[str, str]:
    proven = decision.passwords_refused and _keys_suffice(seen)
    if proven:
        evidence = f"passwords are refused, {', '.join(_key_admins(seen))} can log in with a key and become root"
    elif params["passwords"] == "allowed":
        evidence = "passwords stay allowed as ssh_passwords asks"
    else:
        peer = f", or {seen.peer} has none" if seen.peer else ""
        stay = "refused" if decision.passwords_refused else "as they were"
        evidence = f"passwords stay {stay}: nobody who can become root has a key that sshd accepts{peer}"
    return {
        "id": "ssh.passwords",
        "status": "pass" if proven else "warn",
        "evidence": evidence,
        "remedy": "add a key to ssh_authorized_keys and run again",
    }


def _port_finding(params: Params, seen: Seen, ports: Ports) -> dict[str, str]:
    wanted = ", ".join(map(str, ports.wanted))
    foreign = [
        f"{entry['port']} (process {entry['pid']}, {entry['unit'] or 'no unit'})"
        for entry in seen.foreign
        if entry["port"] not in ports.open
    ]
    if foreign:
        return {
            "id": "ssh.ports",
            "status": "warn",
            "evidence": f"a sshd that is not the host's service listens on {', '.join(foreign)}",
            "remedy": "stop it, unless you know it: none of these settings holds for it",
        }
    if params["proof"] == "all" and ports.surplus:
        return {
            "id": "ssh.ports",
            "status": "fail",
            "evidence": f"sshd also listens on {', '.join(map(str, ports.surplus))}",
            "remedy": "run the role, and look who makes it do so: `systemctl cat ssh.socket ssh.service`, `ss -Hltnp`",
        }
    if ports.own:
        return {
            "id": "ssh.ports",
            "status": "warn",
            "evidence": f"port {ports.own[0]} stays open beside {wanted}: Ansible is connected by it",
            "remedy": f"set ansible_port to {ports.wanted[0]} and run again, with no connection that ssh kept (ControlPersist)",
        }
    return {"id": "ssh.ports", "status": "pass", "evidence": f"sshd listens on {wanted}", "remedy": ""}


def _key_finding(seen: Seen) -> dict[str, str]:
    problems = [*(f"{user} does not exist yet" for user in seen.unknown_users), *seen.key_problems]
    return {
        "id": "ssh.authorized_keys",
        "status": "warn" if problems else "pass",
        "evidence": "; ".join(problems) or "every user with keys can use them",
        "remedy": "make the user, or set owner and mode right: chmod go-w on the home, .ssh and authorized_keys",
    }


def _access_finding(params: Params, seen: Seen, decision: Decision) -> dict[str, str]:
    lost = sorted({*seen.now} - _entering(params, seen, decision))
    return {
        "id": "ssh.access",
        "status": "warn" if lost else "pass",
        "evidence": f"could log in until now, and cannot any more: {', '.join(lost)}"
        if lost
        else "whoever could log in still can",
        "remedy": "if they should, give them keys by ssh_authorized_keys, or put them in a group of ssh_allow_groups",
    }
