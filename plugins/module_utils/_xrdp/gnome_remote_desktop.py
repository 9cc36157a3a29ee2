# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of GNOME Remote Desktop's system daemon: as found, as requested, and the commands between the two. Pure.

``grdctl`` reports success for values that it does not keep, such as a missing certificate or a port above 65535. So requests are checked
here, and the settings are read back (:func:`differences`).
"""

from __future__ import annotations

import dataclasses
import re

from ansible_collections.rigwright.workstation.plugins.module_utils._core.locale import LOCALE

ACCOUNT = "gnome-remote-desktop"

# The settings of grdctl and, below the account's home, those of GNOME's dialog, which take precedence.
CONFIGURATION = "/etc/gnome-remote-desktop/grd.conf"
STATE = ".local/share/gnome-remote-desktop/grd.conf"
# The port of a daemon without settings.
DEFAULT_PORT = 3389

# grdctl prints this for a missing value, and also for a user or password with this text.
NOT_SET = "(null)"

COLOUR = re.compile("\x1b\\[[0-9;]*m")
# A password is one line on stdin. Characters that a user cannot type at a client's prompt are a mistake.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f\u0085\u2028\u2029]")

# The session types of GDM's remote login in logind. A login by ssh is remote as well and has a terminal.
GRAPHICAL = ("wayland", "x11")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the daemon. In a request, None keeps a setting; as found, None is a missing one."""

    enabled: bool | None = None
    port: int | None = None
    certificate: str | None = None
    key: str | None = None
    user: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)


@dataclasses.dataclass(frozen=True)
class Command:
    """A call of grdctl. ``change``: what it does. ``arguments``: its arguments. ``data``: its standard input, a secret."""

    change: str
    arguments: tuple[str, ...]
    data: str | None = dataclasses.field(default=None, repr=False)


def parse_status(text: str) -> Settings:
    """Parse the part ``RDP:`` in the output of ``grdctl status --show-credentials``.

    :raises ValueError: the settings are missing in it.
    """
    found: dict[str, str] = {}
    part = ""
    for line in COLOUR.sub("", text).replace("\r", "").split("\n"):
        if line and not line.startswith("\t"):
            part = line
        elif part == "RDP:":
            name, _colon, value = line.lstrip("\t").partition(": ")
            found[name] = value
    if not {"Status", "Port"} <= found.keys() or not found["Port"].isdecimal():
        raise ValueError("the state of RDP or its port is missing")
    values = {name: None if value == NOT_SET else value for name, value in found.items()}
    return Settings(
        enabled=found["Status"] == "enabled",
        port=int(found["Port"]),
        certificate=values.get("TLS certificate"),
        key=values.get("TLS key"),
        user=values.get("Username"),
        password=values.get("Password"),
    )


def parse_sessions(text: str) -> list[str]:
    """Return the users with a session of GDM's remote login, from ``loginctl show-session ID ...``."""
    users = set()
    for block in text.strip().split("\n\n"):
        session = dict(line.partition("=")[::2] for line in block.splitlines())
        if (
            session.get("Remote") == "yes"
            and session.get("Class") == "user"
            and session.get("Type") in GRAPHICAL
            and session.get("Service", "").startswith("gdm-")
        ):
            users.add(session["Name"])
    return sorted(users)


def find_problems(wanted: Settings) -> list[str]:
    """Return the problems of a request, each with a remedy and without the password."""
    problems = []
    if wanted.port is not None and not 0 < wanted.port < 65536:
        problems.append(f"`port` is {wanted.port}, which is not a port: set it to a number from 1 to 65535")
    for name in ("certificate", "key"):
        path = getattr(wanted, name)
        if path is not None and not path.startswith("/"):
            problems.append(f"`{name}` is {path}, which is not an absolute path: begin it with /")
    for name in ("user", "password"):
        value = getattr(wanted, name)
        if value is None:
            continue
        if not value:
            problems.append(f"`{name}` is empty: set one")
        elif UNPRINTABLE.search(value):
            problems.append(f"`{name}` has a line break or another character that cannot be typed: remove it")
        elif value == NOT_SET:
            problems.append(f"`{name}` is {NOT_SET}, which grdctl prints for a missing one: choose another")
    if (wanted.user is None) != (wanted.password is None):
        problems.append("`user` and `password` belong together: set both")
    return problems


def differences(found: Settings, wanted: Settings) -> list[str]:
    """Return the names of the settings that differ from the wanted ones."""
    names = [field.name for field in dataclasses.fields(Settings)]
    return [name for name in names if getattr(wanted, name) not in (None, getattr(found, name))]


def plan(found: Settings, wanted: Settings) -> list[Command]:
    """Return the commands that apply the wanted settings. The daemon is enabled last, and disabled first."""
    differ = differences(found, wanted)
    commands = []
    if "enabled" in differ and not wanted.enabled:
        commands.append(Command("RDP disabled", ("rdp", "disable")))
    if "port" in differ:
        commands.append(Command(f"port {wanted.port}", ("rdp", "set-port", str(wanted.port))))
    if "certificate" in differ:
        commands.append(Command(f"certificate {wanted.certificate}", ("rdp", "set-tls-cert", str(wanted.certificate))))
    if "key" in differ:
        commands.append(Command(f"key {wanted.key}", ("rdp", "set-tls-key", str(wanted.key))))
    if {"user", "password"} & set(differ):
        # Only the password goes to stdin: with both, grdctl 48 reads all of stdin for the first one and crashes at the second.
        change = f"credential of {wanted.user}" + ("" if "user" in differ else ": another password")
        commands.append(Command(change, ("rdp", "set-credentials", str(wanted.user)), f"{wanted.password}\n"))
    if "enabled" in differ and wanted.enabled:
        commands.append(Command("RDP enabled", ("rdp", "enable")))
    return commands


def defaults() -> Settings:
    return Settings(enabled=False, port=DEFAULT_PORT)


def has_settings(found: Settings) -> bool:
    """Return whether any setting exists except the credential and the switch."""
    return dataclasses.replace(found, enabled=False, user=None, password=None) != defaults()


def plan_absent(found: Settings) -> list[Command]:
    """Return the commands that disable RDP and clear the credential. grdctl cannot reset the rest: its files have to be removed."""
    commands = []
    if found.enabled:
        commands.append(Command("RDP disabled", ("rdp", "disable")))
    if found.user is not None or found.password is not None:
        commands.append(Command("credential cleared", ("rdp", "clear-credentials")))
    return commands


def as_account(home: str, *command: str) -> list[str]:
    """Return a command line that runs as the daemon's account.

    ``grdctl --system`` does the same through pkexec, which may not be installed, writes the arguments to the journal, and exits with 0
    even when grdctl fails. The environment is empty otherwise, because XDG_DATA_HOME would redirect grdctl.
    """
    environment = [f"HOME={home}", *(f"{name}={value}" for name, value in LOCALE.items()), "PATH=/usr/bin:/bin"]
    return ["runuser", "-u", ACCOUNT, "--", "env", "-i", *environment, *command]


def shown(settings: Settings) -> str:
    """Format settings as lines for a diff, without the password."""
    fields = dataclasses.asdict(settings)
    fields["password"] = None if settings.password is None else "(not shown)"
    return "".join(f"{name}: {value}\n" for name, value in fields.items() if value is not None)
