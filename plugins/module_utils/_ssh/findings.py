# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Findings of the role ssh: what the user still has to do, and with ``proof: all`` what was verified. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import Line, Override, listed
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.plan import (
    DROP_IN,
    INTERACTIVE,
    JAIL,
    Decision,
    Facts,
    Ports,
    for_everybody,
    key_admins,
    keyless,
    keys_suffice,
    more_than_key,
    unmet,
    users_after,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.request import Params
from ansible_collections.rigwright.workstation.plugins.module_utils._system.fail2ban import jail_finding


def findings(params: Params, facts: Facts, decision: Decision, overrides: t.Sequence[Override]) -> list[Finding]:
    """Return what is left to do, and with ``proof: all`` also what was verified."""
    found = [
        _password_finding(params, facts, decision),
        _port_finding(params, facts, decision.ports),
        _key_finding(facts),
        _access_finding(params, facts, decision),
        _overridden_finding(facts),
        _match_finding(facts),
        *(
            [jail_finding("ssh", "sshd", JAIL, facts.jail_overridden, facts.jail_stronger)]
            if params["fail2ban"]
            else []
        ),
    ]
    if params["proof"] != "all":
        return found
    silent = not all(facts.banners.values())
    return [
        *found,
        finding(
            "ssh.configuration",
            "fail" if overrides else "pass",
            "; ".join(map(str, overrides)) or "sshd -T prints the requested settings, for every user and every address",
            "remove that from the file or Match block, or set it by the variables of the role",
        ),
        finding(
            "ssh.banner",
            "fail" if silent else "pass",
            ", ".join(f"{port}: {text or 'no answer'}" for port, text in facts.banners.items()),
            "see `journalctl -u ssh`",
        ),
        finding(
            "ssh.login",
            "pass" if facts.connection else "skip",
            f"Ansible is connected by ssh as {facts.peer}, port {facts.connection.port}"
            if facts.connection
            else "Ansible is not connected by ssh",
        ),
    ]


def _password_finding(params: Params, facts: Facts, decision: Decision) -> Finding:
    proven = decision.passwords_refused and keys_suffice(facts)
    everybody, others = more_than_key(facts.methods), unmet(facts.methods, INTERACTIVE)
    more = [line for line in facts.methods if line in everybody or line in others]
    if more and (decision.passwords_refused or params["passwords"] == "auto"):
        return _methods_finding(facts, decision, more)
    if proven:
        evidence = f"passwords are refused, {', '.join(key_admins(facts))} can log in with a key and become root"
    elif params["passwords"] == "allowed":
        evidence = "passwords stay allowed, as ssh_passwords says"
    else:
        peer = f", or {facts.peer} has none" if facts.peer else ""
        stay = "refused" if decision.passwords_refused else "as they were"
        evidence = f"passwords stay {stay}: nobody who can become root has a key that sshd accepts{peer}"
    return finding(
        "ssh.passwords",
        "pass" if proven else "warn",
        evidence,
        "add a key to ssh_authorized_keys and run again; sudo needs a password of the user, or NOPASSWD",
    )


def _methods_finding(facts: Facts, decision: Decision, lines: t.Sequence[Line]) -> Finding:
    """Return what becomes of passwords where AuthenticationMethods asks for more than a key."""
    alone = [] if decision.passwords_refused else keyless(facts.methods)
    kept = "stay as they were" if facts.passwords_accepted else "are no longer refused"
    stay = "are refused, but" if decision.passwords_refused else f"{kept}:"
    # Whom no line concerns logs in with a password alone.
    needs_key = not decision.passwords_refused and not alone and for_everybody(facts.methods)
    return finding(
        "ssh.passwords",
        "pass" if needs_key else "warn",
        f"passwords {stay} AuthenticationMethods asks for {listed(lines)}"
        + (f"; no key is needed for {listed(alone)}" if alone else ""),
        "take that line out where a key is to be enough",
    )


def _port_finding(params: Params, facts: Facts, ports: Ports) -> Finding:
    wanted = ", ".join(map(str, ports.wanted))
    foreign = [
        f"{entry['port']} (process {entry['pid']}, {entry['unit'] or 'no unit'})"
        for entry in facts.foreign
        if entry["port"] not in ports.open
    ]
    if foreign:
        return finding(
            "ssh.ports",
            "warn",
            f"a sshd that is not the host's service listens on {', '.join(foreign)}",
            "stop it unless it is intended: none of these settings applies to it",
        )
    if params["proof"] == "all" and ports.surplus:
        return finding(
            "ssh.ports",
            "fail",
            f"sshd also listens on {', '.join(map(str, ports.surplus))}",
            "run the role, then find the cause with `systemctl cat ssh.socket ssh.service` and `ss -Hltnp`",
        )
    if ports.own:
        return finding(
            "ssh.ports",
            "warn",
            f"port {ports.own[0]} stays open in addition to {wanted}: Ansible is connected to it",
            f"set ansible_port to {ports.wanted[0]}, close connections that ssh kept (ControlPersist), and run again",
        )
    return finding(
        "ssh.ports",
        "pass",
        f"sshd listens on {wanted}",
    )


def _key_finding(facts: Facts) -> Finding:
    problems = [*(f"{user} does not exist yet" for user in facts.unknown_users), *facts.key_problems]
    return finding(
        "ssh.authorized_keys",
        "warn" if problems else "pass",
        "; ".join(problems) or "every user with keys can use them",
        "create the user, or fix owner and mode: chmod go-w on the home, .ssh and authorized_keys",
    )


def _access_finding(params: Params, facts: Facts, decision: Decision) -> Finding:
    lost = sorted({*facts.users_now} - users_after(params, facts, decision))
    return finding(
        "ssh.access",
        "warn" if lost else "pass",
        f"could log in until now, and no longer can: {', '.join(lost)}"
        if lost
        else "all users who could log in still can",
        "if they should, add their keys to ssh_authorized_keys, or add them to a group of ssh_allow_groups",
    )


def _match_finding(facts: Facts) -> Finding:
    return finding(
        "ssh.match",
        "warn" if facts.unsure_blocks else "pass",
        "; ".join(map(str, facts.unsure_blocks))
        or "every Match block with a looser setting was tried, or is for nobody",
        "remove that from the Match block unless it is intended: the host does not tell whom the block is for",
    )


def _overridden_finding(facts: Facts) -> Finding:
    return finding(
        "ssh.overridden",
        "warn" if facts.overridden else "pass",
        f"not in force because of {DROP_IN}: "
        + ", ".join(f"{line.keyword} {line.value} ({line})" for line in facts.overridden)
        if facts.overridden
        else f"{DROP_IN} overrides no line of another file",
        "remove these lines, or set the same by the variables of the role",
    )
