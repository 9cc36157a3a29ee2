# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the mounts of a host, and those of its fstab(5)."""

from __future__ import annotations

import dataclasses
import os
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Planned

# File systems that the kernel or a program makes up, that are gone after a boot, or that are a file of another file system.
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
# File systems of servers: a process that reads one waits for its server, for ever if the server is gone.
NETWORK = frozenset(
    [
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.sshfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "orangefs",
        "pvfs2",
        "smb3",
        "smbfs",
    ]
)
# File systems without the owners, modes or extended attributes of Linux; each FUSE counts as one (can_hold_layers).
_PLAIN = frozenset(["ecryptfs", "exfat", "hfs", "hfsplus", "msdos", "ntfs", "ntfs3", "vfat"])
# Their files are in the directories that they are made of. Only as / they are what a container has for a disk.
LAYERED = ("overlay", "aufs")
BY = "/dev/disk/by-"
# What fstab(5) and crypttab(5) call a device by: what is written on it, and (with the last one) what udev knows.
TAGS = ("UUID", "LABEL", "PARTUUID", "PARTLABEL")
KEYS = (*TAGS, "ID")
# Options whose value is a device of the same file system: btrfs(5), xfs(5), ext4(5).
DEVICE_OPTIONS = ("device", "logdev", "rtdev", "journal_path")
# Options of fstab(5) that mount a directory which is somewhere else already.
BIND = frozenset(["bind", "rbind"])


@dataclasses.dataclass(frozen=True)
class Mount:
    """A line of mountinfo. ``root``: which directory of the file system is mounted, ``subvolume``: of which subvolume of a btrfs;
    ``directory``: whether the target is one; ``user``: the id of the user whose program makes it up (FUSE), 0 for root's and the kernel's.
    """

    target: str
    source: str = ""
    fstype: str = ""
    root: str = "/"
    device: str = ""
    directory: bool = True
    subvolume: str = ""
    user: int = 0


def parse_mountinfo(text: str) -> list[Mount]:
    """Return the mounts of proc(5) in the order of their targets, of several on one target the last, which hides the others."""
    found: dict[str, Mount] = {}
    # Other blanks than these, such as one that does not break, are not escaped: they are a part of a name.
    for line in text.split("\n"):
        start, dash, end = line.partition(" - ")
        fields, kind = start.split(" "), end.split(" ")
        if not dash or len(fields) < 6 or len(kind) < 2:
            continue
        target = unescape(fields[4])
        options = kind[2] if len(kind) > 2 else ""
        subvolume = re.search(r"(?:^|,)subvol=([^,]*)", options) if kind[0] == "btrfs" else None
        user = re.search(r"(?:^|,)user_id=([0-9]+)(?:,|$)", options) if re.match(r"fuse(\.|blk$|$)", kind[0]) else None
        found[target] = Mount(
            target,
            unescape(kind[1]),
            kind[0],
            unescape(fields[3]),
            fields[2],
            subvolume=unescape(subvolume[1]) if subvolume else "",
            user=int(user[1]) if user else 0,
        )
    return [found[target] for target in sorted(found)]


def with_planned(mounts: t.Iterable[Mount], planned: Planned) -> list[Mount]:
    """Return the mounts as they are after earlier tasks, of which check mode only has the plan.

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
    """Return the current mounts."""
    with open(mountinfo, encoding="utf-8", errors="surrogateescape") as file:
        mounts = parse_mountinfo(file.read())
    return [
        dataclasses.replace(mount, directory=mount.fstype in NETWORK or os.path.isdir(mount.target)) for mount in mounts
    ]


@dataclasses.dataclass(frozen=True)
class FstabLine:
    """A line that mounts something: as it is written, and what its fields mean."""

    text: str
    source: str
    target: str
    fs: str
    options: tuple[str, ...]

    @property
    def devices(self) -> set[str]:
        """Return the names of all devices of the line in one form: bcachefs has several in a row, others have them in options."""
        parts = re.split(r":(?=/dev/)", self.source) if self.source.startswith("/dev/") else [self.source]
        named = (option.partition("=") for option in self.options)
        parts += [unescape(value) for option, _sign, value in named if option in DEVICE_OPTIONS]
        return {*map(device_name, parts)}


def device_name(word: str) -> str:
    """Return a device's name in one form: ``UUID=x``, ``uuid="X"`` and ``/dev/disk/by-uuid/x`` are the same."""
    kind, equals, value = word.partition("=")
    if equals and kind.upper() in KEYS:
        word = f"{BY}{kind.lower()}/" + value.strip("\"'")
    word = unescape_udev(word)
    return word.lower() if word.startswith((f"{BY}uuid/", f"{BY}partuuid/")) else word


