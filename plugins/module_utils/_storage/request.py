# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request for disks and directories, and its problems that need no host. Pure."""

from __future__ import annotations

import dataclasses
import posixpath
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.names import NAME_REMEDY, is_name
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.sizes import parse_size
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.rows import DirectoryRow, DiskRow

# Where what is asked for would hide or become the system.
SYSTEM = (
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/sys",
    "/tmp",  # noqa: S108
    "/usr",
    "/var",
)
NOT_BELOW = ("/boot", "/dev", "/etc", "/proc", "/run", "/sys", "/usr")
# The layout of a workstation: what a role of a disk stands for when nothing else is said.
ROLES = {"data": "/data", "cache": "/data/cache", "scratch": "/scratch"}
# A disk that is missing stops no boot. What others put on a disk brings neither programs that run as root nor devices.
ALWAYS = ("noatime", "nofail", "nosuid", "nodev")
OPPOSITES = {"noatime": ("relatime", "strictatime", "atime"), "nosuid": ("suid",), "nodev": ("dev",)}
QUOTA_OPTION = "prjquota"
# What is there is a user's own: a token (HF_HOME), or code that the next user would run (wheels, packages, torch's hub).
PRIVATE = (
    *("HF_HOME", "HF_TOKEN_PATH", "TORCH_HOME", "PIP_CACHE_DIR", "UV_CACHE_DIR", "CONDA_PKGS_DIRS"),
    *(
        "XDG_CACHE_HOME",
        "TMPDIR",
        "TORCH_EXTENSIONS_DIR",
        "TRITON_CACHE_DIR",
        "TORCHINDUCTOR_CACHE_DIR",
        "NUMBA_CACHE_DIR",
    ),
)
USER = "{user}"


@dataclasses.dataclass(frozen=True)
class FileSystem:
    """``letters``: those of a label, in words; ``check``: fsck's turn at boot; ``quota``: what the kernel is built with where it has
    project quotas.
    """

    label_bytes: int
    label: str
    package: str
    letters: str = "letters, digits, `.`, `_` and `-`"
    check: int = 0
    quota: str = ""
    unix: bool = True


# Letters of any script, with spaces between them: disks of other systems are called so.
LABEL = r"[\w.-]+( +[\w.-]+)*"
FILE_SYSTEMS = {
    "ext4": FileSystem(16, LABEL, "e2fsprogs", check=2, quota="CONFIG_QFMT_V2"),
    "xfs": FileSystem(12, LABEL, "xfsprogs", quota="CONFIG_XFS_QUOTA"),
    "btrfs": FileSystem(255, LABEL, "btrfs-progs"),
    # blkid gives the label as it is written, and other systems write capitals.
    "vfat": FileSystem(11, "[A-Z0-9_-]+( +[A-Z0-9_-]+)*", "dosfstools", "[A-Z0-9_-]+", unix=False),
}


@dataclasses.dataclass(frozen=True)
class Entry:
    """A disk as it is to be. ``mode`` is -1 where the file system's root keeps what it has."""

    id: str
    serial: str
    mount: str
    fs: str = "ext4"
    label: str = ""
    partition: bool = True
    options: tuple[str, ...] = ()
    owner: str = ""
    group: str = ""
    mode: int = -1
    wipe: bool = False
    quota: bool = False

    @property
    def name(self) -> str:
        return self.serial or self.id


@dataclasses.dataclass(frozen=True)
class Directory:
    """``quota`` in bytes, 0 for none; ``acl``: entries of the default list beyond the mode, where that is ``shared``."""

    path: str
    owner: str = "root"
    group: str = "root"
    mode: int = 0o755
    acl: tuple[str, ...] = ()
    quota: int = 0
    shared: bool = False


def normal(path: str) -> str:
    # Two slashes at the beginning are something else to POSIX, and nothing to Linux.
    return posixpath.normpath("/" + path.lstrip("/")) if path.startswith("/") else path


def parse_mode(value: t.Any) -> int:
    """Return the mode, or -1. YAML reads a mode without quotes as another number."""
    return int(value, 8) if isinstance(value, str) and re.fullmatch(r"[0-7]{3,4}", value) else -1


def options(entry: DiskRow, quota: bool) -> tuple[str, ...]:
    """Return the mount options: those of every disk first, replaced by the user's options of the same kind."""
    own = [word for text in entry.get("options") or [] for word in text.split(",")]
    kept = [word for word in ALWAYS if not {*own} & {*OPPOSITES.get(word, ())}]
    return tuple(dict.fromkeys([*kept, *own, *([QUOTA_OPTION] if quota else [])]))


