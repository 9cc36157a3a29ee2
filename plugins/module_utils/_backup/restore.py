# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Restore files: plan first (the snapshot, the amount, what exists at the target), and restore if the user confirms."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import stat
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import placement as places
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import retention as keeping
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Config, Job
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.drill import restore
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.excludes import literal
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import ConfigError, Restic
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic_outcome import (
    DAMAGED,
    FAILED,
    OK,
    PARTIAL,
    Outcome,
    judge,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.tags import DUMP, FILES
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import directory
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown as on_terminals
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import is_within

LATEST = "latest"
_SHOWN = 20
_ID = re.compile("[0-9a-f]{64}")
_LINKS = 40  # as many as the kernel follows
_LOST = "\N{REPLACEMENT CHARACTER}"
_BYTE = re.compile("[\udc80-\udcff]")  # as Python keeps it (surrogateescape)
_KINDS = {
    stat.S_IFDIR: "dir",
    stat.S_IFREG: "file",
    stat.S_IFLNK: "symlink",
    stat.S_IFBLK: "dev",
    stat.S_IFCHR: "chardev",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
}


@dataclasses.dataclass
class Plan:
    """The plan of a restore."""

    snapshot: str
    time: str
    host: str
    target: str
    paths: list[str]
    through: str = ""  # a link on the way to the target that other users can change
    files: int = 0
    bytes: int = 0
    unknown: list[str] = dataclasses.field(default_factory=list)
    conflicts: int = 0
    conflicting: list[str] = dataclasses.field(default_factory=list)
    in_the_way: list[str] = dataclasses.field(default_factory=list)
    short_of: list[str] = dataclasses.field(default_factory=list)
    crossing: list[str] = dataclasses.field(default_factory=list)  # mount points below what is restored

    def as_dict(self) -> JsonObject:
        """Return the plan as plain data, printable in any stream and on any terminal."""
        return {key: _printable(value) for key, value in vars(self).items()}


def shown(path: str) -> str:
    """Return a path as restic lists it, and any stream takes it: U+FFFD replaces each byte that is not UTF-8."""
    return _BYTE.sub(_LOST, path)


def _printable(value: t.Any) -> t.Any:
    if isinstance(value, list):
        return [_printable(item) for item in value]
    return on_terminals(shown(value)) if isinstance(value, str) else value


def parse_when(text: str) -> float | None:
    """Return the end of the named day, minute or second; None for what is no time, such as the id of a snapshot."""
    for form, last in (("%Y-%m-%d", (23, 59, 59)), ("%Y-%m-%d %H:%M", (59,)), ("%Y-%m-%d %H:%M:%S", ())):
        try:
            fields = time.strptime(text.replace("T", " "), form)
        except ValueError:
            continue
        # A day has 23 or 25 hours where clocks change, and snapshots are shown without fractions of seconds.
        return time.mktime((*fields[: 6 - len(last)], *last, *fields[6:])) + 1
    return None


def choose(found: t.Sequence[keeping.Snapshot], when: str) -> keeping.Snapshot:
    """Return the last snapshot at or before a day, minute or second, or the one with an id.

    :raises ConfigError: there is none.
    """
    if not found:
        raise ConfigError("the job has no snapshot: look at `rigwright-backup snapshots JOB`")
    if when == LATEST:
        return found[-1]
    end = parse_when(when)
    if end is not None:
        before = [row for row in found if row.time < end]
        if before:
            return before[-1]
        first = time.strftime("%Y-%m-%d %H:%M", time.localtime(found[0].time))
        raise ConfigError(f"no snapshot is as old as {when}: the first is of {first}")
    named = [row for row in found if re.fullmatch(r"[0-9a-f]{4,64}", when) and row.id.startswith(when)]
    if len(named) != 1:
        raise ConfigError(
            f"{when!r} is neither `latest`, a time such as 2026-11-22 or 2026-11-22 18:00, nor the id of one snapshot of the job"
        )
    return named[0]


class Lister:
    """Counts what a restore would create, and finds what is in its way, line by line of a snapshot's list."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.met: set[str] = set()
        self.needs: dict[str, int] = {}  # bytes by the existing directory whose file system needs them
        self._wanted = [shown(path) for path in plan.paths]
        self._takes = {plan.target: _nearest(plan.target)}
        # Directories that do not exist: nothing below them does. This spares one lstat for each file of a new place.
        self._missing = set() if os.path.isdir(plan.target) else {plan.target}
        self._names: dict[str, dict[str, list[str]]] = {}  # the entries of a directory, by the name that restic shows

    def take(self, line: str) -> None:
        """Read a line of `restic ls --json`."""
        if '"node"' not in line:
            return
        node = json.loads(line)
        path = node.get("path", "")
        over = {wanted for wanted in self._wanted if is_within(path, wanted)}
        self.met |= over
        if not over and not any(is_within(wanted, path) for wanted in self._wanted):
            return
        place = os.path.join(self.plan.target, path.lstrip("/"))
        existing = {} if os.path.dirname(place) in self._missing else self._existing(path)
        takes = self._takes.get(os.path.dirname(place), self._takes[self.plan.target])
        other = [
            entry for entry, found in existing.items() if _KINDS.get(stat.S_IFMT(found.st_mode)) != node.get("type")
        ]
        if other:
            # restic follows a link, and some versions write into its target.
            self.plan.in_the_way += other
            return
        if over:
            self._cross(over, takes)
        if node.get("type") == "dir":
            self._takes[place] = next((entry for entry in existing if os.path.ismount(entry)), takes)
            if not existing:
                self._missing.add(place)
        elif over:
            self.plan.files += 1
            self.plan.bytes += node.get("size", 0)
            self.needs[takes] = self.needs.get(takes, 0) + node.get("size", 0)
            if existing:
                self.plan.conflicts += 1
                self.plan.conflicting += [*existing][: _SHOWN - len(self.plan.conflicting)]

    def _cross(self, over: t.Collection[str], takes: str) -> None:
        """Note a mount point between what is asked for and a file below it."""
        for wanted in over:
            top = os.path.normpath(os.path.join(self.plan.target, wanted.lstrip("/")))
            if takes != top and is_within(takes, top) and takes not in self.plan.crossing:
                self.plan.crossing.append(takes)

    def _existing(self, path: str) -> dict[str, os.stat_result]:
        """Return what exists at a path of the list."""
        return {entry: found for entry in self._places(path) for found in [_status(entry)] if found}

    def _places(self, path: str) -> list[str]:
        """Return the places of a path of the list: each entry that is shown the same, where a name has bytes that are not UTF-8."""
        if _LOST not in path:
            return [os.path.join(self.plan.target, path.lstrip("/"))]
        above, name = os.path.split(path)
        return [
            os.path.join(folder, entry) for folder in self._places(above) for entry in self._looking_like(folder, name)
        ]

    def _looking_like(self, folder: str, name: str) -> list[str]:
        if _LOST not in name:
            return [name]
        if folder not in self._names:
            self._names[folder] = {}
            with contextlib.suppress(OSError):  # it does not exist yet
                for entry in os.listdir(folder):
                    self._names[folder].setdefault(shown(entry), []).append(entry)
        return self._names[folder].get(name, [])

    def short_of(self) -> list[str]:
        """Return where there is too little room. Holes are counted in full, and each hard link as a separate file."""
        short = []
        for place, needed in self.needs.items():
            free = shutil.disk_usage(place).free
            if needed > free:
                short.append(f"{place}: up to {needed} bytes are needed, {free} are free")
        return short


def _status(place: str) -> os.stat_result | None:
    try:
        return os.lstat(place)
    except OSError:
        return None


def _nearest(place: str) -> str:
    """Return the directory, or the nearest existing one above it."""
    while place != "/" and not os.path.isdir(place):
        place = os.path.dirname(place)
    return place


def resolve(target: str) -> tuple[str, str]:
    """Return the real directory, and the first link on the way to it that users other than root and the caller can change.

    :raises ConfigError: the links form a circle.
    """
    place, changeable = "/", ""
    parts = os.path.join(os.getcwd(), target).split("/")[::-1]
    links = 0
    while parts:
        name = parts.pop()
        if name in ("", ".", ".."):
            place = os.path.dirname(place) if name == ".." else place
            continue
        here = os.path.join(place, name)
        found = _status(here)
        if not (found and stat.S_ISLNK(found.st_mode)):
            place = here
            continue
        links += 1
        if links > _LINKS:
            raise ConfigError(f"the links of {shown(target)} lead to no directory: name another one by `--target`")
        if not changeable and _others_may_change(found, os.lstat(place)):
            changeable = here
        to = os.readlink(here)
        place = "/" if to.startswith("/") else place
        parts += to.split("/")[::-1]
    return place, changeable


def _others_may_change(link: os.stat_result, folder: os.stat_result) -> bool:
    """Return whether users other than root and the caller can replace a link. In a sticky directory such as /tmp only its owner can."""
    trusted = (0, os.geteuid())
    for_all = folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not folder.st_mode & stat.S_ISVTX
    return link.st_uid not in trusted or folder.st_uid not in trusted or bool(for_all)


def make_plan(job: Job, restic: Restic, when: str, paths: t.Sequence[str], target: str) -> Plan:
    """Plan a restore; change nothing.

    :raises ConfigError: no snapshot matches the request.
    """
    resolved, through = resolve(target)
    plan = Plan("", "", job.host, resolved, [os.path.normpath(path) for path in paths] or ["/"], through)
    lister = Lister(plan)
    # The list of a snapshot begins with its metadata: with `latest` or a whole id one opening of the repository is enough.
    named = when if when == LATEST or _ID.fullmatch(when) else _choose(job, restic, when).id
    outcome = _list(job, restic, named, lister)
    if when == LATEST and job.former_host and not plan.snapshot:
        outcome = _list(job, restic, _choose(job, restic, when).id, lister)
    # restic 0.14 ends with 0 where there is no snapshot.
    if not outcome.ok or not plan.snapshot:
        _choose(job, restic, when)
        raise ConfigError(f"{outcome.message or 'the snapshot cannot be listed'}: {outcome.remedy}")
    plan.unknown = [path for path in plan.paths if shown(path) not in lister.met]
    plan.short_of = lister.short_of()
    return plan


def _choose(job: Job, restic: Restic, when: str) -> keeping.Snapshot:
    """Choose a snapshot of the job's files.

    :raises ConfigError: there is none.
    """
    outcome, found = keeping.snapshots(restic, *job.hosts, "--tag", f"{job.tag},{FILES}")
    if not outcome.ok:
        raise ConfigError(f"{outcome.message}: {outcome.remedy}")
    return choose_own(job, found, when)


def choose_own(job: Job, found: t.Sequence[keeping.Snapshot], when: str) -> keeping.Snapshot:
    """Choose a snapshot; one under the former name of the host only where none of its own name fits.

    :raises ConfigError: there is none.
    """
    own = [row for row in found if row.host == job.host]
    if own and len(own) < len(found):
        with contextlib.suppress(ConfigError):
            return choose(own, when)
    return choose(found, when)


def _filters(job: Job) -> tuple[str, ...]:
    return "--host", job.host, "--tag", f"{job.tag},{FILES}"


def _list(job: Job, restic: Restic, snapshot: str, lister: Lister) -> Outcome:
    """List a snapshot, and note its id and time.

    :raises ConfigError: it is of another job.
    """
    foreign: list[str] = []

    def take(line: str) -> None:
        if lister.plan.snapshot or '"struct_type":"snapshot"' not in line:
            lister.take(line)
            return
        (found,) = keeping.parse_snapshots(f"[{line}]")
        lister.plan.snapshot = found.id
        lister.plan.time = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.time))
        if found.host not in job.hosts[1::2] or not {job.tag, FILES} <= {*found.tags}:
            foreign.append(found.id)

    filters = _filters(job) if snapshot == LATEST else ()
    outcome = judge(restic.run("ls", "--json", "--no-lock", *filters, snapshot, on_line=take))
    if foreign:
        raise ConfigError(f"{foreign[0][:8]} is no snapshot of the files of {job.name}")
    return outcome


def dump_of(job: Job, restic: Restic, name: str, when: str) -> keeping.Snapshot:
    """Return the snapshot of a dump.

    :raises ConfigError: nothing fits what is asked for.
    """
    outcome, found = keeping.snapshots(restic, *job.hosts, "--tag", job.tag)
    if not outcome.ok:
        raise ConfigError(f"{outcome.message}: {outcome.remedy}")
    names = sorted({tag[len(DUMP) :] for row in found for tag in row.tags if tag.startswith(DUMP)})
    if name not in names:
        raise ConfigError(f"{job.name} has no snapshot of a dump {name!r}; it has {', '.join(names) or 'none'}")
    return choose_own(job, [row for row in found if f"{DUMP}{name}" in row.tags], when)


class Objection(t.NamedTuple):
    """Why a restore is refused: the option that it is about (`paths`, `target`, `overwrite`, `without_room`), and a message."""

    about: str = ""
    message: str = ""


def objection(plan: Plan, overwrite: bool, without_room: bool = False) -> Objection:
    """Return why the restore is refused; empty if it is not."""
    if plan.unknown:
        missing = shown(", ".join(plan.unknown))
        message = f"the snapshot has nothing at {missing}: look at `rigwright-backup restic REPOSITORY ls {plan.snapshot[:8]}`"
        return Objection("paths", message)
    if plan.through:
        message = (
            f"users other than root and you can change the link {shown(plan.through)}: name the directory that you mean"
        )
        return Objection("target", f"{message}, if it is {shown(plan.target)}")
    if plan.crossing:
        named = shown(", ".join(plan.crossing[:5]))
        message = f"{named}: another file system is mounted there, below what is restored: restore to another place, or restore"
        return Objection("target", f"{message} what is there separately")
    if plan.in_the_way:
        named = shown(", ".join(plan.in_the_way[:5]))
        message = f"{named}: something of another type exists there now, such as a link: restore to another place, or remove it"
        return Objection("target", message)
    if plan.conflicts and not overwrite:
        named = shown(", ".join(plan.conflicting[:5]))
        message = f"{plan.conflicts} files are there already, such as {named}: restore to another place, or allow to overwrite them"
        return Objection("overwrite", message)
    if plan.short_of and not without_room:
        message = f"there is too little room at {shown('; '.join(plan.short_of))}: restore to another place, or go on without it"
        return Objection("without_room", message)
    return Objection()


def carry_out(
    config: Config, plan: Plan, restic: Restic, overwrite: bool, on_line: t.Callable[[str], None] | None = None
) -> tuple[str, int]:
    """Restore; return the problems, and the number of files that existed by then and stayed.

    Directories that are there stay as they are, unless they were asked for and may be overwritten.
    """
    problems, mover = [], places.Mover(plan.paths, overwrite)
    for beside, paths in _by_mount(plan).items():
        patterns = [literal(path) for path in paths if path != "/"]
        with places.stage(beside) as stage:
            done = restore(restic, config, plan.snapshot, stage.path, patterns, on_line, (stage.handle,))
            outcome = judge(done)
            if not outcome.ok:
                problems.append(f"{outcome.message}: {outcome.remedy}")
            # Damaged files do not keep the others back. After a restore that was cut short no file is known to be whole.
            if outcome.kind in (OK, DAMAGED, FAILED, PARTIAL):
                if overwrite:
                    # After a power cut the old file or the new one exists, and no empty one.
                    os.sync()
                with directory(plan.target, make=True, mode=0o700) as target:
                    mover.move(stage.files, target)
    return "; ".join([*problems, *mover.problems[:_SHOWN]]), mover.skipped


def _by_mount(plan: Plan) -> dict[str, list[str]]:
    """Group the paths by the directory in which they are staged: one for each mount, since no rename leaves it."""
    found: dict[str, tuple[str, list[str]]] = {}
    for path in plan.paths:
        beside = _nearest(os.path.join(plan.target, path.lstrip("/")))
        found.setdefault(places.mount_of(beside), (beside, []))[1].append(path)
    return dict(found.values())
