# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read systemd units, compare their files with what they have loaded, and plan the ``systemctl`` verbs that are due."""

from __future__ import annotations

import calendar
import dataclasses
import glob
import hashlib
import os
import re
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Refused
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import UnitRow

# What ``Status.of`` reads, and ``parse_show`` to know a unit by each of its names.
PROPERTIES = (
    "Id",
    "Names",
    "LoadState",
    "ActiveState",
    "SubState",
    "UnitFileState",
    "NeedDaemonReload",
    "DropInPaths",
    "InvocationID",
    "NRestarts",
    "ActiveEnterTimestamp",
    "ActiveEnterTimestampMonotonic",
    "Type",
    "RemainAfterExit",
    "Result",
    "ExecMainStatus",
    "ExecMainStartTimestamp",
    "ExecMainStartTimestampMonotonic",
)
# The kernel stamps files with the clock of its last tick, which may be this much earlier (CONFIG_HZ=100, twice).
TICK = 0.02

# Directory of an administrator's drop-ins (systemd.unit(5)).
UNIT_FILES = "/etc/systemd/system"

# systemctl(1), "is-enabled": states in which the unit is started at boot, or in which it cannot be enabled at all.
ENABLED = ("enabled", "static", "alias", "indirect", "generated")


Properties = dict[str, list[str]]


def refuse_repeated(units: t.Sequence[UnitRow]) -> None:
    """Refuse a unit that is listed twice: one state and one list of paths would be lost.

    :raises Refused: it names the units.
    """
    names = [unit["name"] for unit in units]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise Refused(f"units are listed twice: {', '.join(repeated)} (write one entry with one state and all paths)")


def parse_show(text: str, names: t.Sequence[str]) -> dict[str, Properties]:
    """Parse the output of ``systemctl show --property=Id,Names,... NAME ...`` into the properties of each unit by the requested name.

    Each property is a list, since some are printed several times (the ``Listen`` of a socket).

    :raises KeyError: the output does not have a name.
    """
    units: dict[str, Properties] = {}
    for block in text.strip().split("\n\n"):
        properties: Properties = {}
        for line in block.splitlines():
            key, _equals, value = line.partition("=")
            properties.setdefault(key, []).append(value)
        # For an alias, systemctl prints the properties of the unit that it names.
        for name in [*properties.get("Id", []), *" ".join(properties.get("Names", [])).split()]:
            units[name] = properties
    return {name: units[name] for name in names}


def show(run: t.Callable[..., t.Any], names: t.Sequence[str], properties: t.Iterable[str]) -> dict[str, Properties]:
    """Read properties of units by one ``systemctl show``.

    :param run: ``run_command`` of the module.
    :param properties: without Id and Names, which are always read.
    :returns: the properties of each unit by the requested name; nothing without names.
    """
    if not names:
        return {}
    wanted = ",".join(dict.fromkeys(("Id", "Names", *properties)))
    environment = {"TZ": "UTC"}
    _status, output, _error = run(
        ["systemctl", "show", f"--property={wanted}", *names], check_rc=True, environ_update=environment
    )
    return parse_show(output, names)


def parse_time(text: str) -> float:
    """Return a time that systemctl prints with TZ=UTC, such as ``Sat 2026-11-21 10:10:47 UTC``, in seconds; 0 for none."""
    found = re.fullmatch(r"\w+ (\d+)-(\d+)-(\d+) (\d+):(\d+):(\d+) UTC", text)
    return float(calendar.timegm(tuple(int(part) for part in found.groups()))) if found else 0.0


def earliest(wall: float, monotonic: float, offset: float) -> float:
    """Return the earliest moment at which something may have happened, by the wall clock as it goes now; 0 for never.

    The wall clock may have been set since, by hours where the hardware clock has local time. The monotonic clock is not set, but stands
    still while a laptop sleeps: its moment is then too late. Of whole seconds (*wall*) it gives the fraction.

    :param monotonic: the same moment by the monotonic clock, 0 where it is unknown.
    :param offset: the wall clock less the monotonic one, now.
    """
    if not wall or not monotonic:
        # A start in the future is unknown.
        return wall if wall <= time.time() else 0.0
    found = monotonic + offset
    return found if wall <= found < wall + 1 else min(wall, found)


