# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What GNOME Remote Desktop's system daemon is told, what it is asked to be, and the commands between the two. Pure.

``grdctl`` says yes to what it does not keep: a certificate that is not there, a port above 65535. So requests are judged here, and what
was set is read back (:func:`differences`).
"""

from __future__ import annotations

import dataclasses
import re

ACCOUNT = "gnome-remote-desktop"

# Where grdctl keeps settings, and below the account's home, where GNOME's dialog does, whose words go first.
CONFIGURATION = "/etc/gnome-remote-desktop/grd.conf"
STATE = ".local/share/gnome-remote-desktop/grd.conf"
# As a daemon that was never told anything.
DEFAULT_PORT = 3389

# grdctl prints this for what is not set, and a user or a password of these letters alike.
NOT_SET = "(null)"

COLOUR = re.compile("\x1b\\[[0-9;]*m")
# A password is one line on stdin; what cannot be typed at a client's prompt is a mistake.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f\u0085\u2028\u2029]")

# What a session of GDM's remote login is in logind. A login over ssh is remote as well, and has a terminal.
GRAPHICAL = ("wayland", "x11")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the daemon is told. In a request None leaves a setting as it is; as found, None is not set."""

    enabled: bool | None = None
    port: int | None = None
    certificate: str | None = None
    key: str | None = None
    user: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)


@dataclasses.dataclass(frozen=True)
class Command:
    """Words for grdctl, what it reads, and what they are for. What it reads is a secret."""

    change: str
    words: tuple[str, ...]
    data: str | None = dataclasses.field(default=None, repr=False)


def parse_status(text: str) -> Settings:
    """The answer of ``grdctl status --show-credentials``, of which the part ``RDP:`` is ours.

    :raises ValueError: it does not say what the daemon is told.
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
        raise ValueError("it does not say whether RDP is enabled, and at which port")
    known = {name: None if value == NOT_SET else value for name, value in found.items()}
    return Settings(
        enabled=found["Status"] == "enabled",
        port=int(found["Port"]),
        certificate=known.get("TLS certificate"),
        key=known.get("TLS key"),
        user=known.get("Username"),
        password=known.get("Password"),
    )


def parse_sessions(text: str) -> list[str]:
    """The users with a session of GDM's remote login, from ``loginctl show-session ID ...``."""
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


def find_faults(wanted: Settings) -> list[str]:
    """What is wrong with a request, with what to do about it; never the password."""
    faults = []
    if wanted.port is not None and not 0 < wanted.port < 65536:
        faults.append(f"`port` is {wanted.port}, which is no port: set it to a number from 1 to 65535")
    for name in ("certificate", "key"):
        path = getattr(wanted, name)
        if path is not None and not path.startswith("/"):
            faults.append(f"`{name}` is {path}, which is no absolute path: begin it with /")
    for name in ("user", "password"):
        value = getattr(wanted, name)
        if value is None:
            continue
        if not value:
            faults.append(f"`{name}` is empty: set one")
        elif UNPRINTABLE.search(value):
            faults.append(f"`{name}` has a line break or another character that cannot be typed: leave it out")
        elif value == NOT_SET:
            faults.append(f"`{name}` is {NOT_SET}, which grdctl prints for none at all: choose another")
    if (wanted.user is None) != (wanted.password is None):
        faults.append("`user` and `password` belong together: set both")
    return faults


def differences(found: Settings, wanted: Settings) -> list[str]:
    """The settings that are not as wanted, by name."""
    names = [field.name for field in dataclasses.fields(Settings)]
    return [name for name in names if getattr(wanted, name) not in (None, getattr(found, name))]


def plan(found: Settings, wanted: Settings) -> list[Command]:
    """What makes the daemon's settings as wanted. It is enabled last, with all that it needs, and disabled first."""
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
        # Only the password is read: with both, grdctl 48 reads the first into its buffer whole, finds none for the second, and crashes.
        what = f"credential of {wanted.user}" + ("" if "user" in differ else ": another password")
        commands.append(Command(what, ("rdp", "set-credentials", str(wanted.user)), f"{wanted.password}\n"))
    if "enabled" in differ and wanted.enabled:
        commands.append(Command("RDP enabled", ("rdp", "enable")))
    return commands


def defaults() -> Settings:
    return Settings(enabled=False, port=DEFAULT_PORT)


def is_told(found: Settings) -> bool:
    """Whether anything is kept beside the credential and the switch."""
    return dataclasses.replace(found, enabled=False, user=None, password=None) != defaults()


def plan_absent(found: Settings) -> list[Command]:
    """What keeps everybody out and leaves no secret. grdctl cannot forget the rest: that is done by removing its files."""
    commands = []
    if found.enabled:
        commands.append(Command("RDP disabled", ("rdp", "disable")))
    if found.user is not None or found.password is not None:
        commands.append(Command("credential cleared", ("rdp", "clear-credentials")))
    return commands


def as_account(home: str, *words: str) -> list[str]:
    """A command of the daemon's account.

    Not ``grdctl --system``: that does the same through pkexec, which need not be installed, writes the arguments into the journal, and
    ends with 0 also when grdctl has failed. The environment is the account's alone, as XDG_DATA_HOME would lead elsewhere.
    """
    environment = [f"HOME={home}", "LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin"]
    return ["runuser", "-u", ACCOUNT, "--", "env", "-i", *environment, *words]


def shown(settings: Settings) -> str:
    """Settings as lines for a diff, without the password."""
    fields = dataclasses.asdict(settings)
    fields["password"] = None if settings.password is None else "(not shown)"
    return "".join(f"{name}: {value}\n" for name, value in fields.items() if value is not None)
