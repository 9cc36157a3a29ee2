# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide the settings, ports, files and units of sshd from a request and the facts of the host. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, Problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import (
    DirectoryRow,
    FileRow,
    Listener,
    UnitRow,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import (
    DROP_IN,
    MAIN_CONFIG,
    REPEATED,
    Config,
    Line,
    Override,
    endpoints,
    expected,
    includes,
    parse_config,
    split_setting,
    split_values,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.request import (
    Params,
    extra_lines,
    parse_address,
    yes_no,
)

KEYS_FILE = ".ssh/authorized_keys"
KEYS_DIRECTORY = "/etc/ssh/authorized_keys.d"
UNIT_FILES = "/etc/systemd/system"
JAIL = "/etc/fail2ban/jail.d/rigwright.local"

# All addresses as sshd writes them, by its AddressFamily.
EVERYWHERE = {"any": ("0.0.0.0", "::"), "inet": ("0.0.0.0",), "inet6": ("::",)}  # noqa: S104 - to recognise, not to bind


@dataclasses.dataclass(frozen=True)
class Service:
    """The units that hold the ports of sshd: ``ssh.service``, or ``ssh.socket``, with which systemd starts sshd on demand."""

    active: bool = False
    pid: int = 0
    ports: tuple[int, ...] = ()
    socket_active: bool = False
    socket_accept: bool = False
    socket_ports: tuple[int, ...] = ()

    @property
    def ports_in_use(self) -> tuple[int, ...]:
        return tuple(sorted({*self.ports, *self.socket_ports}))


class Peer(t.NamedTuple):
    """Ansible's ssh connection: its user, and both ends."""

    user: str
    client: str
    address: str
    port: int


@dataclasses.dataclass(frozen=True)
class Facts:
    """Facts of the host and, once the planned configuration is known, of the users who can log in with it.

    ``connection``: Ansible's ssh connection, None when Ansible uses another one. ``banners``: the answer of each wanted port that was
    probed, empty for none. ``foreign``: listeners of a sshd outside of the units. ``key_files``: AuthorizedKeysFile in the host's own
    files. ``missing_addresses``: requested addresses that the host does not have. ``users_now``: users who can log in before the change.
    ``overridden``: lines of other files that have no effect because of the role's own. ``jail_overridden``: the same of fail2ban.
    ``jail_stronger``: what puts the role's values for fail2ban out of force.
    ``unsure_blocks``: what Match blocks set that may be for users whom this host does not list.
    ``methods``: lines with the ways to log in that have to be gone together (AuthenticationMethods).
    ``other_config``: the file that sshd is started with in place of its own.
    """

    service: Service
    listeners: t.Sequence[Listener]
    connection: Peer | None
    passwords_accepted: bool
    main_config: str
    main_config_added: bool
    key_files: t.Sequence[str] = ()
    users_now: t.Collection[str] = ()
    key_users: t.Collection[str] = ()
    password_users: t.Collection[str] = ()
    admins: t.Collection[str] = ()
    key_problems: t.Sequence[str] = ()
    invalid_keys: t.Sequence[str] = ()
    unknown_users: t.Sequence[str] = ()
    missing_addresses: t.Sequence[str] = ()
    banners: t.Mapping[int, str] = dataclasses.field(default_factory=dict)
    foreign: t.Sequence[Listener] = ()
    overridden: t.Sequence[Line] = ()
    jail_overridden: t.Sequence[str] = ()
    jail_stronger: t.Sequence[str] = ()
    unsure_blocks: t.Sequence[Override] = ()
    methods: t.Sequence[Line] = ()
    other_config: str = ""

    @property
    def peer(self) -> str:
        """Return the user as whom Ansible is connected by ssh, empty when it is not."""
        return self.connection.user if self.connection else ""


class SshPlan(t.TypedDict):
    """The plan, as the tasks of the role take it."""

    installed: bool
    install: list[str]
    settings: list[str]
    files: list[FileRow]
    directories: list[DirectoryRow]
    units: list[UnitRow]
    socket_active: bool
    listen_streams: list[str]
    door: str
    fail2ban_due: bool
    groups_due: bool
    ports_open: list[int]
    ports_to_close: list[int]
    passwords_refused: bool
    requirements: list[Problem]
    findings: list[Finding]


@dataclasses.dataclass(frozen=True)
class Ports:
    """Ports by what happens to them. ``own``: the unwanted one that Ansible is connected to."""

    wanted: tuple[int, ...]
    own: tuple[int, ...]
    surplus: tuple[int, ...]
    proven: bool

    @property
    def open(self) -> tuple[int, ...]:
        """Return the ports on which sshd listens. An unwanted one stays open until every wanted one has answered."""
        return (*self.wanted, *self.own, *(() if self.proven else self.surplus))


@dataclasses.dataclass(frozen=True)
class Decision:
    """What the role writes. ``settings``: lines that sshd must have exactly. ``extra``: the user's own options."""

    ports: Ports
    passwords_refused: bool
    settings: tuple[str, ...]
    extra: tuple[str, ...]

    @property
    def drop_in(self) -> tuple[str, ...]:
        return (*self.settings, *self.extra)


# What asks for a password, or for a code.
INTERACTIVE = ("password", "keyboard-interactive")


def methods(lines: t.Iterable[Line]) -> list[Line]:
    """Return the lines of AuthenticationMethods that are in force. Outside of Match blocks, the first one is.

    One below `Match all` wins over it. Both count, since either can be what sshd asks for.
    """
    found = [line for line in lines if line.keyword == "authenticationmethods"]
    first = [line for match in ("", "all") for line in [each for each in found if each.match == match][:1]]
    return [line for line in found if line in first or line.match not in ("", "all")]


def for_everybody(lines: t.Iterable[Line]) -> list[Line]:
    """Return the lines that are in no Match block, or in one for everybody."""
    return [line for line in lines if line.match in ("", "all")]


def keyless(lines: t.Iterable[Line]) -> list[Line]:
    """Return the lines with which no key is needed to log in: one of their lists has none."""
    return [line for line in lines if not all("publickey" in each.split(",") for each in split_values(line.value))]


def more_than_key(lines: t.Iterable[Line]) -> list[Line]:
    """Return the lines for everybody with which one key is not enough: none of their lists is that alone."""
    return [
        line
        for line in for_everybody(lines)
        if "publickey" not in split_values(line.value) and split_values(line.value) != ["any"]
    ]


def unmet(lines: t.Iterable[Line], refused: t.Collection[str]) -> list[Line]:
    """Return the lines with which nobody could log in where these methods are refused: each of their lists has one of them."""
    return [
        line
        for line in lines
        if all(
            {each.partition(":")[0] for each in methods.split(",")} & {*refused} for methods in split_values(line.value)
        )
    ]


def surplus_ports(params: Params, service: Service, connection: Peer | None) -> tuple[int, ...]:
    """Return the ports of sshd that are not wanted, without the one that Ansible is connected to."""
    own = connection.port if connection else None
    return tuple(port for port in service.ports_in_use if port not in params["ports"] and port != own)


def decide(params: Params, facts: Facts) -> Decision:
    wanted = tuple(dict.fromkeys(params["ports"]))
    own = tuple(
        port
        for port in facts.service.ports_in_use
        if facts.connection and port == facts.connection.port and port not in wanted
    )
    ports = Ports(
        wanted,
        own,
        surplus_ports(params, facts.service, facts.connection),
        proven=all(facts.banners.get(port) for port in wanted),
    )
    # Once refused, passwords stay refused: a key that cannot be read now (an unmounted home) must not enable them again,
    # nor must a Match block for one user. What everybody needs to log in does. While they are accepted, nobody loses what one needs.
    refused = params["passwords"] == "refused" or (
        params["passwords"] == "auto"
        and (
            keys_suffice(facts) and not more_than_key(facts.methods) and not unmet(facts.methods, INTERACTIVE)
            if facts.passwords_accepted
            else not unmet(for_everybody(facts.methods), INTERACTIVE)
        )
    )
    settings = (
        *(f"{name} {value}" for name, value in single_settings(params, facts.key_files).items()),
        *(f"Port {port}" for port in ports.open),
        *(f"ListenAddress {address}" for address in params["listen_addresses"]),
        *_password_settings(params, refused),
        *(f"AllowGroups {group['name']}" for group in params["allow_groups"]),
    )
    return Decision(ports, refused, settings, tuple(extra_lines(params["extra_options"])))


def single_settings(params: Params, key_files: t.Sequence[str]) -> dict[str, str]:
    """Return the settings with one value that do not depend on who can log in. Key files of the host itself stay in use."""
    own = (KEYS_FILE, f"{KEYS_DIRECTORY}/%u")
    return {
        "PermitRootLogin": params["permit_root_login"],
        "PubkeyAuthentication": "yes",
        "AuthorizedKeysFile": " ".join(dict.fromkeys((*own, *(path for path in key_files if path != "none")))),
        "PermitEmptyPasswords": "no",
        # sshd_config(5) has two words for it; `sshd -T` prints this one.
        "AllowTcpForwarding": "yes" if params["allow_tcp_forwarding"] == "all" else params["allow_tcp_forwarding"],
        "AllowAgentForwarding": yes_no(params["allow_agent_forwarding"]),
        "X11Forwarding": yes_no(params["x11_forwarding"]),
        "MaxAuthTries": str(params["max_auth_tries"]),
        "ClientAliveInterval": str(params["client_alive_interval"]),
        "ClientAliveCountMax": str(params["client_alive_count_max"]),
        "LogLevel": params["log_level"],
    }


def _password_settings(params: Params, refused: bool) -> tuple[str, ...]:
    """Return the settings for passwords. With `auto` and nobody who has a key, the host's own stay."""
    if refused:
        return "PasswordAuthentication no", "KbdInteractiveAuthentication no"
    if params["passwords"] == "allowed":
        return "PasswordAuthentication yes", "KbdInteractiveAuthentication no"
    return ()


def assumed(decision: Decision, config: Config) -> Config:
    """Return the planned configuration where sshd cannot print it."""
    return {
        **config,
        **{keyword: value for keyword, value in parse_config("\n".join(decision.settings)).items() if value},
    }


def without_own_keys(config: Config) -> Config:
    """Return a configuration without the directory of the role's keys: the planned keys count, not those that are there now."""
    files = [word for word in config["authorizedkeysfile"].split() if not word.startswith(f"{KEYS_DIRECTORY}/")]
    return {**config, "authorizedkeysfile": " ".join(files)}


def wanted_values(decision: Decision, service: Service, config: Config) -> dict[str, frozenset[str]]:
    """Return the values that ``sshd -T`` has to print. With ssh.socket, sshd does not decide the ports."""
    wanted = expected(decision.settings)
    # sshd prints the ports in its endpoints as well.
    ports = {int(port) for port in wanted.pop("port")}
    addresses = wanted.pop("listenaddress", None) or EVERYWHERE[config.get("addressfamily", "any")]
    return wanted if service.socket_active else {**wanted, "listenaddress": endpoints(addresses, ports)}


def overridden(
    decision: Decision, lines: t.Iterable[Line], overrides: t.Iterable[Override], packaged: str = ""
) -> list[Line]:
    """Return the lines of other files that have no effect because of the role's own file.

    For a setting with one value, only the first line had an effect before.

    :param packaged: the main file of the package, whose lines nobody has written; without it, none of the main file counts.
    """
    own = {split_setting(text) for text in packaged.splitlines()}
    ours = {keyword: values for keyword, values in expected(decision.drop_in).items() if keyword not in REPEATED}
    stronger = {override.keyword for override in overrides}
    found: dict[str, Line] = {}
    for line in lines:
        if line.path != DROP_IN and line.match in ("", "all"):
            found.setdefault(line.keyword, line)
    return [
        line
        for keyword, line in found.items()
        if (line.path != MAIN_CONFIG or (own and (line.keyword, line.value) not in own))
        and keyword in ours
        and keyword not in stronger
        and not includes(line.value, ours[keyword])
        # The role keeps the paths of AuthorizedKeysFile and adds its own.
        and not {*split_values(line.value.lower())} <= {*split_values(" ".join(ours[keyword]))}
    ]


def listen_streams(params: Params, ports: Ports) -> list[str]:
    """Return ListenStream of systemd.socket(5): ports alone, or addresses with each of the ports."""
    addresses = [address for address in params["listen_addresses"] if parse_address(address)]
    return sorted(endpoints(addresses, ports.open)) or [str(port) for port in ports.open]


def files(params: Params, facts: Facts) -> list[FileRow]:
    """Return the files without a template: the keys, and the main file where it has to include the drop-ins first."""
    keys: list[FileRow] = [
        {"path": f"{KEYS_DIRECTORY}/{entry['user']}", "content": "".join(f"{key}\n" for key in entry["keys"])}
        for entry in params["authorized_keys"]
    ]
    main: FileRow = {"path": MAIN_CONFIG, "content": facts.main_config, "merged": True}
    return [*keys, *([main] if facts.main_config_added else [])]


def directories(params: Params, service: Service) -> list[DirectoryRow]:
    needed = {"ssh.socket": service.socket_active, "ssh.service": service.socket_active or params["listen_addresses"]}
    paths = [KEYS_DIRECTORY, *(f"{UNIT_FILES}/{unit}.d" for unit in needed if needed[unit])]
    return [{"path": path} for path in paths]


# A restart, not a reload: on SIGHUP a sshd loses the ports that it got from ssh.socket. Sessions survive both.
SERVICE: UnitRow = {
    "name": "ssh.service",
    "restart_on": [MAIN_CONFIG, f"{MAIN_CONFIG}.d"],
    "validate": "/usr/sbin/sshd -t",
}
SOCKET: UnitRow = {"name": "ssh.socket", "restart_on": [f"{UNIT_FILES}/ssh.socket.d"]}


def units(params: Params, service: Service) -> list[UnitRow]:
    """Return the units of sshd as systemd_units takes them.

    With ssh.socket, systemd holds the ports; sshd then runs from the first connection on, or once for each (Accept=yes).
    """
    if params["state"] == "absent":
        # The role does not change whether they start at boot.
        if service.socket_active:
            # The socket cannot start while the service runs.
            return [{"name": "ssh.service", "state": "stopped"}, SOCKET]
        return [SERVICE] if service.active else []
    if not service.socket_active:
        return [{**SERVICE, "enabled": True}]
    listening: UnitRow = {**SOCKET, "enabled": True}
    return [listening] if service.socket_accept else [listening, SERVICE]


def key_admins(facts: Facts) -> list[str]:
    """Return the users who have a key and can become root."""
    return sorted({*facts.key_users} & {*facts.admins})


def keys_suffice(facts: Facts) -> bool:
    """Return whether an administrator has a key, and the connected user as well."""
    return bool(key_admins(facts)) and facts.peer in ("", *facts.key_users)


def users_after(params: Params, facts: Facts, decision: Decision) -> set[str]:
    """Return the users who can log in after the change."""
    by_password = not decision.passwords_refused and (params["passwords"] == "allowed" or facts.passwords_accepted)
    return {*facts.key_users, *(facts.password_users if by_password else ())}