@dataclasses.dataclass(frozen=True)
class Status:
    """One unit as systemd knows it.

    ``started``: when it may have loaded its files first, by the wall clock (0: never). ``ran``: a oneshot unit has ended well.
    """

    load: str
    active: str
    sub: str
    enabled: str
    outdated: bool
    invocation: str
    restarts: int
    started: float
    oneshot: bool = False
    ran: bool = False
    names: tuple[str, ...] = ()
    drop_ins: tuple[str, ...] = ()

    @classmethod
    def of(cls, properties: Properties) -> Status:
        """Return the status from the properties that ``systemctl show --property=PROPERTIES`` prints with TZ=UTC."""
        first = {key: values[0] for key, values in properties.items()}
        oneshot = first.get("Type") == "oneshot"
        ran = (
            oneshot
            and first["ActiveState"] == "inactive"
            and first.get("RemainAfterExit") == "no"
            # reset-failed makes the result of a failed run a success, too.
            and (first.get("Result"), first.get("ExecMainStatus")) == ("success", "0")
            and bool(first.get("ExecMainStartTimestamp"))
        )
        return cls(
            load=first["LoadState"],
            active=first["ActiveState"],
            sub=first["SubState"],
            enabled=first["UnitFileState"],
            outdated=first["NeedDaemonReload"] == "yes",
            invocation=first["InvocationID"],
            # Sockets, timers and mounts have no NRestarts and no Type of this sense.
            restarts=int(first.get("NRestarts", 0)),
            started=_start(first, ran),
            oneshot=oneshot,
            ran=ran,
            names=tuple(first["Names"].split()),
            drop_ins=tuple(first["DropInPaths"].split()),
        )

    @property
    def running(self) -> bool:
        return self.active in ("active", "reloading")


def _start(properties: t.Mapping[str, str], ran: bool) -> float:
    """Return when a unit started. What is active reads its files before it counts as active; a oneshot unit that ends is never active."""
    offset = time.time() - time.monotonic()
    names = ("ExecMainStartTimestamp",) if ran else ("ExecMainStartTimestamp", "ActiveEnterTimestamp")
    times = (
        earliest(parse_time(properties.get(name, "")), int(properties.get(f"{name}Monotonic") or 0) / 1_000_000, offset)
        for name in names
        if ran or properties.get("ActiveEnterTimestamp")
    )
    return min(filter(None, times), default=0.0)


def needs_daemon_reload(status: Status, unit_files: str = UNIT_FILES) -> bool:
    """Return True if systemd has an older state of the unit's files than the disk.

    systemd 252 reads drop-ins only in the folders that existed at its last daemon-reload: with a new folder,
    its own NeedDaemonReload stays ``no``.
    """
    if status.load != "loaded":
        return status.outdated
    folders = [glob.escape(os.path.join(unit_files, f"{name}.d")) for name in status.names]
    drop_ins = {path for folder in folders for path in glob.glob(f"{folder}/*.conf")}
    return status.outdated or not drop_ins.issubset(status.drop_ins)


@dataclasses.dataclass(frozen=True)
class Watched:
    """A path that a unit loads: its digest, and the wall clock time, in seconds, of its last change."""

    digest: str
    changed: float


def read_watched(path: str) -> Watched:
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
            (name, read_watched(os.path.join(path, name)))
            for name in sorted(os.listdir(path))
            if not name.startswith(".")
        ]
        digest = hashlib.sha256(repr([(name, entry.digest) for name, entry in entries]).encode()).hexdigest()
        return Watched(digest, max([found.st_ctime, *(entry.changed for _name, entry in entries)]))
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
        # Of the file that was read, also when another has its name since.
        return Watched(digest, os.fstat(file.fileno()).st_ctime)


def stale(
    status: Status, watched: t.Mapping[str, Watched], loaded: t.Mapping[str, str], coming: t.Sequence[str] = ()
) -> list[str]:
    """Return the paths that are not what the running unit has loaded.

    :param loaded: digests noted when this invocation of the unit loaded them; a path without one (the unit was started
        by the boot or by a person) is judged by the time of its last change.
    :param coming: paths that check mode did not change: each of them, or something in it, counts as changed.
    """
    return [
        path
        for path, now in watched.items()
        if any(f"{other}/".startswith(f"{path}/") for other in coming)
        or (now.digest != loaded[path] if path in loaded else now.changed >= status.started - TICK)
    ]


def plan(unit: UnitRow, status: Status, restart_for: t.Sequence[str], reload_for: t.Sequence[str]) -> list[str]:
    """Return the ``systemctl`` verbs that bring one unit to the wanted state, in order; none if it is in this state."""
    verbs = []
    if unit["enabled"] is True and status.enabled not in ENABLED:
        verbs.append("enable")
    if unit["state"] == "started":
        if status.ran and (unit["restart_on"] or unit["reload_on"]):
            if restart_for or reload_for:
                verbs.append("start")
        elif not status.running:
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


def note(watched: t.Mapping[str, Watched], loaded: t.Mapping[str, str], held_back: t.Collection[str]) -> dict[str, str]:
    """Return the digests of what a unit has loaded; of paths that were held back, the digest that it had loaded before, if known."""
    now = {path: entry.digest for path, entry in watched.items() if path not in held_back}
    return {**now, **{path: digest for path, digest in loaded.items() if path in held_back}}
