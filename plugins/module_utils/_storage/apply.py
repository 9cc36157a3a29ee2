# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Does what the plan says: wipe, partition, format, protect, mount, fstab. Each step leaves what the next run goes on from.

What is about to be made is on record first, by its ids; that a file system is finished, when it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import record
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import clear_unfinished, replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import (
    UnsafePath,
    directory,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.root_directories import make_directories
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import facts as disk_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import fstab
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.model import Given, Plan, Work

HOME = "/var/lib/rigwright_storage"
RECORD = f"{HOME}/disks.json"
LINUX, BASIC_DATA = "0FC63DAF-8483-4772-8E79-3D69D8477DE4", "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"
# Seconds for udev to make the node of a partition.
PATIENCE = 15


class Failed(Exception):
    """A step did not succeed; the text says which and why."""


def read_record(path: str) -> dict[str, Given]:
    """Return what earlier runs have made, by disk.

    :raises Damaged: the record is damaged.
    """
    remedy = "restore it, or remove it, and the file systems count as your own"
    return t.cast("dict[str, Given]", record.read(path, remedy, {str: dict}) or {})


def mkfs(fs: str, label: str, uuid: str, quota: bool, device: str) -> list[str]:
    """Return the command that makes a file system; it overwrites the device, whose content was checked before."""
    command = {
        # A data disk needs no twentieth of it for root.
        "ext4": ["mkfs.ext4", "-q", "-F", "-m", "1", "-L", label, "-U", uuid],
        "xfs": ["mkfs.xfs", "-q", "-f", "-L", label, "-m", f"uuid={uuid}"],
        "btrfs": ["mkfs.btrfs", "-q", "-f", "-L", label, "-U", uuid],
        "vfat": ["mkfs.vfat", "-F", "32", "-n", label, "-i", uuid.replace("-", "")],
    }[fs]
    return [*command, *(["-O", "quota,project", "-E", "quotatype=prjquota"] if fs == "ext4" and quota else []), device]


def table(work: Work) -> str:
    """One partition over all of the disk, in sfdisk's words."""
    kind = BASIC_DATA if work.entry.fs == "vfat" else LINUX
    given = work.given
    return f'label: gpt\nlabel-id: {given["table"]}\n\ntype={kind}, uuid={given["part"]}, name="{work.entry.label}"\n'


class Host:
    """The host that is written to. ``record``: what earlier runs have made, by disk."""

    def __init__(self, run: t.Callable[..., tuple[int, str, str]], record: dict[str, Given], settles: bool) -> None:
        self.run, self.record, self.settles = run, record, settles

    def must(self, command: t.Sequence[str], data: str | None = None) -> str:
        rc, out, err = self.run(command, data=data) if data else self.run(command)
        if rc != 0:
            raise Failed(f"`{' '.join(command)}` ended with {rc}: {(err or out).strip()[-500:]}")
        return out

    def settle(self) -> None:
        if self.settles:
            self.run(["udevadm", "settle"])

    def note(self, key: str, given: Given | None) -> None:
        """Put a disk on record, or take it off."""
        if given is None:
            self.record.pop(key, None)
        else:
            self.record[key] = given
        if self.record:
            make_directories(HOME)
            replace_file(RECORD, json.dumps(self.record, indent=1, sort_keys=True) + "\n", 0o600)
        elif os.path.exists(RECORD):
            os.unlink(RECORD)
            clear_unfinished(HOME)
            os.rmdir(HOME)

    # --- Disks ---

    def make(self, work: Work) -> None:
        """Give a disk its table and its file system."""
        entry, disk = work.entry, work.disk
        self.note(work.key, {**work.given, "finished": False})
        # Checked once more, right before the write: the plan is some seconds old.
        if disk_facts.busy(disk.path):
            raise Failed(f"{disk.path} ({work.key}) is in use now, and was not when the run began")
        if work.wipe:
            for part in disk.partitions:
                self.must(["wipefs", "--all", "--quiet", part.path])
            self.must(["wipefs", "--all", "--quiet", disk.path])
            if disk.partitions:
                # A new file system on the whole disk leaves the kernel its old partitions.
                self.run(["partx", "--delete", disk.path])
                self.settle()
        if work.table:
            command = ["sfdisk", "--quiet", "--wipe", "always", "--wipe-partitions", "always", disk.path]
            self.must(command, data=table(work))
        if entry.partition:
            work.device = self.partition(work)
        else:
            work.device = disk.path
        # From here on, what has no signature there is what mkfs began to write.
        self.note(work.key, {**work.given, "finished": False, "making": True})
        self.must(mkfs(entry.fs, entry.label, work.given["uuid"], entry.quota, work.device))
        self.settle()
        found = disk_facts.content(self.run, work.device)
        if (found.kind, found.uuid.lower()) != (entry.fs, work.given["uuid"].lower()):
            raise Failed(
                f"{work.device} has {found.kind} {found.uuid} after {entry.fs} {work.given['uuid']} was made there"
            )
        work.given["finished"] = True
        work.given.pop("making", None)
        self.note(work.key, {**work.given, "mount": ""})

    def partition(self, work: Work) -> str:
        """Return the partition as the kernel names it, once it exists; by its id, so that it is no other."""
        end = time.monotonic() + PATIENCE
        # sfdisk has the kernel read the table, but for one that knows none.
        self.run(["partx", "--update", work.disk.path])
        while time.monotonic() < end:
            self.settle()
            for disk in disk_facts.disks(self.run, [work.entry]):
                for part in disk.partitions if disk.path == work.disk.path else ():
                    _rc, output, _err = self.run(["blkid", "--probe", "--output", "export", part.path])
                    if f"PART_ENTRY_UUID={work.given['part']}" in output.splitlines():
                        return part.path
            time.sleep(0.3)
        raise Failed(f"{work.disk.path} ({work.key}) has its partition, and no device for it came up in {PATIENCE} s")

    # --- Mounts ---

    def unmount(self, mount: str) -> bool:
        """Unmount what is mounted there and return whether nothing is left. What is in use stays."""
        return self.run(["umount", mount])[0] == 0

    def below(self, script: str, path: str) -> None:
        self.must([*disk_facts.BELOW, disk_facts.UNCOVER + script, "sh", path])

    def protect(self, work: Work) -> None:
        """Make the mount point, and let nobody write into it as long as nothing is mounted there."""
        mount, missing = work.entry.mount, []
        path = mount
        while not os.path.lexists(path):
            missing.append(path)
            path = os.path.dirname(path)
        created = [*reversed(missing)]
        if created:
            # On record first, so that `absent` takes them away again.
            work.given["made"] = [*work.given.get("made", []), *created]
            self.note(work.key, {**work.given, "mount": mount})
            # Another user, who may write in a directory above, cannot put a link in the way.
            with contextlib.suppress(UnsafePath), directory(mount, make=True):
                pass
        if os.path.realpath(mount) != mount or not os.path.isdir(mount):
            raise Failed(f"{mount} is no directory, or lies behind a link: nothing is mounted there")
        if work.mount and os.listdir(mount):
            raise Failed(
                f"{mount} has files that the mount would hide: {', '.join(os.listdir(mount)[:3])}. Move them away"
            )
        if disk_facts.point(self.run, mount).immutable is False:
            self.below('exec chattr +i "$1"', mount)

    def mount(self, work: Work, waiting: list[str]) -> None:
        entry, mounted = work.entry, False
        chosen = ",".join(entry.options)
        if work.again and not self.unmount(entry.mount):
            waiting.append(entry.mount)
            return
        if work.remount:
            self.must(["mount", "--options", f"remount,{chosen}", entry.mount])
            mounted = True
        if not mounted and (work.mount or work.again):
            self.must(["mount", "--types", entry.fs, "--options", chosen, work.device, entry.mount])
        work.given["options"] = chosen

    def release(self, key: str, given: Given, keep: t.Collection[str]) -> str:
        """Take back what was made to mount a disk; say where that has to wait. The disk itself stays as it is."""
        mount = given.get("mount", "")
        exists = disk_facts.mounts(self.run).get(mount)
        ours = exists and disk_facts.content(self.run, exists.source).uuid == given.get("uuid")
        if ours and not self.unmount(mount):
            return mount
        if mount and not os.path.ismount(mount) and disk_facts.point(self.run, mount).immutable:
            self.must(["chattr", "-i", mount])
        for path in reversed(given.get("made", [])):
            inside = any(directory == path or directory.startswith(f"{path}/") for directory in keep)
            if not inside and os.path.isdir(path) and not os.path.ismount(path) and not os.listdir(path):
                os.rmdir(path)
        self.note(key, None)
        return ""

    # --- fstab ---

    def write_fstab(self, text: str) -> None:
        """Replace the file, when findmnt finds no error that is not there already."""
        if text == disk_facts.text_of(disk_facts.FSTAB):
            return
        path = os.path.realpath(disk_facts.FSTAB)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", errors="surrogateescape") as trial:
            trial.write(text)
            trial.flush()
            before, after = (self.run(["findmnt", "--verify", "--tab-file", line]) for line in (path, trial.name))
        if after[0] != 0 and before[0] == 0:
            raise Failed(f"findmnt does not accept the new {disk_facts.FSTAB}: {(after[1] + after[2]).strip()}")
        if os.path.exists(path):
            info = os.stat(path)
            replace_file(path, text, info.st_mode & 0o7777, (info.st_uid, info.st_gid))
        else:
            replace_file(path, text)
        if os.path.isdir("/run/systemd/system"):
            self.must(["systemctl", "daemon-reload"])

    def apply(self, plan: Plan) -> list[str]:
        """Do all of it, and give the mount points where something has to wait for those who use it."""
        waiting: list[str] = []
        # First without the lines that go: systemd unmounts at once what an old line binds to a disk that is not there.
        wanted = {line.text for line in fstab.parse(plan.fstab)}
        _before, ours, _after = fstab.split(disk_facts.text_of(disk_facts.FSTAB))
        kept = [line for line in ours.split("\n") if line in wanted]
        self.write_fstab(fstab.with_lines(disk_facts.text_of(disk_facts.FSTAB), kept))
        keep = [work.entry.mount for work in plan.works]
        # The deepest first: a disk that another one is mounted in cannot be unmounted.
        for key, given in sorted(plan.gone.items(), key=lambda item: item[1].get("mount", ""), reverse=True):
            waits = self.release(key, given, keep)
            if waits:
                waiting.append(waits)
        moved = {work.key for work in plan.works} & {
            key for key, given in plan.gone.items() if given["mount"] in waiting
        }
        if moved:
            raise Failed(f"what is to be mounted elsewhere is in use: {', '.join(sorted(moved))}. Stop what uses it")
        for work in plan.works:
            if work.key in plan.gone:
                work.given.pop("made", None)
            if work.destroys:
                self.make(work)
            if work.protect or work.mount:
                self.protect(work)
            if work.mount or work.remount or work.again:
                self.mount(work, waiting)
            if self.record.get(work.key) != {**work.given, "mount": work.entry.mount}:
                self.note(work.key, {**work.given, "mount": work.entry.mount})
        self.write_fstab(plan.fstab)
        return waiting
