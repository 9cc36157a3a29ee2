# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Getting files back: first the plan, which snapshot, how much, and what it would meet; then, if that is wanted, the restore."""

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

from ansible_collections.rigwright.workstation.plugins.module_utils import _backup_keep as keeping
from ansible_collections.rigwright.workstation.plugins.module_utils._backup_config import (
    DUMP,
    FILES,
    Config,
    ConfigError,
    Job,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup_drill import restore
from ansible_collections.rigwright.workstation.plugins.module_utils._backup_excludes import literal
from ansible_collections.rigwright.workstation.plugins.module_utils._mounts import is_within
from ansible_collections.rigwright.workstation.plugins.module_utils._restic import judge
from ansible_collections.rigwright.workstation.plugins.module_utils._restic_run import Restic

LATEST = "latest"
_SHOWN = 20
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
    """What a restore would do."""

    snapshot: str
    time: str
    host: str
    target: str
    paths: list[str]
    through: str = ""  # a link on the way to the target that may lead elsewhere tomorrow
    files: int = 0
    bytes: int = 0
    unknown: list[str] = dataclasses.field(default_factory=list)
    conflicts: int = 0
    conflicting: list[str] = dataclasses.field(default_factory=list)
    in_the_way: list[str] = dataclasses.field(default_factory=list)
    short_of: list[str] = dataclasses.field(default_factory=list)
    above: list[str] = dataclasses.field(default_factory=list)  # directories that are there, and that nobody asked for
    within: list[str] = dataclasses.field(default_factory=list)  # those that are there, and that were asked for

    def told(self) -> dict[str, t.Any]:
        """What a person wants to know."""
        hidden = ("above", "within")
        return {key: _printable(value) for key, value in vars(self).items() if key not in hidden}


def shown(path: str) -> str:
    """A path as restic lists it, and as every stream takes it: U+FFFD stands for each byte that belongs to no letter of UTF-8."""
    return _BYTE.sub(_LOST, path)


def _printable(value: t.Any) -> t.Any:
    return (
        [shown(one) for one in value] if isinstance(value, list) else shown(value) if isinstance(value, str) else value
    )


def parse_when(text: str) -> float | None:
    """The end of the day, minute or second that is meant; None when it is no time, such as the id of a snapshot."""
    for form, last in (("%Y-%m-%d", (23, 59, 59)), ("%Y-%m-%d %H:%M", (59,)), ("%Y-%m-%d %H:%M:%S", ())):
        try:
            fields = time.strptime(text.replace("T", " "), form)
        except ValueError:
            continue
        # A day has 23 or 25 hours where clocks change, and snapshots are told without the fractions of their seconds.
        return time.mktime((*fields[: 6 - len(last)], *last, *fields[6:])) + 1
    return None


def choose(found: t.Sequence[keeping.Snapshot], when: str) -> keeping.Snapshot:
    """The last snapshot of a day, minute or second or before it, or the one with an id.

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
    """Counts what a restore would bring, and what is in its way, while the list of a snapshot goes by."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.met: set[str] = set()
        self.needs: dict[str, int] = {}  # bytes by the directory that is there already and takes them
        self._wanted = [shown(path) for path in plan.paths]
        self._takes = {plan.target: _nearest(plan.target)}
        self._names: dict[str, dict[str, list[str]]] = {}  # what is in a directory, by how restic would show it

    def take(self, line: str) -> None:
        if '"node"' not in line:
            return
        node = json.loads(line)
        path = node.get("path", "")
        over = {wanted for wanted in self._wanted if is_within(path, wanted)}
        self.met |= over
        if not over and not any(is_within(wanted, path) for wanted in self._wanted):
            return
        place = os.path.join(self.plan.target, path.lstrip("/"))
        there = {one: found for one in self._places(path) for found in [_look(one)] if found}
        takes = self._takes.get(os.path.dirname(place), self._takes[self.plan.target])
        other = [one for one, found in there.items() if _KINDS.get(stat.S_IFMT(found.st_mode)) != node.get("type")]
        if other:
            # restic follows a link, and some versions write into what it leads to.
            self.plan.in_the_way += other
        elif node.get("type") == "dir":
            self._takes[place] = next((one for one in there if os.path.ismount(one)), takes)
            (self.plan.within if over else self.plan.above).extend(there)
        elif over:
            self.plan.files += 1
            self.plan.bytes += node.get("size", 0)
            self.needs[takes] = self.needs.get(takes, 0) + node.get("size", 0)
            if there:
                self.needs[takes] -= min(found.st_blocks for found in there.values()) * 512
                self.plan.conflicts += 1
                self.plan.conflicting += [*there][: _SHOWN - len(self.plan.conflicting)]

    def _places(self, path: str) -> list[str]:
        """Where a path of the list lies. Where it does not tell all bytes of a name, that is each entry whose name looks the same."""
        if _LOST not in path:
            return [os.path.join(self.plan.target, path.lstrip("/"))]
        above, name = os.path.split(path)
        return [os.path.join(folder, one) for folder in self._places(above) for one in self._looking_like(folder, name)]

    def _looking_like(self, folder: str, name: str) -> list[str]:
        if _LOST not in name:
            return [name]
        if folder not in self._names:
            self._names[folder] = {}
            with contextlib.suppress(OSError):  # it is not there yet
                for one in os.listdir(folder):
                    self._names[folder].setdefault(shown(one), []).append(one)
        return self._names[folder].get(name, [])

    def short_of(self) -> list[str]:
        """Where there is less room than is needed. Holes are counted in full, and each name of a file as one of its own."""
        told = []
        for place, needed in self.needs.items():
            free = shutil.disk_usage(place).free
            if needed > free:
                told.append(f"{place}: up to {needed} bytes are needed, {free} are free")
        return told


def _look(place: str) -> os.stat_result | None:
    try:
        return os.lstat(place)
    except OSError:
        return None


def _nearest(place: str) -> str:
    """The directory itself, or the nearest one above it that is there."""
    while place != "/" and not os.path.isdir(place):
        place = os.path.dirname(place)
    return place


def resolve(target: str) -> tuple[str, str]:
    """The directory that is really meant, and the first link on the way to it that others than root and the caller can change.

    :raises ConfigError: its links lead round in a circle.
    """
    place, changeable = "/", ""
    left = os.path.join(os.getcwd(), target).split("/")[::-1]
    links = 0
    while left:
        name = left.pop()
        if name in ("", ".", ".."):
            place = os.path.dirname(place) if name == ".." else place
            continue
        here = os.path.join(place, name)
        found = _look(here)
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
        left += to.split("/")[::-1]
    return place, changeable


def _others_may_change(link: os.stat_result, folder: os.stat_result) -> bool:
    """In a directory for all, such as /tmp, nobody but a link's owner may replace it."""
    trusted = (0, os.geteuid())
    for_all = folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not folder.st_mode & stat.S_ISVTX
    return link.st_uid not in trusted or folder.st_uid not in trusted or bool(for_all)


def make_plan(job: Job, restic: Restic, when: str, paths: t.Sequence[str], target: str) -> Plan:
    """
    :raises ConfigError: nothing fits what is asked for.
    """
    outcome, found = keeping.snapshots(restic, "--host", job.host, "--tag", f"{job.tag},{FILES}")
    if not outcome.ok:
        raise ConfigError(f"{outcome.words}: {outcome.remedy}")
    chosen = choose(found, when)
    named = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(chosen.time))
    resolved, through = resolve(target)
    plan = Plan(chosen.id, named, chosen.host, resolved, [os.path.normpath(path) for path in paths] or ["/"], through)
    lister = Lister(plan)
    done = restic.run("ls", "--json", "--no-lock", chosen.id, on_line=lister.take)
    outcome = judge(done)
    if not outcome.ok:
        raise ConfigError(f"{outcome.words}: {outcome.remedy}")
    plan.unknown = [path for path in plan.paths if shown(path) not in lister.met]
    plan.short_of = lister.short_of()
    return plan


