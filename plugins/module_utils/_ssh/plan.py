# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""What sshd is to be told on a host, which ports open and close, and what speaks against it.

Pure: the module ssh_plan reads the host and hands in what it saw.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import (
    MAIN_CONFIG,
    REPEATED,
    Config,
    Line,
    Override,
    endpoints,
    expected,
    parse_config,
    says,
    words,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.request import (
    VARIABLES,
    Fault,
    Params,
    extra_lines,
    fault,
    parse_address,
    yes_no,
)

DROP_IN = "/etc/ssh/sshd_config.d/00-rigwright.conf"
KEYS_FILE = ".ssh/authorized_keys"
KEYS_DIRECTORY = "/etc/ssh/authorized_keys.d"
UNIT_FILES = "/etc/systemd/system"

# What sshd calls all addresses, by its AddressFamily.
EVERYWHERE = {"any": ("0.0.0.0", "::"), "inet": ("0.0.0.0",), "inet6": ("::",)}  # noqa: S104 - to recognise, not to bind


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
    ``overridden`` are the lines of other drop-ins that are not in force because of the role's own.
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
    overridden: t.Sequence[Line] = ()

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
    return Decision(ports, refused, settings, tuple(extra_lines(params["extra_options"])))


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
        "AllowAgentForwarding": yes_no(params["allow_agent_forwarding"]),
        "X11Forwarding": yes_no(params["x11_forwarding"]),
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


def overridden(decision: Decision, lines: t.Iterable[Line], overrides: t.Iterable[Override]) -> list[Line]:
    """The lines of other drop-ins that the role's own file keeps from being in force.

    Of a setting with one value, only the first line counted before. The distribution's main file is not named.
    """
    ours = {keyword: values for keyword, values in expected(decision.drop_in).items() if keyword not in REPEATED}
    stronger = {override.keyword for override in overrides}
    found: dict[str, Line] = {}
    for line in lines:
        if line.path != DROP_IN and line.match in ("", "all"):
            found.setdefault(line.keyword, line)
    return [
        line
        for keyword, line in found.items()
        if line.path != MAIN_CONFIG
        and keyword in ours
        and keyword not in stronger
        and not says(line.value, ours[keyword])
        # The words of AuthorizedKeysFile are kept beside those of the role.
        and not {*words(line.value.lower())} <= {*words(" ".join(ours[keyword]))}
    ]


def listen_streams(params: Params, ports: Ports) -> list[str]:
    """ListenStream of systemd.socket(5): a port alone, or addresses with each of the ports."""
    addresses = [address for address in params["listen_addresses"] if parse_address(address)]
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


def _listens_on(addresses: t.Sequence[str], address: str) -> bool:
    """Whether a sshd that listens on some addresses is reached by another; ``::`` is all of IPv6 and nothing of IPv4."""
    one = parse_address(address)
    found = [other for other in map(parse_address, addresses) if other]
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
        yield fault(
            "ssh_ports",
            f"names a port on which another program listens: {', '.join(sorted(taken))}",
            "choose a free port, or stop that program",
        )
    silent = [str(port) for port in ports.wanted if not seen.banners.get(port)]
    if params["proof"] != "none" and silent:
        yield fault(
            "ssh_ports",
            f"names a port on which no ssh server answers ({', '.join(silent)})",
            "look at `journalctl -u ssh`"
            + (f"; {', '.join(map(str, ports.surplus))} stays open until then" if ports.surplus else ""),
        )
    elif params["proof"] == "all" and ports.surplus:
        yield fault(
            "ssh_ports",
            f"leaves out {', '.join(map(str, ports.surplus))}, where sshd listens all the same",
            "see who makes it do so: `systemctl cat ssh.socket ssh.service`, `ss -Hltnp`",
        )
    missing = [address for address in seen.missing_addresses if parse_address(address)]
    if missing:
        yield fault(
            "ssh_listen_addresses",
            f"names what is no address of this host: {', '.join(missing)}",
            "see `ip address`",
        )
    if seen.connection and params["listen_addresses"]:
        address = seen.connection["address"]
        if not _listens_on(params["listen_addresses"], address):
            yield fault(
                "ssh_listen_addresses",
                f"leaves out {address}, by which Ansible is connected",
                "add it, or connect by another address; 0.0.0.0 is all of IPv4, and :: all of IPv6",
            )


def _lockout_faults(params: Params, seen: Seen, decision: Decision) -> t.Iterator[Fault]:
    if seen.invalid_keys:
        yield fault(
            "ssh_authorized_keys",
            f"holds what sshd would not accept ({'; '.join(seen.invalid_keys)})",
            "paste the whole line of the .pub file, `ssh-keygen -t ed25519` makes one",
        )
    admins = {*seen.admins}
    then = _entering(params, seen, decision)
    if params["passwords"] == "refused" and not _key_admins(seen):
        yield fault(
            "ssh_passwords",
            f"is refused, but nobody who can become root would have a key that sshd accepts{_because(seen.key_problems)}",
            "add a key to ssh_authorized_keys, or leave ssh_passwords at auto; sudo needs a password of the user, or NOPASSWD",
        )
    restriction = "ssh_allow_groups" if params["allow_groups"] else ""
    if seen.peer and seen.peer not in then:
        problems = [problem for problem in seen.key_problems if problem.startswith(f"{seen.peer}: ")]
        yield fault(
            "ssh_permit_root_login" if seen.peer == "root" else restriction or "ssh_passwords",
            f"would lock out {seen.peer}, as whom Ansible is connected{_because(problems)}",
            f"connect as one of those who keep their access ({', '.join(sorted(then)) or 'nobody'}),"
            f" or give {seen.peer} a key and the right to log in",
        )
    if {*seen.now} & admins and not then & admins:
        yield fault(
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
        yield fault(
            "ssh_extra_options" if ours else MAIN_CONFIG,
            f"would be refused by sshd: {refusal}",
            "see sshd_config(5)" if ours else "mend it until `sshd -t` is silent",
        )
    for override in overrides:
        yield fault(
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
        _overridden_finding(seen),
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
        "remedy": "add a key to ssh_authorized_keys and run again; sudo needs a password of the user, or NOPASSWD",
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


def _overridden_finding(seen: Seen) -> dict[str, str]:
    return {
        "id": "ssh.overridden",
        "status": "warn" if seen.overridden else "pass",
        "evidence": f"not in force because of {DROP_IN}: "
        + ", ".join(f"{line.keyword} {line.value} ({line})" for line in seen.overridden)
        if seen.overridden
        else f"{DROP_IN} overrides no other drop-in",
        "remedy": "take these lines out, or ask for the same by the variables of the role",
    }
