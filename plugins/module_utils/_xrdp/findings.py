# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Findings of the role xrdp: what the user still has to do. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import ini, request
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.plan import (
    RELAYS,
    SESMAN_INI,
    XRDP_INI,
    Certificate,
    Decision,
    Facts,
    allowed,
    relays,
    sesman_ini,
    sesman_settings,
    xrdp_ini,
    xrdp_settings,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.request import Params

# The package's own values, of options that the role sets: nobody chose them.
PACKAGED = {
    "globals.certificate": "",
    "globals.defaultwindowmanager": "startwm.sh",
    "globals.key_file": "",
    "globals.port": "3389",
    "globals.security_layer": "negotiate",
    "channels.cliprdr": "true",
    "channels.rdpdr": "true",
    "channels.rdpsnd": "true",
    "chansrv.enablefusemount": "true",
    "security.allowrootlogin": "true",
    "security.alwaysgroupcheck": "false",
    "security.maxloginretry": "4",
    "security.restrictinboundclipboard": "none",
    "security.restrictoutboundclipboard": "none",
    "security.terminalserveradmins": "tsadmins",
    "security.terminalserverusers": "tsusers",
    "sessions.disconnectedtimelimit": "0",
    "sessions.idletimelimit": "0",
    "sessions.killdisconnected": "false",
    "sessions.maxsessions": "50",
}
WORDS = {
    "yes": "true",
    "1": "true",
    "on": "true",
    "all": "true",
    "no": "false",
    "0": "false",
    "off": "false",
    "none": "false",
}


def findings(params: Params, facts: Facts, decision: Decision) -> list[Finding]:
    """Return what is left to do where xrdp serves the desktop."""
    found = [
        _backend_finding(facts, decision),
        _user_finding(params, facts),
        _console_finding(params, facts),
        _lost_finding(facts),
        _removed_finding(params, facts),
        _overridden_finding(params, facts, decision),
    ]
    if facts.certificate:
        found.append(_certificate_finding(params, facts.certificate))
    return found


def gnome_findings(params: Params, facts: Facts, decision: Decision) -> list[Finding]:
    """Return the findings that also apply where GNOME serves its own desktop."""
    found = [_backend_finding(facts, decision)]
    return found + ([_certificate_finding(params, facts.certificate)] if facts.certificate else [])


def _backend_finding(facts: Facts, decision: Decision) -> Finding:
    installed = facts.packages.keys() & {"xrdp", "gnome-remote-desktop"}
    return finding("xrdp.backend", "pass" if installed else "skip", f"{decision.backend}: {decision.reason}")


def _user_finding(params: Params, facts: Facts) -> Finding:
    names = allowed(params, facts)
    locked = [name for name in names if facts.users.get(name) in ("none", "missing")]
    if not names:
        evidence, remedy = (
            "nobody may log in",
            f"name users in xrdp_users, or put them in the group {params['allowed_group']}",
        )
    elif locked:
        evidence, remedy = (
            f"cannot log in without a password: {', '.join(locked)}",
            "set one with `passwd`; RDP has no login by key",
        )
    else:
        return finding("xrdp.users", "pass", f"may log in: {', '.join(names)}")
    return finding("xrdp.users", "warn", evidence, remedy)


def _of_server(facts: Facts) -> str:
    """Return the status of what is well on a host that has a server, and says nothing without one."""
    return "pass" if "xrdp" in facts.packages else "skip"


def _console_finding(params: Params, facts: Facts) -> Finding:
    both = sorted({*facts.console} & {*allowed(params, facts)})
    if not both:
        return finding("xrdp.console", _of_server(facts), "no user of RDP has a desktop at the machine itself")
    return finding(
        "xrdp.console",
        "warn",
        f"{', '.join(both)} is logged in at the machine itself: a user has one graphical session, and a second one stays black or closes",
        "log out there first, or use another account for RDP",
    )


def _lost_finding(facts: Facts) -> Finding:
    lost = sorted({session.user for session in facts.sessions if session.lost})
    if not lost:
        return finding("xrdp.lost", _of_server(facts), "users can reconnect to every desktop")
    return finding(
        "xrdp.lost",
        "warn",
        f"the desktop of {', '.join(lost)} still runs, and nobody can reconnect to it: xrdp-sesman was restarted since",
        "`loginctl terminate-user NAME` ends it and everything that runs in it",
    )


def _removed_finding(params: Params, facts: Facts) -> Finding:
    """Name session types of the user's own that the role leaves out; those of the package are known to lead everywhere."""
    kept = {name.lower() for name in params["ini_overrides"]}
    original = facts.edited.get(XRDP_INI) or facts.packaged.get(XRDP_INI, "")
    removed = sorted({*relays(original)} - {*RELAYS} - kept)
    if not removed:
        is_read = bool(original)
        evidence = "no session type of your own was left out" if is_read else "there is no xrdp.ini yet"
        return finding("xrdp.session_types", "pass" if is_read else "skip", evidence)
    return finding(
        "xrdp.session_types",
        "warn",
        f"left out of xrdp.ini: {', '.join(removed)}, in which a client names the host that xrdp connects to",
        "write each again with one host in xrdp_ini_overrides: {NAME: {name: NAME, lib: libvnc.so, ip: 192.0.2.7, port: 5900}}",
    )


def _overridden_finding(params: Params, facts: Facts, decision: Decision) -> Finding:
    """Name options of the user's own to which the role gives other values.

    Other options of a file may be those of an older package: nobody has to have edited them. Values of a user may be secrets.
    """
    written = {
        XRDP_INI: (xrdp_ini(params, facts), xrdp_settings(params, facts), params["ini_overrides"]),
        SESMAN_INI: (
            sesman_ini(params, facts, decision),
            sesman_settings(params, facts, decision),
            params["sesman_overrides"],
        ),
    }
    lost = []
    for path, (text, *settings) in written.items():
        after = ini.sections(text)
        of_role = {
            f"{section}.{name}".lower() for each in settings for section, options in each.items() for name in options
        }
        edited, packaged = facts.edited.get(path, ""), facts.packaged.get(path, "")
        packages = ini.sections(packaged if packaged != edited else "")
        for section, options in ini.sections(edited).items():
            for name, values in options.items():
                option = f"{section}.{name}"
                if option not in of_role:
                    continue
                # A session type that is left out has a finding of its own.
                now = after[section].get(name, []) if section in after else values
                default = packages.get(section, {}).get(name, [PACKAGED.get(option, "\0")])
                if _meaning(values) not in (_meaning(now), _meaning(default)):
                    value = f"={', '.join(values)}" if option in PACKAGED else ""
                    lost.append(f"{name}{value} ({path} [{section}])")
    if not lost:
        is_read = any(facts.packaged.values())
        evidence = "no option of your own has another value" if is_read else "there are no files of xrdp yet"
        return finding("xrdp.overridden", "pass" if is_read else "skip", evidence)
    return finding(
        "xrdp.overridden",
        "warn",
        f"not in force because of the role's values: {'; '.join(lost)}",
        "set the same by a variable of the role, such as xrdp_allowed_group for TerminalServerUsers, or by xrdp_ini_overrides or"
        " xrdp_sesman_overrides",
    )


def _meaning(values: t.Sequence[str]) -> list[str]:
    """Return values as xrdp takes them."""
    return [WORDS.get(value.lower(), value.lower()) for value in values]


def _certificate_finding(params: Params, certificate: Certificate) -> Finding:
    wanted = {
        f"{'IP' if name.replace('.', '').isdigit() or ':' in name else 'DNS'}:{name.lower()}"
        for name in params["tls_names"]
    }
    if certificate.days < request.RENEW_DAYS:
        return finding("xrdp.certificate", "warn", f"ends in {certificate.days} days", "replace it in time")
    if not wanted & {*certificate.names}:
        return finding(
            "xrdp.certificate",
            "warn",
            f"is for {', '.join(certificate.names) or 'no name'}, and clients know this host as {', '.join(params['tls_names'])}",
            "use one with that name, or set xrdp_tls_names to the names that clients use",
        )
    return finding("xrdp.certificate", "pass", f"good for {certificate.days} days")