def dump_of(job: Job, restic: Restic, name: str, when: str) -> keeping.Snapshot:
    """The snapshot of a dump.

    :raises ConfigError: nothing fits what is asked for.
    """
    outcome, found = keeping.snapshots(restic, "--host", job.host, "--tag", job.tag)
    if not outcome.ok:
        raise ConfigError(f"{outcome.words}: {outcome.remedy}")
    names = sorted({tag[len(DUMP) :] for row in found for tag in row.tags if tag.startswith(DUMP)})
    if name not in names:
        raise ConfigError(f"{job.name} has no snapshot of a dump {name!r}; it has {', '.join(names) or 'none'}")
    return choose([row for row in found if f"{DUMP}{name}" in row.tags], when)


class Objection(t.NamedTuple):
    """Why a restore is not done: which wish it is about (`paths`, `target`, `overwrite`, `without_room`), and in words."""

    about: str = ""
    words: str = ""


def objection(plan: Plan, overwrite: bool, without_room: bool = False) -> Objection:
    """Why it is not done, empty when it is."""
    if plan.unknown:
        missing = shown(", ".join(plan.unknown))
        words = f"the snapshot has nothing at {missing}: look at `rigwright-backup restic REPOSITORY ls {plan.snapshot[:8]}`"
        return Objection("paths", words)
    if plan.through:
        words = f"others than root and you may say where the link {shown(plan.through)} leads: name the directory that you mean"
        return Objection("target", f"{words}, if it is {shown(plan.target)}")
    if plan.in_the_way:
        named = shown(", ".join(plan.in_the_way[:5]))
        words = f"{named}: there is something of another kind there now, such as a link: restore to another place, or take it away"
        return Objection("target", words)
    if plan.conflicts and not overwrite:
        named = shown(", ".join(plan.conflicting[:5]))
        words = f"{plan.conflicts} files are there already, such as {named}: restore to another place, or allow to overwrite them"
        return Objection("overwrite", words)
    if plan.short_of and not without_room:
        words = f"there is too little room at {shown('; '.join(plan.short_of))}: restore to another place, or go on without it"
        return Objection("without_room", words)
    return Objection()


