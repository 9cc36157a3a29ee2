# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Validate a request for sshd without looking at the host. Pure."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.names import NAME_REMEDY, is_name
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.ssh_options import SshOptions
from ansible_collections.rigwright.workstation.plugins.module_utils._system import fail2ban

# The role's variable behind each setting. Settings without a variable are the ones that all others depend on.
VARIABLES = {
    "allowagentforwarding": "ssh_allow_agent_forwarding",
    "allowgroups": "ssh_allow_groups",
    "allowtcpforwarding": "ssh_allow_tcp_forwarding",
    "authorizedkeysfile": "ssh_authorized_keys",
    "clientalivecountmax": "ssh_client_alive_count_max",
    "clientaliveinterval": "ssh_client_alive_interval",
    "kbdinteractiveauthentication": "ssh_passwords",
    # sshd prints both in one value.
    "listenaddress": "ssh_ports or ssh_listen_addresses",
    "loglevel": "ssh_log_level",
    "maxauthtries": "ssh_max_auth_tries",
    "passwordauthentication": "ssh_passwords",
    "permitrootlogin": "ssh_permit_root_login",
    "port": "ssh_ports",
    "x11forwarding": "ssh_x11_forwarding",
}
# `ssh_extra_options` cannot have these: the role writes them itself, or they would begin another file or block.
OWN = frozenset(VARIABLES) | {"pubkeyauthentication", "permitemptypasswords", "include", "match"}


class Params(SshOptions):
    """A request: the options, and what ``__ssh_context`` adds. ``proof``: none, wanted or all."""

    proof: str
    packages: list[str]


def input_problems(params: Params) -> t.Iterator[Problem]:
    """Yield the problems of the request itself."""
    ports = [str(port) for port in params["ports"] if not 1 <= port <= 65535]
    if ports or not params["ports"]:
        yield problem(
            "ssh_ports",
            f"must list ports from 1 to 65535, and has {', '.join(ports) or 'none'}",
            "list at least one port, for example [22]",
        )
    addresses = [address for address in params["listen_addresses"] if not parse_address(address)]
    if addresses:
        yield problem(
            "ssh_listen_addresses",
            f"must list IP addresses, and has {_named(addresses)}",
            "write an address such as 192.0.2.10 or 2001:db8::10",
        )
    for name, value, minimum in (
        ("max_auth_tries", params["max_auth_tries"], 1),
        ("client_alive_interval", params["client_alive_interval"], 0),
        ("client_alive_count_max", params["client_alive_count_max"], 0),
    ):
        if value < minimum:
            yield problem(f"ssh_{name}", f"is {value}", f"set it to {minimum} or more")
    yield from fail2ban.problems("ssh", params)
    yield from _name_problems(params)
    yield from _option_problems(params["extra_options"])


def _name_problems(params: Params) -> t.Iterator[Problem]:
    users = [entry["user"] for entry in params["authorized_keys"]]
    groups = [group["name"] for group in params["allow_groups"]]
    members = [user for group in params["allow_groups"] for user in group["members"]]
    for variable, kind, given in (
        ("ssh_authorized_keys", "user name", users),
        ("ssh_allow_groups", "group name", groups),
        ("ssh_allow_groups", "user name", members),
    ):
        invalid = [name for name in dict.fromkeys(given) if not is_name(name)]
        if invalid:
            yield problem(variable, f"has {_named(invalid)}, which is not a {kind}", NAME_REMEDY)
    for variable, remedy, given in (
        ("ssh_authorized_keys", "put all keys of a user into one entry", users),
        ("ssh_allow_groups", "put all members of a group into one entry", groups),
    ):
        twice = [name for name in dict.fromkeys(given) if given.count(name) > 1]
        if twice:
            yield problem(variable, f"has more than one entry for {', '.join(twice)}", remedy)


def _option_problems(options: JsonObject) -> t.Iterator[Problem]:
    own = sorted({name.lower() for name in options} & OWN)
    if own:
        yield problem(
            "ssh_extra_options",
            f"sets {', '.join(own)}, which the role sets itself or which would end its file",
            "use the role's own variable, or a later file in /etc/ssh/sshd_config.d for Match blocks",
        )
    invalid = [
        name
        for name, value in options.items()
        if not re.fullmatch("[A-Za-z0-9]+", name) or any("\n" in line for line in extra_lines({name: value}))
    ]
    if invalid:
        yield problem(
            "ssh_extra_options",
            f"has {_named(invalid)}: the name is not a keyword, or the value has several lines",
            "write one entry for each option of sshd_config(5)",
        )


def _named(values: t.Iterable[str]) -> str:
    return ", ".join(map(repr, values))


def parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an IP address without its scope, None for anything else."""
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def extra_lines(options: JsonObject) -> t.Iterator[str]:
    for name, value in options.items():
        for entry in value if isinstance(value, list) else [value]:
            yield f"{name} {yes_no(entry) if isinstance(entry, bool) else entry}"


def yes_no(value: bool) -> str:
    return "yes" if value else "no"