def fstab_lines(text: str) -> t.Iterator[FstabLine]:
    """Yield the lines of fstab(5) that mount something. A line with three fields counts, as for mount(8)."""
    for line in text.split("\n"):
        fields = re.findall(r"[^ \t]+", line)
        # Anywhere but in front a # is a part of a name.
        if len(fields) >= 3 and not fields[0].startswith("#"):
            options = tuple(fields[3].split(",")) if len(fields) > 3 else ()
            source, target = unescape(fields[0]), unescape(fields[1]).rstrip("/") or "/"
            yield FstabLine(line, _without_quotes(source), target, fields[2], options)


def _without_quotes(source: str) -> str:
    """Return ``UUID=x`` for ``UUID="x"``."""
    key, sign, value = source.partition("=")
    return f"{key}={value.strip(chr(34))}" if sign and key.isupper() else source


def parse_fstab(text: str, binds: bool = True) -> list[str]:
    """Return the targets that fstab(5) mounts at boot.

    :param binds: also directories that are mounted a second time, which are no storage of their own.
    """
    found = []
    for line in fstab_lines(text):
        options = {*line.options}
        if not line.target.startswith("/") or line.fs in MADE_UP or options & {"noauto", "x-systemd.automount"}:
            continue
        if not options & BIND or (binds and line.source != line.target):
            found.append(line.target)
    return found


def read_fstab(path: str = "/etc/fstab", binds: bool = True) -> list[str]:
    """Return the targets of a file as ``parse_fstab`` does; none if there is no file."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return parse_fstab(file.read(), binds)
    except OSError:
        return []


def holds_data(mount: Mount) -> bool:
    """Return True for a file system that holds data of its own.

    What a user mounts by FUSE shows files of elsewhere (sshfs, rclone, gocryptfs, an AppImage), and root may not even enter it.
    """
    if mount.user:
        return False
    if mount.fstype in LAYERED:
        return mount.target == "/"
    return mount.fstype not in MADE_UP


def can_hold_layers(fstype: str) -> bool:
    """Return whether overlayfs works on a file system, as container engines need it: on none of a server, of FUSE, or without attributes.

    mergerfs, sshfs, ceph-fuse and rclone are ``fuse.NAME``, and NTFS and exFAT may be ``fuseblk``.
    """
    return not (fstype in NETWORK or fstype in _PLAIN or fstype.startswith("fuse"))


def same_path(path: str, other: str) -> bool:
    """Return whether two paths lead to one place: over links, with a final slash, or with ``..``."""
    return os.path.realpath(path) == os.path.realpath(other)


def is_within(path: str, directory: str) -> bool:
    """Return True if a path is a directory or is below it."""
    return directory == "/" or path == directory or path.startswith(f"{directory}/")


def unescape(field: str) -> str:
    """Return a field of fstab(5) or mountinfo without its octal escapes: they are bytes, whatever characters they form."""
    raw = field.encode("utf-8", "surrogateescape")
    raw = re.sub(rb"\\([0-3][0-7]{2})", lambda found: bytes([int(found[1], 8)]), raw)
    return raw.decode("utf-8", "surrogateescape")


def unescape_udev(text: str) -> str:
    """Return a text without the escapes of udev, as the names of its links have them: bytes in hexadecimal digits."""
    raw = re.sub(
        rb"\\x([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), text.encode("utf-8", "surrogateescape")
    )
    return raw.decode("utf-8", "surrogateescape")


def escape_udev(text: str) -> str:
    """Return the name that udev gives a link for a label: what is special in paths and shells is a byte in hexadecimal digits.

    Characters beyond ASCII stay, and bytes that form none do not.
    """
    return re.sub(
        r"[^0-9A-Za-z_#+\-.:=@\x80-\ud7ff\ue000-\U0010ffff]",
        lambda found: "".join(f"\\x{code:02x}" for code in found[0].encode("utf-8", "surrogateescape")),
        text,
    )
