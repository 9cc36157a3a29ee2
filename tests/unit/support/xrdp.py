# SPDX-License-Identifier: GPL-3.0-or-later
"""A request for a remote desktop and the facts of hosts, for the tests of the plan, its checks and its findings."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.plan import (
    SESMAN_INI,
    XRDP_INI,
    Facts,
    Session,
)

FIXTURES = Path(__file__).parents[1] / "fixtures/xrdp"

PACKAGED = {
    name: {
        XRDP_INI: (FIXTURES / f"{name}-xrdp.ini").read_text(),
        SESMAN_INI: (FIXTURES / f"{name}-sesman.ini").read_text(),
    }
    for name in ("debian12", "debian13")
}

DESKTOPS = {
    "xfce": {"packages": ["xfce4", "xfce4-terminal"], "command": "startxfce4"},
    "gnome": {"packages": ["gnome-shell"], "command": "gnome-session"},
}

REQUEST: Any = {
    "state": "present",
    "backend": "auto",
    "desktop": "auto",
    "desktops": DESKTOPS,
    "gnome_x11": True,
    "gnome_environment": {"XDG_CURRENT_DESKTOP": "GNOME"},
    "packages": ["xrdp", "xorgxrdp"],
    "port": 3389,
    "networks": [],
    "users": ["alice"],
    "allowed_group": "xrdp-users",
    "tls_cert": "",
    "tls_key": "",
    "tls_cert_content": "",
    "tls_key_content": "",
    "tls_names": ["ws.example.org", "192.0.2.1"],
    "max_sessions": 10,
    "max_login_retry": 4,
    "kill_disconnected": False,
    "disconnected_timeout": 0,
    "idle_timeout": 0,
    "clipboard_in": True,
    "clipboard_out": True,
    "drive_redirection": False,
    "sound": True,
    "session_env": {},
    "ini_overrides": {},
    "fail2ban_bantime": "1h",
    "fail2ban_findtime": "10m",
    "fail2ban_maxretry": 5,
    "fail2ban_ignoreip": [],
    "sesman_overrides": {},
    "allow_disruption": False,
}

FRESH = Facts(users={"alice": "set"})

XFCE = Facts(x_sessions=["xfce"], manager="xfce4-session", users={"alice": "set"}, members=["alice"])

GNOME_X11 = Facts(packages={"gnome-shell": "48.4"}, x_sessions=["gnome-xorg"], manager="gnome-session")

GNOME_49 = Facts(packages={"gnome-shell": "50.1"}, wayland_sessions=["gnome"], manager="gnome-session")

BOTH = Facts(packages={"gnome-shell": "50.1"}, x_sessions=["xfce"], manager="xfce4-session")

OPEN = dataclasses.replace(XFCE, sessions=[Session("alice"), Session("bob", lost=True)], running=True, managed=True)


def request(**changes: Any) -> Any:
    """Return the request with changes."""
    return {**REQUEST, **changes}
