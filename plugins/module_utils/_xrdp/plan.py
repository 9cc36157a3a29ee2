# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide the desktop and its RDP server, and the files, group and units of xrdp. Pure."""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import FileRow, UnitRow
from ansible_collections.rigwright.workstation.plugins.module_utils._system.groups import GroupRow
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import ini
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.request import Params

XRDP_INI = "/etc/xrdp/xrdp.ini"
SESMAN_INI = "/etc/xrdp/sesman.ini"
STARTWM = "/etc/xrdp/rigwright-startwm.sh"
RECORD = "/var/lib/rigwright_xrdp/record.json"
JAIL = "/etc/fail2ban/jail.d/rigwright-xrdp.local"
TLS = "/etc/xrdp/tls"
UNIT_FILES = "/etc/systemd/system"
DROP_IN = f"{UNIT_FILES}/xrdp.service.d/rigwright.conf"
SESMAN_DROP_IN = f"{UNIT_FILES}/xrdp-sesman.service.d/rigwright.conf"

# Session types in which the user names the host that xrdp connects to: an open relay into the network.
RELAYS = ("neutrinordp-any", "vnc-any", "sesman-any")
# Options that xrdp reads only when it starts; it reads the rest of the file again for each connection.
AT_START = (
    "port",
    "fork",
    "use_vsock",
    "tcp_nodelay",
    "tcp_keepalive",
    "tcp_send_buffer_bytes",
    "tcp_recv_buffer_bytes",
    "runtime_user",
    "runtime_group",
)


@dataclasses.dataclass(frozen=True)
class Certificate:
    """The user's own certificate. ``problem``: why it cannot be used. ``days``: how long it is still valid."""

    problem: str = ""
    days: int = 0
    names: t.Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Session:
    """A desktop of a user. ``lost``: nobody can reconnect to it, because its session manager was restarted."""

    user: str
    lost: bool = False


class Record(t.TypedDict):
    """What `absent` has to undo in addition to files: the group of the users, whether the role made it, and whom it added."""

    group: str
    made: bool  # kept: a key of the file on hosts
    added: list[str]


@dataclasses.dataclass(frozen=True)
class Facts:
    """Facts of the host.

    ``packages``: versions of the installed packages. ``packaged``: xrdp's files as its package installed them, empty without them.
    ``edited``: those files as users had edited them before the role, empty where nobody had.
    ``users``: the password of each requested user or member: ``set``, ``none``, ``empty``, ``root`` (uid 0) or ``missing``.
    ``members``: None without the group. ``primary_members``: users whose primary group it is; xrdp lets them in as well.
    ``x_sessions``, ``wayland_sessions``: names of the files by which display managers offer desktops. ``manager``: the program behind
    x-session-manager. ``console``: users with a graphical session at the machine itself. ``running``: whether xrdp-sesman runs.
    ``record``: the record of an earlier run. ``managed``: whether an earlier run has left files.
    """

    packages: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    packaged: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    edited: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    users: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    members: t.Sequence[str] | None = None
    primary_members: t.Sequence[str] = ()
    former_members: t.Sequence[str] | None = None
    x_sessions: t.Collection[str] = ()
    wayland_sessions: t.Collection[str] = ()
    manager: str = ""
    sessions: t.Sequence[Session] = ()
    running: bool = False
    console: t.Collection[str] = ()
    certificate: Certificate | None = None
    record: Record | None = None
    managed: bool = False
    auth_log: bool = True
    check_mode: bool = False


@dataclasses.dataclass(frozen=True)
class Decision:
    """The served desktop. ``desktop``: its name, ``host`` for the host's own X11 desktop. ``reason``: why this backend serves it."""

    backend: str
    desktop: str
    gnome: bool
    reason: str


# --- The served desktop ---


def decide(params: Params, facts: Facts) -> Decision:
    """Decide the desktop and its RDP server. xrdp needs an X11 session, which GNOME has no longer since 49."""
    desktop = params["desktop"]
    if desktop == "auto":
        desktop = "host" if has_x11_desktop(facts) else "gnome" if _has_gnome(facts) else "xfce"
    gnome = desktop == "gnome" or (desktop == "host" and facts.manager == "gnome-session")
    by_desktop = "gnome" if gnome and not gnome_has_x11(params, facts) else "xrdp"
    backend = by_desktop if params["backend"] == "auto" else params["backend"]
    reason = "remote_desktop_backend sets it"
    if params["backend"] == "auto":
        reason = "GNOME has no X11 session here" if backend == "gnome" else f"{_named(desktop)} runs on X11"
    return Decision(backend, desktop, gnome, reason)


def _named(desktop: str) -> str:
    return {"host": "the desktop of this host", "gnome": "GNOME", "xfce": "Xfce"}.get(desktop, desktop)


def _has_gnome(facts: Facts) -> bool:
    return "gnome-shell" in facts.packages


def _gnome_x11_files(facts: Facts) -> list[str]:
    return [name for name in facts.x_sessions if name.startswith(("gnome", "ubuntu"))]


