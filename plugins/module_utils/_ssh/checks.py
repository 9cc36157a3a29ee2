# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reasons to refuse a request for sshd on this host: ports, addresses, lockouts, and a configuration that sshd refuses. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import (
    MAIN_CONFIG,
    Line,
    Override,
    listed,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.plan import (
    DROP_IN,
    INTERACTIVE,
    Decision,
    Facts,
    Ports,
    for_everybody,
    key_admins,
    unmet,
    users_after,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.request import (
    VARIABLES,
    Params,
    parse_address,
)


def host_problems(
    params: Params, facts: Facts, decision: Decision, overrides: t.Sequence[Override], refusal: str
) -> list[Problem]:
    """Return the problems of the request on this host.

    :param refusal: why sshd refuses the planned configuration, empty when it does not.
    """
    refused = _refused_methods(params, facts, decision)
    lines = unmet(facts.methods, refused) if refused else []
    # sshd itself refuses such lines for everybody, in words without a variable.
    named = "AuthenticationMethods cannot be satisfied" in refusal and for_everybody(lines)
    return [
        *_port_problems(params, facts, decision.ports),
        *_lockout_problems(params, facts, decision),
        *_method_problems(params, refused, lines),
        *_file_problems(facts),
        *_config_problems(overrides, "" if named else refusal),
    ]


def _port_problems(params: Params, facts: Facts, ports: Ports) -> t.Iterator[Problem]:
    taken = {
        f"{entry['port']} {entry['process'] or 'of an unknown process'}"
        for entry in facts.listeners
        if entry["protocol"] == "tcp"
        and entry["port"] in ports.wanted
        and entry["port"] not in facts.service.ports_in_use
    }
    if taken:
        yield problem(
            "ssh_ports",
            f"names a port on which another program listens: {', '.join(sorted(taken))}",
            "choose a free port, or stop that program",
        )
    silent = [str(port) for port in ports.wanted if not facts.banners.get(port)]
    if params["proof"] != "none" and silent:
        yield problem(
            "ssh_ports",
            f"names a port on which no ssh server answers ({', '.join(silent)})",
            "see `journalctl -u ssh`"
            + (f"; {', '.join(map(str, ports.surplus))} stays open until then" if ports.surplus else ""),
        )
    elif params["proof"] == "all" and ports.surplus:
        yield problem(
            "ssh_ports",
            f"leaves out {', '.join(map(str, ports.surplus))}, where sshd still listens",
            "find the cause with `systemctl cat ssh.socket ssh.service` and `ss -Hltnp`",
        )
    missing = [address for address in facts.missing_addresses if parse_address(address)]
    if missing:
        yield problem(
            "ssh_listen_addresses",
            f"names addresses that this host does not have: {', '.join(missing)}",
            "see `ip address`",
        )
    if facts.connection and params["listen_addresses"]:
        address = facts.connection.address
        if not _listens_on(params["listen_addresses"], address):
            yield problem(
                "ssh_listen_addresses",
                f"leaves out {address}, which Ansible is connected to",
                "add it, or connect to another address; 0.0.0.0 is all of IPv4, and :: all of IPv6",
            )


def _listens_on(addresses: t.Sequence[str], address: str) -> bool:
    """Return whether sshd on these addresses can be reached at another one; ``::`` is all of IPv6 and nothing of IPv4."""
    target = parse_address(address)
    found = [other for other in map(parse_address, addresses) if other]
    return any(
        other == target or (target and other.is_unspecified and other.version == target.version) for other in found
    )


def _lockout_problems(params: Params, facts: Facts, decision: Decision) -> t.Iterator[Problem]:
    if facts.invalid_keys:
        yield problem(
            "ssh_authorized_keys",
            f"has keys that sshd would not accept ({'; '.join(facts.invalid_keys)})",
            "paste the whole line of the .pub file; `ssh-keygen -t ed25519` creates one",
        )
    admins = {*facts.admins}
    then = users_after(params, facts, decision)
    if params["passwords"] == "refused" and not key_admins(facts):
        yield problem(
            "ssh_passwords",
            f"is refused, but nobody who can become root would have a key that sshd accepts{_because(facts.key_problems)}",
            "add a key to ssh_authorized_keys, or leave ssh_passwords at auto; sudo needs a password of the user, or NOPASSWD",
        )
    restriction = "ssh_allow_groups" if params["allow_groups"] else ""
    if facts.peer and facts.peer not in then:
        problems = [text for text in facts.key_problems if text.startswith(f"{facts.peer}: ")]
        yield problem(
            "ssh_permit_root_login" if facts.peer == "root" else restriction or "ssh_passwords",
            f"would lock out {facts.peer}, as whom Ansible is connected{_because(problems)}",
            f"connect as a user who keeps access ({', '.join(sorted(then)) or 'nobody'}),"
            f" or give {facts.peer} a key and the right to log in",
        )
    if {*facts.users_now} & admins and not then & admins:
        yield problem(
            restriction or "ssh_permit_root_login",
            f"would leave nobody who can log in and become root; now {', '.join(sorted({*facts.users_now} & admins))} can",
            "add a key of a sudo user to ssh_authorized_keys, or set ssh_permit_root_login: prohibit-password",
        )


def _refused_methods(params: Params, facts: Facts, decision: Decision) -> t.Sequence[str]:
    """Return the methods that the role takes away. Where the host refuses passwords already, `auto` takes none."""
    if params["passwords"] == "auto" and not facts.passwords_accepted:
        return ()
    return INTERACTIVE if decision.passwords_refused else INTERACTIVE[1:] if params["passwords"] == "allowed" else ()


def _method_problems(params: Params, refused: t.Sequence[str], lines: t.Sequence[Line]) -> t.Iterator[Problem]:
    """Yield why nobody could log in as AuthenticationMethods asks for it: such as by a key and then a code (keyboard-interactive)."""
    if lines:
        yield problem(
            "ssh_passwords",
            f"is {params['passwords']}, which refuses {' and '.join(refused)}, and AuthenticationMethods asks for {listed(lines)}",
            "take that line out of its Match block, or set ssh_passwords: allowed where a password is meant"
            if params["passwords"] == "auto"
            else "leave ssh_passwords at auto, which keeps what everybody needs, or take that line out",
        )


def _because(problems: t.Sequence[str]) -> str:
    return f" ({'; '.join(problems)})" if problems else ""


def _file_problems(facts: Facts) -> t.Iterator[Problem]:
    if facts.other_config:
        yield problem(
            MAIN_CONFIG,
            f"is not what sshd reads: it is started with -f {facts.other_config}",
            "take -f out (`systemctl cat ssh.service`, SSHD_OPTS in /etc/default/ssh), with what that file has in /etc/ssh/sshd_config.d",
        )


def _config_problems(overrides: t.Sequence[Override], refusal: str) -> t.Iterator[Problem]:
    if refusal:
        ours = DROP_IN in refusal
        yield problem(
            "ssh_extra_options" if ours else MAIN_CONFIG,
            f"would be refused by sshd: {refusal}",
            "see sshd_config(5)" if ours else "fix it until `sshd -t` prints nothing",
        )
    for override in overrides:
        yield problem(
            VARIABLES.get(override.keyword, MAIN_CONFIG),
            f"would not be in force: {override}",
            "remove that from the file"
            + (" or Match block" if override.connections or override.untried else "")
            + ", or set it here",
        )
