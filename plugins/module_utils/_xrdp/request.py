# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""What is wrong with a request for a remote desktop by itself, whatever the host is. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.certificate import (
    CertificateError,
    alternative_name,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.rules import parse_network
from ansible_collections.rigwright.workstation.plugins.module_utils._system import fail2ban
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import ini

Params = t.Mapping[str, t.Any]
Fault = dict[str, t.Any]

# The same as of tls_certificate.
RENEW_DAYS = 30
# sesman of 0.9 listens there for xrdp.
SESMAN_PORT = 3350
# Groups of Debian and Ubuntu that give their members root's rights, or what comes to the same.
GRANTING = ("adm", "admin", "disk", "docker", "kmem", "libvirt", "lxd", "shadow", "staff", "sudo", "wheel")
NAME = re.compile(r"[a-z_][a-z0-9_.-]*\$?")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# The options that the role sets, by the variable to use instead.
OWN = {
    "xrdp_ini_overrides": {
        "globals": {
            "port": "xrdp_port and xrdp_networks",
            "fork": "nothing: sessions rely on it",
            "use_vsock": "xrdp_port and xrdp_networks",
            "security_layer": "nothing: TLS is the only protection of a login",
            "ssl_protocols": "nothing: older ones are broken",
            "certificate": "xrdp_tls_cert",
            "key_file": "xrdp_tls_key",
        },
        "channels": {
            "cliprdr": "xrdp_clipboard_in and xrdp_clipboard_out",
            "rdpdr": "xrdp_drive_redirection",
            "rdpsnd": "xrdp_sound",
        },
    },
    "xrdp_sesman_overrides": {
        "globals": {"listenaddress": "nothing: it is for xrdp alone", "defaultwindowmanager": "xrdp_desktop"},
        "security": {
            "allowrootlogin": "nothing: root does not log in by RDP",
            "maxloginretry": "xrdp_max_login_retry",
            "terminalserverusers": "xrdp_allowed_group",
            "terminalserveradmins": "nothing: root ends sessions",
            "alwaysgroupcheck": "xrdp_allowed_group",
            "restrictoutboundclipboard": "xrdp_clipboard_out",
            "restrictinboundclipboard": "xrdp_clipboard_in",
            "sessionsockdirgroup": "nothing: it is xrdp's own",
        },
        "sessions": {
            "maxsessions": "xrdp_max_sessions",
            "killdisconnected": "xrdp_kill_disconnected",
            "disconnectedtimelimit": "xrdp_disconnected_timeout",
            "idletimelimit": "xrdp_idle_timeout",
        },
        "chansrv": {"enablefusemount": "xrdp_drive_redirection", "fileumask": "nothing: files of a user are his own"},
    },
}


def fault(variable: str, problem: str, remedy: str) -> Fault:
    """As the action ``require`` takes it."""
    return {"ok": False, "variable": variable, "problem": problem, "remedy": remedy}


def faults(params: Params) -> list[Fault]:
    return [
        *_network_faults(params),
        *_name_faults(params),
        *_number_faults(params),
        *_certificate_faults(params),
        *_environment_faults(params),
        *fail2ban.problems("xrdp", params),
        *(found for name in OWN for found in _override_faults(name, params[name.replace("xrdp_", "", 1)])),
    ]


def _network_faults(params: Params) -> t.Iterator[Fault]:
    if params["port"] == SESMAN_PORT:
        yield fault("xrdp_port", f"is {SESMAN_PORT}, on which xrdp-sesman listens", "choose another, 3389 is RDP's own")
    for network in params["networks"]:
        try:
            parse_network(network)
        except ValueError as error:
            yield fault(
                "xrdp_networks",
                f"is wrong: {error}",
                "list networks such as 192.168.1.0/24, or none for this host alone",
            )


def _name_faults(params: Params) -> t.Iterator[Fault]:
    if not NAME.fullmatch(params["allowed_group"]) or params["allowed_group"] in ("root", "xrdp"):
        yield fault(
            "xrdp_allowed_group",
            f"is {params['allowed_group']!r}, which is no group for those who log in",
            "name a group of its own, such as xrdp-users; it is made when it is missing",
        )
    if "root" in params["users"]:
        yield fault("xrdp_users", "names root, who does not log in by RDP", "name users who may use sudo")


def _number_faults(params: Params) -> t.Iterator[Fault]:
    for name, least in (("max_sessions", 1), ("max_login_retry", 1), ("disconnected_timeout", 0), ("idle_timeout", 0)):
        if params[name] < least:
            yield fault(f"xrdp_{name}", f"is {params[name]}", f"set it to {least} or more")
    if params["kill_disconnected"] and not params["disconnected_timeout"]:
        yield fault(
            "xrdp_kill_disconnected",
            "is true without a time: a connection that breaks would end the desktop and all that runs in it",
            "set xrdp_disconnected_timeout to the seconds that a user has to come back",
        )


def _certificate_faults(params: Params) -> t.Iterator[Fault]:
    for cert, key in (("tls_cert", "tls_key"), ("tls_cert_content", "tls_key_content")):
        if bool(params[cert]) != bool(params[key]):
            missing = key if params[cert] else cert
            yield fault(
                f"xrdp_{missing}", "is missing: a certificate and its key belong together", "set both, or neither"
            )
    if params["tls_cert"] and params["tls_cert_content"]:
        yield fault("xrdp_tls_cert", "is set beside xrdp_tls_cert_content", "set one of them")
    for name in ("tls_cert", "tls_key"):
        if params[name] and (not params[name].startswith("/") or ini.fault("Globals", name, params[name])):
            yield fault(
                f"xrdp_{name}",
                "is no path that xrdp can read",
                "name an absolute path without # ; and spaces at its ends",
            )
    for name in params["tls_names"]:
        try:
            alternative_name(name)
        except CertificateError as error:
            yield fault(
                "xrdp_tls_names", str(error).partition(". Set")[0], "list the host names and addresses that clients use"
            )
    if not params["tls_names"]:
        yield fault("xrdp_tls_names", "is empty", "list the host names and addresses that clients use")


def _environment_faults(params: Params) -> t.Iterator[Fault]:
    for name, value in params["session_env"].items():
        problem = ini.fault("SessionVariables", name, value)
        if problem or not VARIABLE.fullmatch(name):
            yield fault(
                "xrdp_session_env",
                problem or f"has {name!r}, which is no name of a variable",
                "use ~/.profile for what xrdp's file cannot hold",
            )


def _override_faults(variable: str, overrides: t.Mapping[str, t.Any]) -> t.Iterator[Fault]:
    for section, options in overrides.items():
        if not isinstance(options, dict):
            yield fault(variable, f"has no options in {section}", "write {section: {option: value}}")
            continue
        for name, value in options.items():
            instead = OWN[variable].get(section.lower(), {}).get(name.lower())
            problem = f"sets {name} of {section}, which the role sets itself" if instead else ""
            texts = value if isinstance(value, list) else [value]
            problem = problem or next(filter(None, (ini.fault(section, name, text) for text in texts)), "")
            if problem:
                yield fault(
                    variable, problem, f"use {instead}" if instead else "write what xrdp can read, see `man 5 xrdp.ini`"
                )
