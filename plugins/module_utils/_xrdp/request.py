# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Validate a request for a remote desktop without looking at the host. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.certificate import (
    CertificateError,
    alternative_name,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.names import is_group_name
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject, Listener
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.rules import parse_network
from ansible_collections.rigwright.workstation.plugins.module_utils._system import fail2ban
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import ini
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.xrdp_options import XrdpOptions


class Desktop(t.TypedDict):
    """A desktop of the platform: its packages, and the command that starts it."""

    packages: list[str]
    command: str


class Params(XrdpOptions):
    """A request: the options, and what ``__xrdp_context`` adds."""

    packages: list[str]
    desktops: dict[str, Desktop]
    gnome_x11: bool
    gnome_environment: JsonObject
    gnome_packages: list[str]
    gnome_login: bool
    listeners: list[Listener]


# The same as in tls_certificate.
RENEW_DAYS = 30
# The port of sesman 0.9 for xrdp.
SESMAN_PORT = 3350
# Groups of Debian and Ubuntu whose members have root's rights or can get them.
GRANTING = ("adm", "admin", "disk", "docker", "kmem", "libvirt", "lxd", "shadow", "staff", "sudo", "wheel")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# The options that the role sets, with the variable to use instead.
OWN = {
    "xrdp_ini_overrides": {
        "globals": {
            "port": "xrdp_port and xrdp_networks",
            "fork": "nothing: sessions need it",
            "use_vsock": "xrdp_port and xrdp_networks",
            "vmconnect": "xrdp_port and xrdp_networks",
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
            "terminalserveradmins": "nothing: only root ends sessions",
            "alwaysgroupcheck": "xrdp_allowed_group",
            "restrictoutboundclipboard": "xrdp_clipboard_out",
            "restrictinboundclipboard": "xrdp_clipboard_in",
            "sessionsockdirgroup": "nothing: xrdp needs it",
        },
        "sessions": {
            "maxsessions": "xrdp_max_sessions",
            "killdisconnected": "xrdp_kill_disconnected",
            "disconnectedtimelimit": "xrdp_disconnected_timeout",
            "idletimelimit": "xrdp_idle_timeout",
        },
        "chansrv": {"enablefusemount": "xrdp_drive_redirection", "fileumask": "nothing: a user's files are private"},
    },
}


def problems(params: Params) -> list[Problem]:
    """Return the problems of the request itself."""
    return [
        *_network_problems(params),
        *_name_problems(params),
        *_number_problems(params),
        *_certificate_problems(params),
        *_environment_problems(params),
        *fail2ban.problems("xrdp", params),
        *_override_problems("xrdp_ini_overrides", params["ini_overrides"]),
        *_override_problems("xrdp_sesman_overrides", params["sesman_overrides"]),
    ]


def _network_problems(params: Params) -> t.Iterator[Problem]:
    if params["port"] == SESMAN_PORT:
        yield problem(
            "xrdp_port",
            f"is {SESMAN_PORT}, on which xrdp-sesman listens",
            "choose another one; 3389 is the port of RDP",
        )
    for network in params["networks"]:
        try:
            parse_network(network)
        except ValueError as error:
            yield problem(
                "xrdp_networks",
                f"is wrong: {error}",
                "list networks such as 192.168.1.0/24; an empty list is this host alone",
            )


def _name_problems(params: Params) -> t.Iterator[Problem]:
    if not is_group_name(params["allowed_group"]) or params["allowed_group"] in ("root", "xrdp"):
        yield problem(
            "xrdp_allowed_group",
            f"is {params['allowed_group']!r}, which cannot be the group of the users who log in",
            "name a separate group such as xrdp-users; the role creates it",
        )
    if "root" in params["users"]:
        yield problem("xrdp_users", "names root, who cannot log in by RDP", "name users who can use sudo")


def _number_problems(params: Params) -> t.Iterator[Problem]:
    for name, value, minimum in (
        ("max_sessions", params["max_sessions"], 1),
        ("max_login_retry", params["max_login_retry"], 1),
        ("disconnected_timeout", params["disconnected_timeout"], 0),
        ("idle_timeout", params["idle_timeout"], 0),
    ):
        if value < minimum:
            yield problem(f"xrdp_{name}", f"is {value}", f"set it to {minimum} or more")
    if params["kill_disconnected"] and not params["disconnected_timeout"]:
        yield problem(
            "xrdp_kill_disconnected",
            "is true without a time: a broken connection would end the desktop and everything that runs in it",
            "set xrdp_disconnected_timeout to the seconds in which a user can reconnect",
        )


def _certificate_problems(params: Params) -> t.Iterator[Problem]:
    for end, certificate, key in (
        ("", params["tls_cert"], params["tls_key"]),
        ("_content", params["tls_cert_content"], params["tls_key_content"]),
    ):
        if bool(certificate) != bool(key):
            yield problem(
                f"xrdp_tls_{'key' if certificate else 'cert'}{end}",
                "is missing: a certificate and its key belong together",
                "set both, or neither",
            )
    if params["tls_cert"] and params["tls_cert_content"]:
        yield problem("xrdp_tls_cert", "is set together with xrdp_tls_cert_content", "set one of them")
    for name, path in (("tls_cert", params["tls_cert"]), ("tls_key", params["tls_key"])):
        if path and (not path.startswith("/") or ini.problem("Globals", name, path)):
            yield problem(
                f"xrdp_{name}",
                "is not a path that xrdp can read",
                "use an absolute path without # or ; and without spaces at its ends",
            )
    for name in params["tls_names"]:
        try:
            alternative_name(name)
        except CertificateError as error:
            yield problem(
                "xrdp_tls_names", str(error).partition(". Set")[0], "list the host names and addresses that clients use"
            )
    if not params["tls_names"]:
        yield problem("xrdp_tls_names", "is empty", "list the host names and addresses that clients use")


def _environment_problems(params: Params) -> t.Iterator[Problem]:
    for name, value in params["session_env"].items():
        text = ini.problem("SessionVariables", name, value)
        if text or not VARIABLE.fullmatch(name):
            yield problem(
                "xrdp_session_env",
                text or f"has {name!r}, which is not the name of a variable",
                "use ~/.profile for what xrdp's file cannot hold",
            )


def _override_problems(variable: str, overrides: JsonObject) -> t.Iterator[Problem]:
    for section, options in overrides.items():
        if not isinstance(options, dict):
            yield problem(variable, f"has no options in {section}", "write {section: {option: value}}")
            continue
        for name, value in options.items():
            instead = OWN[variable].get(section.lower(), {}).get(name.lower())
            values = value if isinstance(value, list) else [value]
            text = f"sets {name} of {section}, which the role sets itself" if instead else ""
            text = text or next(filter(None, (ini.problem(section, name, entry) for entry in values)), "")
            if text:
                yield problem(
                    variable,
                    text,
                    f"use {instead}" if instead else "write a value that xrdp can read, see `man 5 xrdp.ini`",
                )


def texts(overrides: JsonObject) -> JsonObject:
    """Return options as xrdp writes them: `true` for a boolean, digits for a number."""

    def text(value: t.Any) -> t.Any:
        if isinstance(value, list):
            return [text(entry) for entry in value]
        return str(value).lower() if isinstance(value, bool) else str(value)

    return {
        section: {str(name): text(value) for name, value in options.items()} if isinstance(options, dict) else options
        for section, options in overrides.items()
    }