def has_x11_desktop(facts: Facts) -> bool:
    """Return whether a desktop or window manager starts on X11. GNOME is the session manager even without an X11 session."""
    others = [name for name in facts.x_sessions if name not in _gnome_x11_files(facts)]
    return bool(others or _gnome_x11_files(facts) or facts.manager not in ("", "gnome-session"))


def gnome_has_x11(params: Params, facts: Facts) -> bool:
    """Return whether GNOME has an X11 session: the installed one, or else the one of the release."""
    return bool(_gnome_x11_files(facts)) if _has_gnome(facts) else params["gnome_x11"]


def command(params: Params, decision: Decision) -> str:
    """Return the command that starts the desktop, empty for the host's own: also the one that the role installs on a bare host."""
    if params["desktop"] == "auto":
        return ""
    desktop = params["desktops"].get(decision.desktop)
    return desktop["command"] if desktop else ""


def missing_packages(params: Params, facts: Facts, decision: Decision) -> list[str]:
    if decision.backend != "xrdp":
        return []
    desktop = params["desktops"].get(decision.desktop)
    wanted = [*params["packages"], *(desktop["packages"] if desktop else [])]
    return [package for package in dict.fromkeys(wanted) if package not in facts.packages]


# --- The files of xrdp ---


def certificate_paths(params: Params) -> tuple[str, str]:
    """Return the paths of the certificate and its key."""
    if params["tls_cert"]:
        return params["tls_cert"], params["tls_key"]
    name = "own" if params["tls_cert_content"] else "server"
    return f"{TLS}/{name}.crt", f"{TLS}/{name}.key"


def xrdp_settings(params: Params, facts: Facts) -> dict[str, dict[str, str]]:
    """Return the role's settings for xrdp.ini; for all other options, the package's values stay."""
    certificate, key = certificate_paths(params)
    clipboard = params["clipboard_in"] or params["clipboard_out"]
    settings = {
        "Globals": {
            # A port alone means every address of IPv4 and IPv6.
            "port": str(params["port"]) if params["networks"] else f"tcp://127.0.0.1:{params['port']}",
            "fork": "true",
            "use_vsock": "false",
            # With `negotiate`, xrdp silently uses RDP's own security when it cannot read the key.
            "security_layer": "tls",
            "ssl_protocols": "TLSv1.2, TLSv1.3",
            "certificate": certificate,
            "key_file": key,
        },
        "Channels": {
            "cliprdr": _bool(clipboard),
            "rdpdr": _bool(params["drive_redirection"]),
            "rdpsnd": _bool(params["sound"]),
        },
    }
    # For a port that Hyper-V alone reaches, and checks (0.10.5): xrdp claims abilities there that it does not have.
    if "vmconnect" in ini.sections(facts.packaged.get(XRDP_INI, "")).get("globals", {}):
        settings["Globals"]["vmconnect"] = "false"
    return settings


def sesman_settings(params: Params, facts: Facts, decision: Decision) -> dict[str, dict[str, str]]:
    packaged = facts.packaged.get(SESMAN_INI, "")
    settings: dict[str, dict[str, str]] = {
        "Globals": {},
        "Security": {
            "AllowRootLogin": "false",
            "MaxLoginRetry": str(params["max_login_retry"]),
            "TerminalServerUsers": params["allowed_group"],
            # Without an existing group, every user can list and end all sessions.
            "TerminalServerAdmins": "root",
            "AlwaysGroupCheck": "true",
            # Older versions know only true and false; newer ones read them as `all` and `none`.
            "RestrictOutboundClipboard": _bool(not params["clipboard_out"]),
            "RestrictInboundClipboard": _bool(not params["clipboard_in"]),
        },
        "Sessions": {
            "MaxSessions": str(params["max_sessions"]),
            "KillDisconnected": _bool(params["kill_disconnected"]),
            "DisconnectedTimeLimit": str(params["disconnected_timeout"]),
            "IdleTimeLimit": str(params["idle_timeout"]),
        },
        "Chansrv": {"EnableFuseMount": _bool(params["drive_redirection"]), "FileUmask": "077"},
        "SessionVariables": session_environment(params, decision),
    }
    # 0.9 listens for xrdp on a TCP port; 0.10 has a socket and warns about the option.
    if "listenaddress" in ini.sections(packaged).get("globals", {}):
        settings["Globals"]["ListenAddress"] = "127.0.0.1"
    if command(params, decision):
        settings["Globals"]["DefaultWindowManager"] = STARTWM
    # Since 0.10 the sockets of sessions belong to root's group, and xrdp's own user is not in it.
    if "SessionSockdirGroup" in packaged:
        settings["Security"]["SessionSockdirGroup"] = "xrdp"
    return {section: options for section, options in settings.items() if options}


def session_environment(params: Params, decision: Decision) -> dict[str, str]:
    """Return the variables of every session, independent of the user's shell."""
    return {**(params["gnome_environment"] if decision.gnome else {}), **params["session_env"]}


def _bool(value: bool) -> str:
    return "true" if value else "false"


