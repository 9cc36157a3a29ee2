# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What systemd units are, what their files have become since they were loaded, and what has to be done about it.

Note: private to this collection. No Ansible import, so that all of it is tested as plain Python.
"""

from __future__ import annotations

import calendar
import dataclasses
import hashlib
import os
import re
import typing as t

PROPERTIES = (
    "Id",
    "LoadState",
    "ActiveState",
    "SubState",
    "UnitFileState",
    "NeedDaemonReload",
    "InvocationID",
    "NRestarts",
    "ActiveEnterTimestamp",
    "Type",
)

# systemctl(1), "is-enabled": states in which the unit is started at boot, or in which it cannot be enabled at all.
ENABLED = ("enabled", "static", "alias", "indirect", "generated")


@dataclasses.dataclass(frozen=True)
class Status:
    """One unit as ``systemctl show`` describes it. ``started`` is in seconds of the wall clock (0: never started)."""

    load: str
    active: str
    sub: str
    enabled: str
    outdated: bool
    invocation: str
    restarts: int
    started: float
    oneshot: bool = False

    @property
    def running(self) -> bool:
        return self.active in ("active", "reloading")


def parse_time(text: str) -> float:
    """A time as systemctl prints it with TZ=UTC, such as ``Sat 2026-11-21 10:10:47 UTC``, in seconds; 0 for none.

    The monotonic properties would be finer, but that clock stands still while a laptop sleeps.
    """
    found = re.fullmatch(r"\w+ (\d+)-(\d+)-(\d+) (\d+):(\d+):(\d+) UTC", text)
    return float(calendar.timegm(tuple(int(part) for part in found.groups()))) if found else 0.0


def parse_show(text: str, names: t.Sequence[str]) -> dict[str, Status]:
    """The answer of ``systemctl show --property=... NAME ...`` with TZ=UTC: a block a unit, in the order asked."""
    statuses = {}
    for name, block in zip(names, text.strip().split("\n\n")):
        fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        statuses[name] = Status(
            load=fields.get("LoadState", ""),
            active=fields.get("ActiveState", ""),
            sub=fields.get("SubState", ""),
            enabled=fields.get("UnitFileState", ""),
            outdated=fields.get("NeedDaemonReload") == "yes",
            invocation=fields.get("InvocationID", ""),
            restarts=int(fields.get("NRestarts") or 0),
            started=parse_time(fields.get("ActiveEnterTimestamp", "")),
            oneshot=fields.get("Type") == "oneshot",
        )
    return statuses


@dataclasses.dataclass(frozen=True)
class Watched:
    """A path that a unit loads: its digest, and the wall clock time, in seconds, of its last change."""

    digest: str
    changed: float


def look_at(path: str) -> Watched:
    """Read one path. A link counts by the file that it leads to: a version of a program, which is replaced and never edited."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return Watched("missing", 0.0)
    if os.path.islink(path):
        target = os.stat(path) if os.path.exists(path) else found
        return Watched(f"{os.path.realpath(path)} {target.st_ino}", max(found.st_ctime, target.st_ctime))
    if os.path.isdir(path):
        entries = [
            (name, look_at(os.path.join(path, name))) for name in sorted(os.listdir(path)) if not name.startswith(".")
        ]
        digest = hashlib.sha256(repr([(name, entry.digest) for name, entry in entries]).encode()).hexdigest()
        return Watched(digest, max([found.st_ctime, *(entry.changed for _name, entry in entries)]))
    with open(path, "rb") as file:
        return Watched(hashlib.sha256(file.read()).hexdigest(), found.st_ctime)


def stale(status: Status, watched: t.Mapping[str, Watched], loaded: t.Mapping[str, str]) -> list[str]:
    """The paths that are not what the running unit has loaded.

    :param loaded: digests noted when this invocation of the unit loaded them; a path without one (the unit was started
        by the boot or by a person) is judged by the time of its last change; systemd's times are whole seconds.
    """
    return [
        path
        for path, now in watched.items()
        if (now.digest != loaded[path] if path in loaded else now.changed >= status.started + 1)
    ]


def plan(
    unit: t.Mapping[str, t.Any], status: Status, restart_for: t.Sequence[str], reload_for: t.Sequence[str]
) -> list[str]:
    """The ``systemctl`` verbs that bring one unit to what is asked, in order. Empty when it is there."""
    verbs = []
    if unit["enabled"] is True and status.enabled not in ENABLED:
        verbs.append("enable")
    if unit["state"] == "started":
        if not status.running:
            # A unit that systemd is trying to start again and again needs the restart to load new files now.
            verbs.append("restart" if status.active == "activating" else "start")
        elif restart_for:
            verbs.append("restart")
        elif reload_for:
            verbs.append("reload")
    elif unit["state"] == "stopped" and status.active not in ("inactive", "failed"):
        verbs.append("stop")
    if unit["enabled"] is False and status.enabled in ("enabled", "enabled-runtime"):
        verbs.append("disable")
    return verbs
