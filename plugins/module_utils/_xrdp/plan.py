# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which desktop is served over RDP on a host and by which program, what xrdp is to be told, and what speaks against it.

Pure: the module xrdp_plan reads the host and hands in what it saw.
"""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import ini, request
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.request import Fault, Params, fault

XRDP_INI = "/etc/xrdp/xrdp.ini"
SESMAN_INI = "/etc/xrdp/sesman.ini"
STARTWM = "/etc/xrdp/rigwright-startwm.sh"
RECORD = "/var/lib/rigwright_xrdp/record.json"
TLS = "/etc/xrdp/tls"
UNIT_FILES = "/etc/systemd/system"
DROP_IN = f"{UNIT_FILES}/xrdp.service.d/rigwright.conf"
SESMAN_DROP_IN = f"{UNIT_FILES}/xrdp-sesman.service.d/rigwright.conf"

# Session types in which the one who logs in names the host that xrdp connects to: an open relay into the network.
RELAYS = ("neutrinordp-any", "vnc-any", "sesman-any")
# What xrdp reads once, when it starts; the rest of its file it reads anew for each connection.
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
    """The user's own certificate: ``problem`` is why it cannot serve, ``days`` how long it is good."""

    problem: str = ""
    days: int = 0
    names: t.Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Session:
    """A desktop of a user; ``lost`` is one that nobody can reach any more, since its session manager was restarted."""

    user: str
    lost: bool = False


@dataclasses.dataclass(frozen=True)
class Seen:
    """What was read on the host.

    ``packages`` are installed, by version. ``packaged`` are xrdp's files as its package brought them, empty where there is none.
    ``users`` tells of those who are named or in the group what their password is: ``set``, ``none``, ``empty``, ``root`` (a user with
    root's number) or ``missing``. ``members`` is None without the group; ``primary_members`` have it as their own, and are let in as well.
    ``x_sessions`` and ``wayland_sessions`` are the names of the
    files by which display managers offer desktops, ``manager`` the program that x-session-manager is. ``console`` are users with a
    graphical session at the machine itself, ``running`` tells of xrdp-sesman. ``record`` is what an earlier run noted, ``managed``
    whether one has left anything here.
    """

    packages: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    packaged: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
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
    record: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    managed: bool = False
    auth_log: bool = True
    check_mode: bool = False


@dataclasses.dataclass(frozen=True)
class Decision:
    """``desktop`` is the one that is served (``host``: whichever X11 desktop the host has), ``reason`` why this backend serves it."""

    backend: str
    desktop: str
    gnome: bool
    reason: str


# --- What is served ---


def decide(params: Params, seen: Seen) -> Decision:
    """Which desktop and which program. GNOME 49 and later has no X11 session, which is all that xrdp can show."""
    desktop = params["desktop"]
    if desktop == "auto":
        desktop = "host" if _has_x11_desktop(seen) else "gnome" if _has_gnome(seen) else "xfce"
    gnome = desktop == "gnome" or (desktop == "host" and seen.manager == "gnome-session")
    by_desktop = "gnome" if gnome and not gnome_has_x11(params, seen) else "xrdp"
    backend = by_desktop if params["backend"] == "auto" else params["backend"]
    reason = "remote_desktop_backend asks for it"
    if params["backend"] == "auto":
        reason = "GNOME has no X11 session here" if backend == "gnome" else f"{_named(desktop)} runs on X11"
    return Decision(backend, desktop, gnome, reason)


def _named(desktop: str) -> str:
    return {"host": "the desktop of this host", "gnome": "GNOME", "xfce": "Xfce"}.get(desktop, desktop)


def _has_gnome(seen: Seen) -> bool:
    return "gnome-shell" in seen.packages


def _gnome_x11_files(seen: Seen) -> list[str]:
    return [name for name in seen.x_sessions if name.startswith(("gnome", "ubuntu"))]


