# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts about disks, mounts and directories of a host. Nothing is written."""

from __future__ import annotations

import dataclasses
import errno
import glob
import gzip
import json
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._storage.disks import (
    LSBLK,
    Content,
    Device,
    Disk,
    find,
    parse_content,
    parse_disks,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.model import Facts, Given, Mounted, Point
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.request import FILE_SYSTEMS, Entry

FSTAB = "/etc/fstab"
EDGE = 1 << 20
# In a namespace of its own the directory below a mount can be seen, and nobody else loses the mount.
BELOW = ("unshare", "--mount", "--propagation", "private", "sh", "-c")
UNCOVER = 'while mountpoint -q "$1"; do umount --lazy "$1" || exit 1; done; '

# Runs a command and gives its status, output and complaints.
Run = t.Callable[[t.Sequence[str]], tuple[int, str, str]]


def text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def links() -> dict[str, str]:
    """Return the links of /dev/disk with their targets."""
    return {path: os.path.realpath(path) for path in glob.glob("/dev/disk/by-*/*")}


def blank(path: str) -> bool:
    """Return whether the first and the last MiB are all zeros; False for what cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            for start in (0, max(0, size - EDGE)):
                file.seek(start)
                if any(file.read(EDGE)):
                    return False
    except OSError:
        return False
    return True


def busy(path: str) -> bool:
    """Return whether the kernel refuses exclusive access to the device, as it does for one in use."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        return error.errno == errno.EBUSY
    return False


def content(run: Run, path: str) -> Content:
    _rc, output, _err = run(["blkid", "--probe", "--output", "export", path])
    _rc, signatures, _err = run(["wipefs", "--no-act", "--json", path])
    return parse_content(output, signatures, blank(path))


def with_content(run: Run, disk: Disk) -> Disk:
    """Return the disk with its content."""

    def device(part: Device) -> Device:
        return dataclasses.replace(part, content=content(run, part.path))

    return dataclasses.replace(
        disk,
        content=content(run, disk.path),
        busy=busy(disk.path),
        partitions=tuple(device(part) for part in disk.partitions),
    )


def disks(run: Run, entries: t.Iterable[Entry]) -> tuple[Disk, ...]:
    """Return all disks, with the content of those that are requested."""
    _rc, output, _err = run(LSBLK)
    found = parse_disks(output, links())
    requested = {disk.path for entry in entries for disk in find(found, entry.id, entry.serial)}
    return tuple(with_content(run, disk) if disk.path in requested else disk for disk in found)


def mounts(run: Run) -> dict[str, Mounted]:
    """Return the mounts by mount point; of two at one point the upper one counts. A source is a device, whichever subvolume is mounted."""
    _rc, output, _err = run(["findmnt", "--json", "--list", "--nofsroot", "--output", "TARGET,SOURCE,OPTIONS"])
    return {
        row["target"]: Mounted(os.path.realpath(row["source"]), frozenset((row["options"] or "").split(",")))
        for row in (json.loads(output)["filesystems"] if output.strip() else [])
        if row["source"]
    }


def point(run: Run, path: str) -> Point:
    """Return the state of a mount point, below what is mounted there.

    What lies behind a link would be mounted under another name, and by systemd not at all.
    """
    if os.path.realpath(path) != path:
        return Point(exists=True, directory=False)
    if not os.path.lexists(path):
        return Point()
    if not os.path.isdir(path):
        return Point(exists=True, directory=False)
    script = f'{UNCOVER}ls -A "$1" | head -n 4; echo; lsattr -d "$1"'
    _rc, output, _err = run([*BELOW, script, "sh", path])
    names, _empty, flags = output.rpartition("\n\n") if "\n\n" in output else ("", "", output.lstrip("\n"))
    immutable = "i" in flags.split()[0] if flags.strip() else None
    return Point(exists=True, names=tuple(names.split("\n")) if names else (), immutable=immutable)


def holds_files(run: Run, device: Device) -> bool:
    """Return whether an unfinished file system has files: somebody has mounted it. Nothing is written, no log replayed."""
    kind = device.content.kind
    if kind not in FILE_SYSTEMS:
        return False
    without_log = {"ext4": ",noload", "xfs": ",norecovery"}.get(kind, "")
    script = 'mount --no-mtab --types "$1" --options "ro$2" "$3" /run || exit 0; ls -A /run; cd /; umount /run'
    _rc, output, _err = run([*BELOW, script, "sh", kind, without_log, device.path])
    return any(name not in ("", "lost+found") for name in output.split("\n"))


def unfinished_with_files(run: Run, disks: t.Iterable[Disk], record: t.Mapping[str, Given]) -> frozenset[str]:
    """Return devices whose file system is on record as unfinished, and that have files."""
    begun = {given.get("uuid") for given in record.values() if given.get("finished") is False} - {None, ""}
    devices = [device for disk in disks for device in (disk, *disk.partitions) if device.content.uuid in begun]
    return frozenset(device.path for device in devices if not device.mounts and holds_files(run, device))


def features(run: Run, path: str) -> frozenset[str]:
    """Return the features of an ext4."""
    _rc, output, _err = run(["dumpe2fs", "-h", path])
    rows = [line.partition(":")[2].split() for line in output.splitlines() if line.startswith("Filesystem features")]
    return frozenset(rows[0] if rows else ())


def kernel_options() -> dict[str, bool]:
    """Return the options of the kernel that quotas need; nothing where the kernel does not publish them."""
    config = text_of(f"/boot/config-{os.uname().release}")
    if not config and os.path.exists("/proc/config.gz"):
        with gzip.open("/proc/config.gz", "rt") as file:
            config = file.read()
    lines = config.splitlines()
    needed = {kind.quota for kind in FILE_SYSTEMS.values() if kind.quota}
    return {name: any(line in (f"{name}=y", f"{name}=m") for line in lines) for name in needed} if config else {}


def facts(run: Run, entries: t.Sequence[Entry], record: t.Mapping[str, Given]) -> Facts:
    found = disks(run, entries)
    quotas = any(entry.quota for entry in entries)
    ext4 = [part.path for disk in found for part in (disk, *disk.partitions) if part.content.kind == "ext4"]
    return Facts(
        disks=found,
        mounted=mounts(run),
        points={entry.mount: point(run, entry.mount) for entry in entries},
        fstab=text_of(FSTAB),
        record=record,
        features={path: features(run, path) for path in ext4} if quotas else {},
        kernel=kernel_options() if quotas else {},
        filled=unfinished_with_files(run, found, record),
    )