def read_entries(given: t.Sequence[DiskRow]) -> tuple[list[Entry], list[Problem]]:
    """Return the disks in the order in which they are mounted, and the problems of each and of pairs."""
    entries, refused = [], []
    for row in given:
        role = row.get("role") or ""
        mount = normal(row.get("mount") or ROLES.get(role, ""))
        quota, mode = bool(row.get("quota")), row.get("mode")
        entry = Entry(
            id=re.sub(r"^/dev/disk/by-id/", "", row.get("id") or ""),
            serial=(row.get("serial") or "").strip(),
            mount=mount,
            fs=row.get("fs") or "ext4",
            label=row.get("label") or posixpath.basename(mount),
            partition=row.get("partition") is not False,
            options=options(row, quota),
            owner=row.get("owner") or "",
            group=row.get("group") or "",
            mode=parse_mode(mode),
            wipe=bool(row.get("wipe")),
            quota=quota,
        )
        entries.append(entry)
        refused += [
            problem("storage_disks", f"has {entry.name or 'an entry'}, {text}", remedy)
            for text, remedy in _wrong(entry, mode)
        ]
    for duplicate in sorted(
        {entry.mount for entry in entries if [other.mount for other in entries].count(entry.mount) > 1}
    ):
        names = ", ".join(entry.name for entry in entries if entry.mount == duplicate)
        refused.append(
            problem("storage_disks", f"mounts two disks at {duplicate}: {names}", "give each a `mount` of its own")
        )
    for label in sorted(
        {entry.label for entry in entries if [other.label for other in entries].count(entry.label) > 1}
    ):
        names = ", ".join(entry.name for entry in entries if entry.label == label)
        refused.append(
            problem("storage_disks", f"labels two file systems {label!r}: {names}", "give each a `label` of its own")
        )
    return sorted(entries, key=lambda entry: (entry.mount.count("/"), entry.mount)), refused


def _wrong(entry: Entry, mode: t.Any) -> t.Iterator[tuple[str, str]]:
    if bool(entry.id) == bool(entry.serial):
        yield (
            "which is named by both `id` and `serial`, or by neither",
            "name it by one of them: `lsblk --output NAME,SERIAL,SIZE`",
        )
    if entry.fs not in FILE_SYSTEMS:
        yield f"with the file system {entry.fs}", f"choose one of {', '.join(FILE_SYSTEMS)}"
        return
    kind = FILE_SYSTEMS[entry.fs]
    if not entry.mount.startswith("/") or re.search(r"[\x00-\x1f]", entry.mount):
        yield f"with the mount point {entry.mount!r}, which is no absolute path", "set `mount`, or `role`"
    elif entry.mount in SYSTEM or any(entry.mount.startswith(f"{path}/") for path in NOT_BELOW):
        yield f"with the mount point {entry.mount}, which is the system's", "choose another, as /data"
    if len(entry.label.encode()) > kind.label_bytes:
        yield (
            f"with the label {entry.label!r} of {len(entry.label.encode())} bytes, where {entry.fs} has room for {kind.label_bytes}",
            "set a shorter `label`",
        )
    elif not re.fullmatch(kind.label, entry.label):
        yield (
            f"with the label {entry.label!r}, which {entry.fs} or fstab may read otherwise",
            f"set a `label` of {kind.letters}, with spaces between them alone",
        )
    if any(re.search(r"\s|^$|#", word) for word in entry.options):
        yield "with a mount option that is empty or has a space", "name one option for each element of `options`"
    if mode is not None and entry.mode < 0:
        yield f"with the mode {mode!r}", 'write it as "0755", in quotes'
    if entry.quota and not kind.quota:
        yield f"with quotas, which {entry.fs} has not by directory", "choose ext4 or xfs"
    if not kind.unix and (entry.owner or entry.group or mode is not None):
        yield (
            f"with an owner, a group or a mode, which {entry.fs} does not keep",
            "use the options uid=, gid= and umask=",
        )


def mount_of(path: str, entries: t.Iterable[Entry]) -> Entry | None:
    """Return the disk that holds a path: the one with the deepest mount point."""
    over = [entry for entry in entries if path == entry.mount or path.startswith(f"{entry.mount}/")]
    return max(over, key=lambda entry: len(entry.mount), default=None)


