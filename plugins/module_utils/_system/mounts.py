# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""What is mounted, and what fstab(5) wants mounted."""

from __future__ import annotations

import dataclasses
import os
import re
import typing as t

# What the kernel or a program makes up, what is gone with the next boot, and images that are a file of another file system.
MADE_UP = frozenset(
    [
        "autofs",
        "binfmt_misc",
        "bpf",
        "cgroup",
        "cgroup2",
        "configfs",
        "debugfs",
        "devpts",
        "devtmpfs",
        "efivarfs",
        "erofs",
        "fuse.gvfsd-fuse",
        "fuse.lxcfs",
        "fuse.portal",
        "fuse.snapfuse",
        "fuse.squashfuse",
        "fuse.xrdp-chansrv",
        "fusectl",
        "hugetlbfs",
        "iso9660",
        "mqueue",
        "nfsd",
        "nsfs",
        "pipefs",
        "proc",
        "pstore",
        "ramfs",
        "rootfs",
        "rpc_pipefs",
        "securityfs",
        "selinuxfs",
        "sockfs",
        "squashfs",
        "swap",
        "sysfs",
        "tmpfs",
        "tracefs",
        "udf",
    ]
)
# What a server holds: who asks for it waits for the server, for ever where that is gone.
NETWORK = frozenset(
    [
        "9p",
        "afs",
        "ceph",
        "cifs",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.sshfs",
        "glusterfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
    ]
)
# Its files lie in the directories that it is made of. Only as / it is what a container has for a disk.
LAYERED = ("overlay", "aufs")
# Options of fstab(5) that mount a directory which is somewhere else already.
BIND = frozenset(["bind", "rbind"])


@dataclasses.dataclass(frozen=True)
class Mount:
    """A line of mountinfo. ``root``: which directory of the file system is mounted, ``subvolume``: of which subvolume of a btrfs;
    ``directory``: whether the target is one.
    """

    target: str
    source: str = ""
    fstype: str = ""
    root: str = "/"
    device: str = ""
    directory: bool = True
    subvolume: str = ""


def parse_mountinfo(text: str) -> list[Mount]:
    """The mounts of proc(5) in the order of their targets, of several on one target the last: it hides the others."""
    found: dict[str, Mount] = {}
    # Other blanks than these, such as one that does not break, are not escaped: they are a part of a name.
    for line in text.split("\n"):
        left, dash, right = line.partition(" - ")
        fields, kind = left.split(" "), right.split(" ")
        if not dash or len(fields) < 6 or len(kind) < 2:
            continue
        target = _plain(fields[4])
        subvolume = re.search(r"(?:^|,)subvol=([^,]*)", kind[2]) if kind[0] == "btrfs" and len(kind) > 2 else None
        found[target] = Mount(
            target,
            _plain(kind[1]),
            kind[0],
            _plain(fields[3]),
            fields[2],
            subvolume=_plain(subvolume[1]) if subvolume else "",
        )
    return [found[target] for target in sorted(found)]


def with_planned(mounts: t.Iterable[Mount], planned: t.Mapping[str, t.Any]) -> list[Mount]:
    """The mounts as they are once earlier tasks have run, of which check mode only has the plan.

    :param planned: ``mounts``, each with ``target``, ``source`` and ``fstype``, and ``unmounts``, which are targets.
    """
    coming = {
        row["target"]: Mount(row["target"], row["source"], row["fstype"], device=row["source"])
        for row in planned.get("mounts") or []
    }
    gone = {*(planned.get("unmounts") or [])} | coming.keys()
    stay = {mount.target: mount for mount in mounts if mount.target not in gone}
    return [mount for _target, mount in sorted({**stay, **coming}.items())]


def read_mounts(mountinfo: str = "/proc/self/mountinfo") -> list[Mount]:
    """The mounts as they are now."""
    with open(mountinfo, encoding="utf-8", errors="surrogateescape") as file:
        mounts = parse_mountinfo(file.read())
    return [dataclasses.replace(one, directory=one.fstype in NETWORK or os.path.isdir(one.target)) for one in mounts]


def parse_fstab(text: str, binds: bool = True) -> list[str]:
    """Where fstab(5) mounts something that can be lost by itself at boot. What mount(8) takes is a line, also with three fields alone.

    :param binds: also directories that are mounted a second time, which are no storage of their own.
    """
    found = []
    for line in text.split("\n"):
        words = re.findall(r"[^ \t]+", line)
        # Anywhere but in front a # is a part of a name.
        if len(words) < 3 or words[0].startswith("#") or not words[1].startswith("/"):
            continue
        options = {*words[3].split(",")} if len(words) > 3 else set()
        if words[2] in MADE_UP or options & {"noauto", "x-systemd.automount"}:
            continue
        if not options & BIND or (binds and words[0] != words[1]):
            found.append(_plain(words[1]).rstrip("/") or "/")
    return found


def read_fstab(path: str = "/etc/fstab", binds: bool = True) -> list[str]:
    """The same of a file; nothing where there is none."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return parse_fstab(file.read(), binds)
    except OSError:
        return []


def holds_data(mount: Mount) -> bool:
    """Whether a file system is one that can be lost."""
    if mount.fstype in LAYERED:
        return mount.target == "/"
    return mount.fstype not in MADE_UP


def is_within(path: str, directory: str) -> bool:
    """Whether a path is a directory or lies below it."""
    return directory == "/" or path == directory or path.startswith(f"{directory}/")


def _plain(field: str) -> str:
    """A field without the octal escapes that the kernel puts in for blanks."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), field)