def _has_x11_desktop(seen: Seen) -> bool:
    """A desktop or window manager that starts on X11. GNOME's package names itself the session manager without one, too."""
    others = [name for name in seen.x_sessions if name not in _gnome_x11_files(seen)]
    return bool(others or _gnome_x11_files(seen) or seen.manager not in ("", "gnome-session"))


def gnome_has_x11(params: Params, seen: Seen) -> bool:
    """As installed; where GNOME is not installed yet, as the release has it."""
    return bool(_gnome_x11_files(seen)) if _has_gnome(seen) else t.cast(bool, params["gnome_x11"])


def command(params: Params, decision: Decision) -> str:
    """What starts the desktop, empty for what the host starts by itself: that is also the one that was just installed on a bare host."""
    if params["desktop"] == "auto":
        return ""
    return t.cast(str, params["desktops"].get(decision.desktop, {}).get("command", ""))


def missing_packages(params: Params, seen: Seen, decision: Decision) -> list[str]:
    if decision.backend != "xrdp":
        return []
    wanted = [*params["packages"], *params["desktops"].get(decision.desktop, {}).get("packages", [])]
    return [package for package in dict.fromkeys(wanted) if package not in seen.packages]


# --- What xrdp is told ---


def certificate_paths(params: Params) -> tuple[str, str]:
    """Where the certificate and its key lie."""
    if params["tls_cert"]:
        return params["tls_cert"], params["tls_key"]
    name = "own" if params["tls_cert_content"] else "server"
    return f"{TLS}/{name}.crt", f"{TLS}/{name}.key"