def xrdp_ini(params: Params, facts: Facts) -> str:
    packaged = facts.packaged.get(XRDP_INI, "")
    text = ini.merge(packaged, xrdp_settings(params, facts), [*RELAYS, *relays(packaged)])
    return _introduced(ini.merge(text, params["ini_overrides"]))


def relays(text: str) -> list[str]:
    """Return the session types, of any name, in which the user names the host: `ip=ask`, with or without a default."""
    found = ini.sections(text)
    return [name for name in found if any(value.lower().startswith("ask") for value in found[name].get("ip", []))]


def sesman_ini(params: Params, facts: Facts, decision: Decision) -> str:
    text = ini.merge(facts.packaged.get(SESMAN_INI, ""), sesman_settings(params, facts, decision))
    return _introduced(ini.merge(text, params["sesman_overrides"]))


def _introduced(text: str) -> str:
    return f"; Managed by Ansible: the file of the package with the settings of the role xrdp.\n\n{text}"


def listener(text: str) -> list[str]:
    """Return the options of a xrdp.ini that take effect only at the next start."""
    found = ini.sections(text)
    options = {name: found["globals"][name] for name in AT_START if name in found.get("globals", {})}
    logging = {**found.get("logging", {}), **found.get("loggingperlogger", {})}
    return [f"{name}={value}" for name, values in {**options, **logging}.items() for value in values]


# --- Files, group and units ---


def files(params: Params, facts: Facts, decision: Decision) -> list[FileRow]:
    """Return the files without a template, except for the key, which the plan never returns."""
    if decision.backend != "xrdp":
        return []
    return [
        {"path": XRDP_INI, "content": xrdp_ini(params, facts)},
        {"path": SESMAN_INI, "content": sesman_ini(params, facts, decision)},
        {"path": RECORD, "content": json.dumps(record(params, facts), sort_keys=True) + "\n"},
    ]


def record(params: Params, facts: Facts) -> Record:
    """Return what `absent` has to undo in addition to files. It is on disk before the group is changed."""
    earlier = facts.record if facts.record and facts.record["group"] == params["allowed_group"] else None
    before = [name for name in facts.members or () if not earlier or name not in earlier["added"]]
    return {
        "group": params["allowed_group"],
        "made": (earlier is not None and earlier["made"]) or facts.members is None,
        "added": sorted(name for name in params["users"] if name not in before),
    }


def groups(params: Params, facts: Facts) -> list[GroupRow]:
    """Return what group_members has to do; empty when the group is right."""
    found: list[GroupRow] = []
    earlier = facts.record
    stays = earlier is not None and earlier["group"] == params["allowed_group"]
    if earlier and (params["state"] == "absent" or not stays):
        found += _former_group(earlier, facts)
    if params["state"] == "absent":
        return found
    added = earlier["added"] if earlier and stays else []
    kept = [name for name in facts.members or () if name not in added or name in params["users"]]
    wanted = sorted({*kept, *params["users"]})
    if facts.members is None or wanted != sorted(facts.members):
        found.append({"name": params["allowed_group"], "system": True, "members": wanted, "append": False})
    return found


def _former_group(earlier: Record, facts: Facts) -> list[GroupRow]:
    """Return how to restore a group that is no longer the one of the users who log in."""
    if facts.former_members is None:
        return []
    name, added = earlier["group"], earlier["added"]
    others = sorted(member for member in facts.former_members if member not in added)
    if earlier["made"] and not others:
        return [{"name": name, "state": "absent"}]
    if others != sorted(facts.former_members):
        return [{"name": name, "members": others, "append": False}]
    return []


def open_sessions(facts: Facts) -> list[str]:
    return sorted({session.user for session in facts.sessions if not session.lost})


def units(params: Params, facts: Facts, decision: Decision) -> list[UnitRow]:
    """Return xrdp's units as systemd_units takes them. They are bound to each other: a restart of xrdp ends the sessions of sesman."""
    if params["state"] == "absent" or decision.backend != "xrdp":
        # The role does not stop an xrdp that it never managed.
        if not facts.managed:
            return []
        return [
            {"name": name, "state": "stopped", "enabled": False} for name in ("xrdp.service", "xrdp-sesman.service")
        ]
    sesman: UnitRow = {"name": "xrdp-sesman.service", "enabled": True, "reload_on": [SESMAN_INI]}
    xrdp: UnitRow = {
        "name": "xrdp.service",
        "enabled": True,
        "restart_on": [DROP_IN, "/usr/sbin/xrdp", "/usr/sbin/xrdp-sesman"],
        "may_restart": params["allow_disruption"] or not open_sessions(facts),
    }
    # Reload a running sesman before xrdp restarts it: a new one is not ready for the signal. Start a stopped one after xrdp: systemd stops
    # it as unneeded while xrdp does not run.
    return [sesman, xrdp] if facts.running else [xrdp, sesman]


def allowed(params: Params, facts: Facts) -> list[str]:
    """Return the users in the group after the role has run."""
    changed = {group["name"]: group for group in groups(params, facts)}.get(params["allowed_group"])
    listed = changed.get("members", ()) if changed else facts.members or ()
    return sorted({*listed, *facts.primary_members})
