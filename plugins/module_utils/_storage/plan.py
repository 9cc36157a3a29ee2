# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan for disks: what has to be done, and why it is refused. Pure: disks and request in, work out.

A disk is written to only when it is empty, or when a wipe was asked for, its serial repeated, and nothing uses it. One that holds
what is asked for, by file system and label, is taken with its data.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import fstab
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.disks import (
    BY_ID,
    Content,
    Device,
    Disk,
    describe_content,
    describe_disk,
    find,
    format_size,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.model import (
    RECORDED,
    Facts,
    Given,
    Plan,
    Point,
    Work,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.request import (
    FILE_SYSTEMS,
    QUOTA_OPTION,
    Entry,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import device_name


def uuid_for(fs: str, new_id: t.Callable[[], str]) -> str:
    """Return a new id in the form that the file system has."""
    uuid = new_id()
    return f"{uuid[:4]}-{uuid[4:8]}".upper() if fs == "vfat" else uuid


def by_names(disks: t.Iterable[Disk], path: str) -> str:
    """Return stable names for the disk that a changing name means now."""
    for disk in disks:
        if path in disk.names or any(path in part.names for part in disk.partitions):
            return (
                " or ".join([*disk.ids[:3], *([f"serial {disk.serial}"] if disk.serial else [])])
                or "none: it has neither id nor serial"
            )
    return "none: there is no such disk"


def choose(entry: Entry, disks: t.Sequence[Disk]) -> tuple[Disk | None, Problem | None]:
    """Return the disk that an entry means, or why there is none."""

    def no(text: str, remedy: str) -> tuple[None, Problem]:
        return None, problem("storage_disks", text, remedy)

    if "/" in entry.id:
        path = entry.id if entry.id.startswith("/") else f"/{entry.id}"
        return no(
            f"names {entry.id}, and another disk may have this name after the next boot",
            f"name the disk by its `id` or its `serial`: {by_names(disks, path)}",
        )
    found = find(disks, entry.id, entry.serial)
    if len(found) == 1:
        moving = [
            name for disk in disks for name in disk.ids if found[0].shared_serial and _is_namespace(name, entry.id)
        ]
        if moving:
            return no(
                f"names {entry.id}, which leads to one namespace of its controller now, and may lead to another later",
                f"name the namespace: {' or '.join(moving)}",
            )
        return found[0], None
    if found:
        return no(
            f"means {len(found)} disks by the serial {entry.serial}: {', '.join(disk.path for disk in found)}",
            "name it by `id`: " + " or ".join(name for disk in found for name in disk.ids),
        )
    for disk in disks:
        for part in disk.partitions:
            if entry.id and f"{BY_ID}/{entry.id}" in part.names:
                return no(f"names {entry.id}, a partition", f"name the whole disk: {by_names(disks, disk.path)}")
    listed = ", ".join(f"{disk.key} ({disk.path}, {format_size(disk.size)})" for disk in disks if disk.key)
    return no(
        f"names {entry.name}, and no disk of this host is called so",
        f"put it back, or take it out of storage_disks; there are: {listed or 'none with an id or a serial'}",
    )


def judge(work: Work, facts: Facts, confirmed: t.Collection[str], new_id: t.Callable[[], str]) -> t.Iterator[Problem]:
    """Decide what a disk needs, and yield the problems."""
    entry, disk, recorded = work.entry, work.disk, facts.record.get(work.key, {})
    target: Device | None = disk
    if entry.partition:
        target = disk.partitions[0] if len(disk.partitions) == 1 else None
    content = target.content if target else None
    work.given = t.cast("Given", {key: value for key, value in recorded.items() if key in RECORDED})
    if recorded.get("size", 0) > disk.size:
        was = format_size(recorded["size"])
        yield problem(
            "storage_disks",
            f"has {disk.path} ({work.key}) of {format_size(disk.size)}, which had {was} when its file system was made",
            "another disk answers by this name, or this one fails: look at it (smartctl -x) before anything is written to it",
        )
        return
    if left_unfinished(entry, disk, content, recorded):
        if target and target.path in facts.filled:
            yield problem(
                "storage_disks",
                f"has {target.path} ({work.key}), whose file system a run of ours did not finish, and which has files all the same",
                "somebody has mounted it by hand: copy the files away, and wipe it (`wipefs --all`)",
            )
            return
        # The same ids once more: a run that was cut short here has them on record.
        work.device = target.path if target else ""
        work.table, work.make = entry.partition and not disk.partitions, True
        yield from writing(work, facts)
        return
    alone = entry.partition or not (disk.partitions or disk.content.table)
    if target and content and content.uuid and alone and (content.kind, content.label) == (entry.fs, entry.label):
        work.device = target.path
        work.given.update({"uuid": content.uuid, "finished": True})
        work.given.pop("making", None)
        work.given.setdefault("size", disk.size)
        yield from _in_use_elsewhere(work, target)
        yield from _copied(work, target, facts)
        return
    if disk.content.empty and not disk.partitions:
        work.table, work.make = entry.partition, True
    elif entry.wipe and (own_uuid(disk, recorded) or work.key) in confirmed:
        work.wipe, work.table, work.make = True, entry.partition, True
    else:
        yield _holds_data(work, recorded, confirmed)
        return
    yield from writing(work, facts)
    yield from label_in_use(work, facts)
    work.given = {
        "table": new_id() if entry.partition else "",
        "part": new_id(),
        "uuid": uuid_for(entry.fs, new_id),
        "size": disk.size,
        "finished": False,
        "made": recorded.get("made", []),
    }


def own_uuid(disk: Disk, recorded: Given) -> str:
    """Return the id of the file system on record, where the disk still has it: a wipe confirmed for earlier content spares it."""
    found = {device.content.uuid for device in (disk, *disk.partitions)}
    return str(recorded["uuid"]) if recorded.get("uuid") in found else ""


def left_unfinished(entry: Entry, disk: Disk, content: Content | None, recorded: Given) -> bool:
    """Return whether an interrupted run of ours left this: its table or its file system by their ids, and nothing of others.

    As long as a file system is on record as not finished, the role has mounted nothing from it.
    ``filled`` holds devices that somebody else has mounted and written to.
    """
    if not recorded.get("uuid") or recorded.get("finished", True):
        return False
    if content is not None and content.uuid == recorded["uuid"]:
        return True
    # Before mkfs began, what is there without a signature is somebody's: a volume of dm-crypt without a header, bytes of a program.
    bare = content is None or content.empty or (bool(recorded.get("making")) and not signed(content))
    if entry.partition:
        return (
            not disk.content.kind
            and bare
            and len(disk.partitions) < 2
            and bool(recorded.get("table"))
            and disk.content.table_id == recorded["table"]
        )
    return bare and not disk.partitions and not recorded.get("table")


def signed(content: Content) -> bool:
    return bool(content.kind or content.table or content.signatures)


def writing(work: Work, facts: Facts) -> t.Iterator[Problem]:
    """Yield the problems of writing to a disk, even when a wipe is confirmed."""
    disk, name = work.disk, f"{work.disk.path} ({work.key})"
    if disk.every_use or disk.busy:
        used = "; ".join(disk.every_use) or "the kernel, or a program, has it for itself (ZFS, RAID, another container)"
        remedy = "it is never written to as long as this is so"
        yield problem("storage_disks", f"has {name}, which is in use: {used}", remedy)
    if disk.read_only:
        remedy = "look for a switch on the disk, or at the kernel's log"
        yield problem("storage_disks", f"has {name}, which is read-only", remedy)
    named = {alias for device in (disk, *disk.partitions) for alias in _aliases(device)}
    for line in fstab.parse(fstab.others(facts.fstab)):
        if line.devices & named:
            text = f"would write to {name}, which /etc/fstab mounts: {line.text.strip()}"
            yield problem("storage_disks", text, "take this line out first")


def label_in_use(work: Work, facts: Facts) -> t.Iterator[Problem]:
    """Yield why a new file system may not have its label: what is mounted by that label would be mounted from either disk."""
    label = work.entry.label
    own = {device.path for device in (work.disk, *work.disk.partitions)}
    devices = [device for disk in facts.disks for device in (disk, *disk.partitions) if device.path not in own]
    users = [device.path for device in devices if label in {device.content.label, *device.labels}]
    name = device_name(f"LABEL={label}")
    lines = [line.text.strip() for line in fstab.parse(fstab.others(facts.fstab)) if name in line.devices]
    for user in [*users, *(f"/etc/fstab ({line})" for line in lines)]:
        text = f"gives {work.disk.path} ({work.key}) the label {label!r}, which {user} has"
        yield problem("storage_disks", text, "set another `label` for the new file system")


def _is_namespace(name: str, controller: str) -> bool:
    return name.startswith(f"{controller}_") and name[len(controller) + 1 :].isdigit()


def renamed(record: t.Mapping[str, Given], works: t.Sequence[Work]) -> dict[str, Given]:
    """Return the record by today's keys. A disk's key changes when another disk with its serial comes or goes.

    What is on record under another name of a disk is this disk's where the disk has its ids.
    """
    found = dict(record)
    for work in works:
        for name in (work.disk.serial, work.entry.id, *work.disk.ids):
            if work.key not in found and name in found and _has_ids(work.disk, found[name]):
                found[work.key] = found.pop(name)
    return found


def confirmations(confirm: t.Sequence[str], works: t.Sequence[Work]) -> list[str]:
    """Return the confirmations by today's keys. Earlier versions knew a disk without serial by its first id."""
    own = [work for work in works if not (work.disk.serial and work.disk.shared_serial)]
    keys = {name: work.key for work in own for name in (work.disk.key, work.entry.id) if name}
    keys.update((work.key, work.key) for work in works)
    return [keys.get(name, name) for name in confirm]


def _has_ids(disk: Disk, given: Given) -> bool:
    own = {device.content.uuid for device in (disk, *disk.partitions)} | {disk.content.table_id}
    return bool(own & ({given.get("uuid"), given.get("table")} - {None, ""}))


def _aliases(device: Device) -> t.Iterator[str]:
    """Yield the names of a device in one form; those of udev's links among them."""
    tags = (("UUID", device.content.uuid), ("LABEL", device.content.label))
    yield from map(device_name, [*device.names, *(f"{key}={value}" for key, value in tags if value)])


def _in_use_elsewhere(work: Work, target: Device) -> t.Iterator[Problem]:
    # Where a run of ours mounted it, one may unmount it.
    ours = {f"is mounted at {mount}" for mount in (work.entry.mount, work.given.get("mount"))}
    others = [use for use in target.uses if use not in ours]
    # A bind mount of a part of it, as a container has it, says nothing against the mount itself.
    if others and work.entry.mount not in target.mounts:
        yield problem(
            "storage_disks",
            f"has {target.path} ({work.key}), which {', '.join(others)}",
            f"unmount it, so that it can be mounted at {work.entry.mount}",
        )


def _copied(work: Work, target: Device, facts: Facts) -> t.Iterator[Problem]:
    # The disks of one Btrfs have one id.
    uuid = target.content.uuid
    devices = [device for disk in facts.disks for device in (disk, *disk.partitions) if device.path != target.path]
    twins = [device.path for device in devices if uuid in (device.uuid, device.content.uuid)]
    if twins and work.entry.fs != "btrfs":
        yield problem(
            "storage_disks",
            f"mounts {target.path} ({work.key}) by UUID={uuid}, which {', '.join(twins)} has as well: a boot may mount either",
            "take the copy out of the machine, or give one of them another id while it is not mounted (`tune2fs -U random`, "
            "`xfs_admin -U generate`)",
        )


def _holds_data(work: Work, recorded: Given, confirmed: t.Collection[str]) -> Problem:
    entry, disk = work.entry, work.disk
    name, requested = f"{disk.path} ({work.key})", f"{entry.fs} labelled {entry.label!r}"
    layout = "in one partition" if entry.partition else "on the whole disk"
    own = own_uuid(disk, recorded)
    if own:
        present = next(device.content for device in (disk, *disk.partitions) if device.content.uuid == own)
        return problem(
            "storage_disks",
            f"asks for {requested} {layout} of {name}, where a file system of this role is: {describe_content(present)}",
            "say what is there: `e2label` and its like change a label, and another file system means to copy the data away; to lose all "
            f"of it, set `wipe: true` and name this very file system: storage_confirm_wipe: [{own}]",
        )
    repeat = f"repeat the {'serial' if work.key == disk.serial else 'id'}: storage_confirm_wipe: [{work.key}]"
    remedy = f"say what is there if its data is to be used; to lose all of it, set `wipe: true` and {repeat}"
    if entry.wipe:
        remedy = f"to lose all of it, {repeat}"
    elif work.key in confirmed:
        remedy = "to lose all of it, set `wipe: true` at this disk as well"
    held = describe_disk(disk)
    return problem(
        "storage_disks",
        f"asks for {requested} {layout} of {name}, {format_size(disk.size)}, which is not empty: {held}",
        remedy,
    )


def mounting(work: Work, facts: Facts, mounts: t.Collection[str]) -> t.Iterator[Problem]:
    """Decide what a mount needs, and yield the problems."""
    entry, point = work.entry, facts.points.get(work.entry.mount, Point())
    mounted = facts.mounted.get(entry.mount)
    ours = bool(mounted and work.device and mounted.source == work.device)
    if mounted and not ours:
        yield problem(
            "storage_disks",
            f"mounts {work.key} at {entry.mount}, where {mounted.source} is mounted",
            "unmount that, or choose another `mount`",
        )
        return
    # Below a disk that is not mounted yet, it is looked at when that is (storage_disks).
    over = [other for other in mounts if entry.mount.startswith(f"{other}/") and other not in facts.mounted]
    if not over and not mounted:
        if point.exists and not point.directory:
            yield problem(
                "storage_disks",
                f"mounts {work.key} at {entry.mount}, which is no directory, or lies behind a link",
                "choose another `mount`, or name the path that the link leads to",
            )
        if point.names:
            some = ", ".join(point.names[:3])
            yield problem(
                "storage_disks",
                f"mounts {work.key} at {entry.mount}, which has files that would be hidden: {some}",
                "move them away first",
            )
    for line in fstab.parse(fstab.others(facts.fstab)):
        device = [part for part in (work.disk, *work.disk.partitions) if part.path == work.device]
        if line.target == entry.mount or (
            not work.destroys and any(line.devices & {*_aliases(part)} for part in device)
        ):
            yield problem(
                "storage_disks",
                f"mounts {work.key} at {entry.mount}, and /etc/fstab has a line for that: {line.text.strip()}",
                "take this line out; the role writes its own",
            )
    work.protect = bool(over) or point.immutable is False
    work.mount = not ours
    wanted = ",".join(entry.options)
    if ours and mounted:
        work.again = entry.quota and QUOTA_OPTION not in mounted.options
        # One that was mounted by somebody else, or by an older release.
        open_to_others = bool(mounted.options) and {"nosuid", "nodev"} & {*entry.options} - mounted.options
        work.remount = not work.again and (bool(open_to_others) or work.given.get("options", wanted) != wanted)
        work.given.setdefault("options", wanted)
    work.given["mount"] = entry.mount
    yield from _quota(work, facts)


def _quota(work: Work, facts: Facts) -> t.Iterator[Problem]:
    entry = work.entry
    if not entry.quota:
        return
    built = FILE_SYSTEMS[entry.fs].quota
    if facts.kernel.get(built) is False:
        yield problem(
            "storage_disks",
            f"has quotas for {work.key}, and this kernel has none for {entry.fs} ({built})",
            "leave `quota` out, or boot another kernel",
        )
    if (
        entry.fs == "ext4"
        and not work.make
        and "project" not in facts.features.get(work.device, frozenset(["project"]))
    ):
        yield problem(
            "storage_disks",
            f"has quotas for {work.key}, whose file system was made without",
            f"unmount it, and: tune2fs -O project,quota {work.device}",
        )


def plan(entries: t.Sequence[Entry], confirm: t.Sequence[str], facts: Facts, new_id: t.Callable[[], str]) -> Plan:
    """Return what has to be done to all disks.

    :param confirm: serials whose disks may be wiped, and ids of file systems of this role.
    :param new_id: gives a new random UUID in small letters.
    """
    result = Plan(fstab=facts.fstab)
    try:
        fstab.split(facts.fstab)
    except fstab.Damaged:
        result.requirements.append(
            problem(
                "storage_disks",
                "is written between two markers in /etc/fstab, and one of them is gone",
                f"put both lines back: {fstab.BEGIN} and {fstab.END}",
            )
        )
        return result
    for entry in entries:
        disk, refused = choose(entry, facts.disks)
        if refused:
            result.requirements.append(refused)
        if disk:
            result.works.append(Work(entry, disk, disk.key_as(entry.id), {}))
    result.record = renamed(facts.record, result.works)
    facts = dataclasses.replace(facts, record=result.record)
    confirm = confirmations(confirm, result.works)
    paths = [work.disk.path for work in result.works]
    for path in sorted({path for path in paths if paths.count(path) > 1}):
        names = ", ".join(work.entry.name for work in result.works if work.disk.path == path)
        result.requirements.append(
            problem("storage_disks", f"names one disk more than once ({path}): {names}", "keep one entry")
        )
    uuids = {own_uuid(work.disk, facts.record.get(work.key, {})) for work in result.works}
    unknown = sorted(set(confirm) - {work.key for work in result.works} - uuids)
    if unknown:
        result.requirements.append(
            problem(
                "storage_confirm_wipe",
                f"has what is no serial of a disk in storage_disks: {', '.join(unknown)}",
                "repeat the serial exactly, or the `id` of a disk whose serial another one has, or take it out",
            )
        )
    mounts = [entry.mount for entry in entries]
    for work in result.works:
        found = list(judge(work, facts, confirm, new_id))
        result.requirements += found or mounting(work, facts, mounts)
    if not result.requirements:
        wanted = {work.key: work.entry.mount for work in result.works}
        result.gone = {
            key: given.copy()
            for key, given in facts.record.items()
            if key not in wanted or (given.get("mount") and given["mount"] != wanted[key])
        }
        result.fstab = fstab.with_lines(facts.fstab, [work.line for work in result.works])
    return result