def xrdp_settings(params: Params) -> dict[str, dict[str, str]]:
    """Beside these, what the package says holds."""
    certificate, key = certificate_paths(params)
    clipboard = params["clipboard_in"] or params["clipboard_out"]
    return {
        "Globals": {
            # Alone it is every address, of IPv4 and IPv6.
            "port": str(params["port"]) if params["networks"] else f"tcp://127.0.0.1:{params['port']}",
            "fork": "true",
            "use_vsock": "false",
            # `negotiate` falls back to RDP's own security when the key cannot be read, and every login still works.
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


def sesman_settings(params: Params, seen: Seen, decision: Decision) -> dict[str, dict[str, str]]:
    packaged = seen.packaged.get(SESMAN_INI, "")
    settings: dict[str, dict[str, str]] = {
        "Globals": {},
        "Security": {
            "AllowRootLogin": "false",
            "MaxLoginRetry": str(params["max_login_retry"]),
            "TerminalServerUsers": params["allowed_group"],
            # Without a group that is there, every user may list and end the sessions of all.
            "TerminalServerAdmins": "root",
            "AlwaysGroupCheck": "true",
            # Older versions know only these words, newer ones take them for `all` and `none`.
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
    # 0.9 listens for xrdp on a TCP port; 0.10 has a socket and warns of the option.
    if "listenaddress" in ini.sections(packaged).get("globals", {}):
        settings["Globals"]["ListenAddress"] = "127.0.0.1"
    if command(params, decision):
        settings["Globals"]["DefaultWindowManager"] = STARTWM
    # From 0.10 on the sockets of sessions belong to root's group, which xrdp as a user of its own is not in.
    if "SessionSockdirGroup" in packaged:
        settings["Security"]["SessionSockdirGroup"] = "xrdp"
    return {section: options for section, options in settings.items() if options}


def session_environment(params: Params, decision: Decision) -> dict[str, str]:
    """Variables of every session, whatever shell its user has."""
    return {**(params["gnome_environment"] if decision.gnome else {}), **params["session_env"]}


def _bool(value: bool) -> str:
    return "true" if value else "false"


def xrdp_ini(params: Params, seen: Seen) -> str:
    text = ini.merge(seen.packaged.get(XRDP_INI, ""), xrdp_settings(params), RELAYS)
    return _introduced(ini.merge(text, params["ini_overrides"]))


def sesman_ini(params: Params, seen: Seen, decision: Decision) -> str:
    text = ini.merge(seen.packaged.get(SESMAN_INI, ""), sesman_settings(params, seen, decision))
    return _introduced(ini.merge(text, params["sesman_overrides"]))


def _introduced(text: str) -> str:
    return f"; Managed by Ansible: the file of the package with the settings of the role xrdp.\n\n{text}"


def listener(text: str) -> list[str]:
    """What a xrdp.ini says that holds only from the next start on."""
    found = ini.sections(text)
    options = {name: found["globals"][name] for name in AT_START if name in found.get("globals", {})}
    logging = {**found.get("logging", {}), **found.get("loggingperlogger", {})}
    return [f"{name}={value}" for name, values in {**options, **logging}.items() for value in values]


# --- What is written ---


def files(params: Params, seen: Seen, decision: Decision) -> list[dict[str, t.Any]]:
    """The files that are no templates, but for a key, which passes nobody else."""
    if decision.backend != "xrdp":
        return []
    return [
        {"path": XRDP_INI, "content": xrdp_ini(params, seen)},
        {"path": SESMAN_INI, "content": sesman_ini(params, seen, decision)},
        {"path": RECORD, "content": json.dumps(record(params, seen), sort_keys=True) + "\n"},
    ]


def record(params: Params, seen: Seen) -> dict[str, t.Any]:
    """What `absent` has to undo beside files. It is on disk before the group is."""
    earlier = seen.record if seen.record.get("group") == params["allowed_group"] else {}
    before = [name for name in seen.members or () if name not in earlier.get("added", ())]
    return {
        "group": params["allowed_group"],
        "made": bool(earlier.get("made")) or seen.members is None,
        "added": sorted(name for name in params["users"] if name not in before),
    }


def groups(params: Params, seen: Seen) -> list[dict[str, t.Any]]:
    """What group_members has to do; nothing when the group is as it should be."""
    found = []
    former = seen.record.get("group")
    if former and (params["state"] == "absent" or former != params["allowed_group"]):
        found += _left(seen)
    if params["state"] == "absent":
        return found
    added = seen.record.get("added", ()) if former == params["allowed_group"] else ()
    kept = [name for name in seen.members or () if name not in added or name in params["users"]]
    wanted = sorted({*kept, *params["users"]})
    if seen.members is None or wanted != sorted(seen.members):
        found.append({"name": params["allowed_group"], "system": True, "members": wanted, "append": False})
    return found


def _left(seen: Seen) -> list[dict[str, t.Any]]:
    """What a group is again when it is no longer the one that may log in."""
    if seen.former_members is None:
        return []
    name, added = seen.record["group"], seen.record["added"]
    others = sorted(member for member in seen.former_members if member not in added)
    if seen.record["made"] and not others:
        return [{"name": name, "state": "absent"}]
    if others != sorted(seen.former_members):
        return [{"name": name, "members": others, "append": False}]
    return []


def open_sessions(seen: Seen) -> list[str]:
    return sorted({session.user for session in seen.sessions if not session.lost})


def units(params: Params, seen: Seen, decision: Decision) -> list[dict[str, t.Any]]:
    """xrdp's units as systemd_units takes them. One is bound to the other: a restart of xrdp ends what sesman holds."""
    if params["state"] == "absent" or decision.backend != "xrdp":
        # An xrdp that the role never managed is not its to stop.
        if not seen.managed:
            return []
        return [
            {"name": name, "state": "stopped", "enabled": False} for name in ("xrdp.service", "xrdp-sesman.service")
        ]
    sesman = {"name": "xrdp-sesman.service", "enabled": True, "reload_on": [SESMAN_INI]}
    xrdp = {
        "name": "xrdp.service",
        "enabled": True,
        "restart_on": [DROP_IN, "/usr/sbin/xrdp", "/usr/sbin/xrdp-sesman"],
        "may_restart": params["allow_disruption"] or not open_sessions(seen),
    }
    # A running sesman is reloaded before a restart makes another one, which would not be ready for the signal. One that is started
    # alone is stopped again at once, as unneeded, until xrdp is up.
    return [sesman, xrdp] if seen.running else [xrdp, sesman]


# --- What speaks against it, and what is left to do ---


def requirements(params: Params, seen: Seen, decision: Decision) -> list[Fault]:
    if params["state"] == "absent":
        return _absence_faults(params, seen)
    return [
        *request.faults(params),
        *_backend_faults(params, seen, decision),
        *_user_faults(params, seen),
        *_certificate_faults(params, seen),
        *_clipboard_faults(params, seen),
    ]


def gnome_requirements(params: Params, seen: Seen) -> list[Fault]:
    """Those that count as well where GNOME serves its own desktop."""
    return [*request.faults(params), *_certificate_faults(params, seen)]


def _absence_faults(params: Params, seen: Seen) -> list[Fault]:
    if not (seen.managed and open_sessions(seen)) or params["allow_disruption"]:
        return []
    return [
        fault(
            "xrdp_state",
            f"is absent, and would end the desktop of {', '.join(open_sessions(seen))}",
            "run again when nobody is logged in, or set xrdp_allow_disruption: true",
        )
    ]


def _backend_faults(params: Params, seen: Seen, decision: Decision) -> t.Iterator[Fault]:
    if decision.backend == "xrdp" and decision.gnome and not gnome_has_x11(params, seen):
        yield fault(
            "remote_desktop_backend",
            "is xrdp, and the desktop is GNOME, which has no X11 session on this release: xrdp would close right after the login",
            "leave it at auto, which takes GNOME's own remote desktop, or set xrdp_desktop: xfce",
        )
    if decision.backend == "xrdp" and decision.desktop == "host" and not _has_x11_desktop(seen) and not decision.gnome:
        yield fault(
            "xrdp_desktop",
            "is host, and this host has no desktop that runs on X11",
            "leave it at auto, or set it to xfce, which is installed then",
        )


def _user_faults(params: Params, seen: Seen) -> t.Iterator[Fault]:
    named = {kind: sorted(name for name in seen.users if seen.users[name] == kind) for kind in ("empty", "root")}
    missing = sorted(name for name in params["users"] if seen.users.get(name) == "missing")
    # In check mode an earlier task may be about to make them.
    if missing and not seen.check_mode:
        yield fault(
            "xrdp_users", f"names no user of this host: {', '.join(missing)}", "make them first, or correct the name"
        )
    joining = sorted({*params["users"]} - {*(seen.members or ()), *seen.primary_members})
    if joining and params["allowed_group"] in request.GRANTING:
        yield fault(
            "xrdp_allowed_group",
            f"is {params['allowed_group']}, which would give {', '.join(joining)} more than a desktop",
            "name a group of its own, such as xrdp-users, or leave xrdp_users empty: its members may log in anyway",
        )
    if named["root"]:
        yield fault(
            "xrdp_users",
            f"would let in who is root: {', '.join(named['root'])}",
            f"name users with a number of their own, and take root out of the group {params['allowed_group']}",
        )
    if named["empty"]:
        yield fault(
            "xrdp_users",
            f"would let in without a password: {', '.join(named['empty'])} has an empty one",
            "give each a password with `passwd`, or lock it with `passwd --lock`",
        )


def _certificate_faults(params: Params, seen: Seen) -> t.Iterator[Fault]:
    if seen.certificate and seen.certificate.problem:
        yield fault(
            "xrdp_tls_cert_content" if params["tls_cert_content"] else "xrdp_tls_cert",
            seen.certificate.problem,
            "bring a certificate and its key that fit, or leave both empty to have them made",
        )


def _clipboard_faults(params: Params, seen: Seen) -> t.Iterator[Fault]:
    one_way = params["clipboard_out"] and not params["clipboard_in"]
    packaged = seen.packaged.get(SESMAN_INI)
    if one_way and packaged and "RestrictInboundClipboard" not in packaged:
        yield fault(
            "xrdp_clipboard_in",
            "is false, which this version of xrdp knows only together with the other direction",
            "set xrdp_clipboard_out: false as well, which takes the clipboard away",
        )


def findings(params: Params, seen: Seen, decision: Decision) -> list[dict[str, str]]:
    """What is left to do, as the action ``finding`` takes it."""
    found = [
        _finding("backend", "pass", f"{decision.backend}: {decision.reason}"),
        _user_finding(params, seen),
        _console_finding(params, seen),
        _lost_finding(seen),
    ]
    if seen.certificate:
        found.append(_certificate_finding(params, seen.certificate))
    return found


def gnome_findings(params: Params, seen: Seen, decision: Decision) -> list[dict[str, str]]:
    """Those that count as well where GNOME serves its own desktop."""
    found = [_finding("backend", "pass", f"{decision.backend}: {decision.reason}")]
    return found + ([_certificate_finding(params, seen.certificate)] if seen.certificate else [])


def _finding(name: str, status: str, evidence: str, remedy: str = "") -> dict[str, str]:
    return {"id": f"xrdp.{name}", "status": status, "evidence": evidence, "remedy": remedy}


def allowed(params: Params, seen: Seen) -> list[str]:
    """Who is in the group when the role has done its work."""
    changed = {group["name"]: group for group in groups(params, seen)}.get(params["allowed_group"])
    listed = changed.get("members", ()) if changed else seen.members or ()
    return sorted({*listed, *seen.primary_members})


def _user_finding(params: Params, seen: Seen) -> dict[str, str]:
    names = allowed(params, seen)
    locked = [name for name in names if seen.users.get(name) in ("none", "missing")]
    if not names:
        evidence, remedy = (
            "nobody may log in",
            f"name users in xrdp_users, or put them in the group {params['allowed_group']}",
        )
    elif locked:
        evidence, remedy = (
            f"cannot log in without a password: {', '.join(locked)}",
            "set one with `passwd`; RDP knows no keys",
        )
    else:
        return _finding("users", "pass", f"may log in: {', '.join(names)}")
    return _finding("users", "warn", evidence, remedy)


def _console_finding(params: Params, seen: Seen) -> dict[str, str]:
    both = sorted({*seen.console} & {*allowed(params, seen)})
    if not both:
        return _finding("console", "pass", "nobody who may log in by RDP sits at a desktop of the machine itself")
    return _finding(
        "console",
        "warn",
        f"{', '.join(both)} is logged in at the machine itself: a user has one graphical session, a second one stays black or closes",
        "log out there first, or use another account for RDP",
    )


def _lost_finding(seen: Seen) -> dict[str, str]:
    lost = sorted({session.user for session in seen.sessions if session.lost})
    if not lost:
        return _finding("lost", "pass", "every desktop can be reached")
    return _finding(
        "lost",
        "warn",
        f"the desktop of {', '.join(lost)} runs on, and nobody can reach it: xrdp-sesman was restarted meanwhile",
        "`loginctl terminate-user NAME` ends it with all that runs in it",
    )


def _certificate_finding(params: Params, certificate: Certificate) -> dict[str, str]:
    wanted = {
        f"{'IP' if name.replace('.', '').isdigit() or ':' in name else 'DNS'}:{name.lower()}"
        for name in params["tls_names"]
    }
    if certificate.days < request.RENEW_DAYS:
        return _finding("certificate", "warn", f"ends in {certificate.days} days", "bring another one in time")
    if not wanted & {*certificate.names}:
        return _finding(
            "certificate",
            "warn",
            f"is for {', '.join(certificate.names) or 'no name'}, and clients know this host as {', '.join(params['tls_names'])}",
            "bring one with that name, or set xrdp_tls_names to what clients use",
        )
    return _finding("certificate", "pass", f"good for {certificate.days} days")