def read_directories(
    given: t.Sequence[DirectoryRow],
    users: t.Sequence[str],
    environment: t.Mapping[str, str],
    entries: t.Sequence[Entry],
) -> tuple[list[Directory], list[Problem]]:
    """Return the directories in the order in which they are made, with those of each user, and the problems."""
    refused: list[Problem] = []
    found: dict[str, Directory] = {}
    for row in given:
        path, mode, quota = normal(row["path"]), row.get("mode", "0755"), row.get("quota") or "0"
        wrong = [
            (parse_mode(mode) < 0, f"with the mode {mode!r}", 'write it as "0755", in quotes'),
            (parse_size(quota) < 0, f"with the quota {quota!r}", "write it as 500G or 2T"),
            (path in found, "twice", "say all of it in one entry"),
        ]
        refused += [problem("storage_directories", f"has {path} {text}", remedy) for so, text, remedy in wrong if so]
        if any(so for so, _problem, _remedy in wrong):
            continue
        bits = parse_mode(mode) | (0o2000 if row.get("setgid") else 0)
        found[path] = Directory(
            path,
            row.get("owner") or "root",
            row.get("group") or "root",
            bits,
            tuple(row.get("default_acl") or ()),
            parse_size(quota),
            bool(row.get("setgid")),
        )
    odd = [user for user in users if not is_name(user)]
    if odd:
        refused.append(problem("storage_users", f"has {', '.join(map(repr, odd))}, which is no user name", NAME_REMEDY))
    for name, value in sorted(environment.items()):
        path = normal(value)
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) or not re.fullmatch(r"/[A-Za-z0-9._{}/-]+", path):
            refused.append(
                problem(
                    "storage_environment",
                    f"has {name}: {value!r}, which is no variable with a plain absolute path",
                    "name it as /data/cache/hub",
                )
            )
        elif USER in path:
            for user in filter(is_name, users):
                parts = path.split("/")
                first = next(number for number, part in enumerate(parts) if USER in part)
                for last in range(first + 1, len(parts) + 1):
                    own = "/".join(parts[:last]).replace(USER, user)
                    found.setdefault(own, Directory(own, user, "", 0o700))
        elif name in PRIVATE:
            refused.append(
                problem(
                    "storage_environment",
                    f"has one {name} for all users: a token, or what one user puts there and the next one runs, would be shared",
                    f"put {USER} into the path, as {path}/{USER}, and name the users in storage_users",
                )
            )
    shared = {name: normal(value) for name, value in environment.items() if USER not in value and name not in PRIVATE}
    for name, path in sorted(shared.items()):
        if path.startswith("/") and path not in found:
            text = f"has {name} at {path}, which no entry of storage_directories makes"
            refused.append(problem("storage_environment", text, "name it there, with the group that shares it"))
    refused += list(_exchangeable(found, entries))
    for path, directory in found.items():
        entry = mount_of(path, entries)
        if entry is None:
            where = "storage_directories" if path in [normal(row["path"]) for row in given] else "storage_environment"
            refused.append(
                problem(
                    where, f"has {path}, which is on no disk of storage_disks", "name a path below the `mount` of one"
                )
            )
            continue
        if not FILE_SYSTEMS.get(entry.fs, FILE_SYSTEMS["ext4"]).unix:
            refused.append(
                problem(
                    "storage_directories",
                    f"has {path} on {entry.fs}, which keeps no owners",
                    "choose another file system",
                )
            )
        if directory.quota and not entry.quota:
            refused.append(
                problem(
                    "storage_directories",
                    f"has a quota for {path}, and the disk at {entry.mount} has none",
                    "set `quota: true` at this disk",
                )
            )
    return sorted(found.values(), key=lambda named: (named.path.count("/"), named.path)), refused


def _exchangeable(found: t.Mapping[str, Directory], entries: t.Sequence[Entry]) -> t.Iterator[Problem]:
    """Yield problems of a user's directories that others could replace, because they can write to the parent."""
    modes = {entry.mount: entry.mode for entry in entries if entry.mode >= 0}
    modes.update({path: directory.mode for path, directory in found.items()})
    for path, directory in found.items():
        above = posixpath.dirname(path)
        while directory.group == "" and len(above) > 1:
            mode = modes.get(above, 0)
            if mode & 0o022 and not mode & 0o1000:
                text = f"has {path} of one user below {above}, where others may put their own in its place"
                yield problem("storage_environment", text, f"choose another path, or the mode 0755 or 1777 for {above}")
                break
            above = posixpath.dirname(above)