def carry_out(
    config: Config, plan: Plan, restic: Restic, overwrite: bool, on_line: t.Callable[[str], None] | None = None
) -> str:
    """Restore, and return what is wrong with how it went.

    restic makes of a directory that is there what it was, with owner, mode and time, also of those above what it restores. Here it
    stays as it is, unless it was asked for and may be overwritten.
    """
    patterns = [literal(path) for path in plan.paths if path != "/"]
    with _kept([*plan.above, *([] if overwrite else plan.within)]):
        outcome = judge(restore(restic, config, plan.snapshot, plan.target, patterns, on_line, overwrite))
    return "" if outcome.ok else f"{outcome.words}: {outcome.remedy}"


@contextlib.contextmanager
def _kept(places: t.Sequence[str]) -> t.Iterator[None]:
    """Put directories back to what they are now, however it ends."""
    before = {place: (os.lstat(place), _attributes(place)) for place in places}
    try:
        yield
    finally:
        for place in before:
            with contextlib.suppress(OSError):  # it is somebody else's affair that it is gone
                _put_back(place, *before[place])


def _attributes(place: str | int) -> dict[str, bytes]:
    try:
        return {name: os.getxattr(place, name) for name in os.listxattr(place)}
    except OSError:  # a file system without attributes
        return {}


def _put_back(place: str, before: os.stat_result, attributes: t.Mapping[str, bytes]) -> None:
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchown(handle, before.st_uid, before.st_gid)
        os.fchmod(handle, stat.S_IMODE(before.st_mode))
        there = _attributes(handle)
        for name in there.keys() - attributes.keys():
            os.removexattr(handle, name)
        for name in attributes:
            if there.get(name) != attributes[name]:
                os.setxattr(handle, name, attributes[name])
        os.utime(handle, ns=(before.st_atime_ns, before.st_mtime_ns))
    finally:
        os.close(handle)
