# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""dataset-cache: whole, verified copies of datasets from a slow disk on a fast one.

One file, so that it can be read and copied where it is installed; Python 3.9, standard library. The role puts a shebang before it.

In the cache directory:

locks/               itself locked by whoever counts, reserves or frees space
locks/SET.lock        held for moments: by who serves, leases, renames
locks/SET.make        held by the one process that copies this dataset
requests/             bytes that users ask root's `evict --requests` to free
sets/SET/             a dataset: its name and a hash of its path
    source            the path, as JSON
    pin, used         who pinned it; number and time of the last use
    leases/           a file for each process that `get` was run for
    g000001/          a copy: `data/NAME`, `manifest`, `record.json`, and `use`, which `run` locks
    g000001.damaged   why this copy is never served again, of root, its owner or the dataset's
    .staging-*        a copy that is being made, locked by who makes it; without a lock on it and on SET.make, what a killed process left
    .trash-*          a copy that is being removed
.odd-*                folders of users that were no part of the cache and that root moved out of it

Users of a group share a cache that root made for them: only root writes the cache directory itself, and `locks`, `requests`, `sets` and
each dataset are sticky. Every part of a path is opened by the descriptor of the folder above, and no link is followed. Root makes nothing
there, and changes what a user owns with this user's rights only.

A copy becomes one by the rename of its staging directory, after everything in it is on disk. All locks are flocks: the kernel lets go of
them however a process ends. Their order is make, room, lock.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import enum
import errno
import fcntl
import grp
import hashlib
import json
import os
import pwd
import re
import secrets
import shutil
import signal
import stat
import sys
import threading
import time
import typing as t

VERSION = "1"
CONFIGURATION = "/etc/rigwright/dataset-cache.json"
SUMS = "SHA256SUMS"
FOLDERS = ("locks", "requests", "sets")
# What may be left in a dataset of which no copy is left.
ENDINGS = re.compile(r"~\d*$|\.damaged$")
GENERATION = r"g\d{6,18}"
# The largest number of a use that is read.
LAST = 10**18 - 1
ALGORITHMS = ("sha256", "blake2b")
# What is read, hashed and written in one go: larger ones fall out of the processor's caches, smaller ones cost calls.
CHUNK = 1 << 20
# Files from here on are flushed and read back one by one, all others after one flush of the file system.
LARGE = 8 << 20
BLOCK = 4096
DEEPEST = 256
# Two changes within one tick of the kernel's clock (4 to 10 ms) leave the same times behind.
TICK_NS = 50_000_000
LOOKS = 20
POLL_S = 0.1
# How long root waits for a lock that a user may hold for ever.
LOCK_S = 20.0
SERVICE_S = 120.0
CACHEDIR_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# Copies of datasets, made by dataset-cache.\n"
ZEROS = memoryview(bytes(CHUNK))
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
FOLDER = READ | os.O_DIRECTORY
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

HELP = """\
Keeps whole, verified copies of datasets from a slow disk (HDD, NFS) on a fast one, within a quota. What was used
longest ago goes first; what is pinned or in use stays.
"""

MANUAL = """\
EXAMPLES
    dataset-cache run /data/imagenet -- python train.py --data {}
    DATA=$(dataset-cache get --or-source /data/imagenet)
    dataset-cache pin /data/imagenet
    dataset-cache status
    dataset-cache evict --need 200G --dry-run

WHILE IT IS USED
    `run` keeps the copy until its command and all that it started have ended. `get` keeps it for the process that
    called it (--pid names another one) until that has ended. In a container use `run`: processes of another pid
    namespace cannot be watched, and their leases end after lease_hours.

WHAT IS PROMISED
    A path is printed only for a copy of which every byte was hashed while it was read, was flushed, and was read back
    from the disk with the same hash (--hash full); whose source was the same before and after; and whose sizes and
    times are still those of that moment. A source that has changed since is copied anew beside the old copy, which
    stays until its readers end. A source with SHA256SUMS must match it. The group reads copies, nobody writes them.

CONFIGURATION
    /etc/rigwright/dataset-cache.json, an object with
    cache            directory of the cache; it must exist
    mount            where its file system is mounted: with nothing mounted there, nothing is done
    sources          directories whose datasets may be copied
    quota, free      what copies may take together, what must stay free on the file system: "800G" (1024),
                     "800GB" (1000), "80%"
    group            the group that reads the copies
    file_mode, directory_mode            "0440", "0550"
    hash, algorithm  "full" or "once"; "auto", "sha256" or "blake2b"
    jobs             files copied at the same time; 0: by the kind of disk
    evict_service    whether root's `evict --requests` answers users
    share_private    whether files that the group may not read are copied for it
    lease_hours      how long a lease from another pid namespace counts

EXIT STATUS
    0    done
    1    a fault of this program
    2    wrong usage or configuration
    3    source refused: missing, outside of `sources`, unreadable, private, or holds what cannot be copied
    4    source corrupt: a read error, or it does not match its checksums
    5    no room: quota, free space or disk full
    6    the source changed while it was copied
    7    a copy is wrong: it differs from what was read
    8    in use or pinned
    9    not in the cache
    10   the cache cannot be used: not mounted, no permission, an error of its disk
    11   waited longer than --wait
    128+N ended by signal N; what was half made is removed
    `run` ends as its command does; where the dataset cannot be had, with the status above; 126: the command cannot be
    run, 127: it is not there
    --or-source turns 5, 6, 7, 10 and 11 into the path of the source and a warning
"""


class Exit(enum.IntEnum):
    DONE = 0
    FAULT = 1
    USAGE = 2
    SOURCE = 3
    CORRUPT = 4
    ROOM = 5
    CHANGED = 6
    WRONG = 7
    BUSY = 8
    ABSENT = 9
    CACHE = 10
    WAIT = 11


# The cache failed, not the source: reading the source itself is as right as ever.
FALL_BACK = {Exit.ROOM, Exit.CHANGED, Exit.WRONG, Exit.CACHE, Exit.WAIT}


class Failed(Exception):
    """Ends the program with a status and words for it."""

    def __init__(self, status: Exit, words: str) -> None:
        super().__init__(words)
        self.status = status


class NoRoom(Failed):
    """*others*: root could free enough."""

    def __init__(self, words: str, others: bool = False) -> None:
        super().__init__(Exit.ROOM, words)
        self.others = others


class Stopped(BaseException):
    """A signal asked the program to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


# --- words ---


def shown(text: str) -> str:
    """A name as it can be written on a terminal: no control characters, no bytes that are not UTF-8."""
    try:
        printable = os.fsencode(text).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        printable = text  # from JSON: no name that a file can have
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in printable)


def is_name(text: str) -> bool:
    """Whether a file can have it in its path."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"dataset-cache: {text}\n")
        sys.stderr.flush()


def size_words(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"


def read_size(text: str | int, whole: int = 0) -> int:
    """Bytes, from a number, ``800G`` (1024), ``800GB`` (1000) or ``80%`` of *whole*.

    :raises ValueError: it is none of these.
    """
    if isinstance(text, bool):
        raise ValueError("is not a size")
    if isinstance(text, int):
        text = str(text)
    match = re.fullmatch(r"\s*(\d{1,18}(?:\.\d{1,9})?)\s*(?:(%)|([KMGTPkmgtp]?)(iB|B)?)\s*", text, re.ASCII)
    if not match or (match[2] and float(match[1]) > 100):
        raise ValueError(f"is not a size such as 800G, 800GB or 80%: {shown(text)}")
    if match[2]:
        return int(whole * float(match[1]) / 100)
    base = 1000 if match[4] == "B" else 1024
    scale = base ** " KMGTP".index((match[3] or " ").upper())
    return int(match[1]) * scale if match[1].isdigit() else int(float(match[1]) * scale)


def read_sums(text: bytes) -> dict[str, str]:
    """SHA-256 by name, of the lines that sha256sum writes, also those of --tag.

    :raises ValueError: a line is none, or names what is outside.
    """
    found: dict[str, str] = {}
    for line in text.decode("utf-8", "surrogateescape").split("\n"):
        line = line.rstrip("\r")
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\\?)([0-9a-fA-F]{64}) [ *](.+)", line) or re.fullmatch(
            r"(\\?)SHA256 \((?P<name>.+)\) = (?P<sum>[0-9a-fA-F]{64})", line
        )
        if not match:
            raise ValueError(f"no line of sha256sum: {shown(line[:100])}")
        tagged = match.re.groupindex
        name, digest = (match["name"], match["sum"]) if tagged else (match[3], match[2])
        if match[1]:
            name = re.sub(r"\\([\\nr])", lambda found: {"n": "\n", "r": "\r"}.get(found[1], "\\"), name)
        name = os.path.normpath(name)
        if name.startswith(("/", "../")) or name == "..":
            raise ValueError(f"names a file outside: {shown(name)}")
        if found.setdefault(name, digest.lower()) != digest.lower():
            raise ValueError(f"two sums for {shown(name)}")
    return found


# --- configuration ---


class Settings(t.NamedTuple):
    cache: str
    mount: str = ""
    sources: tuple[str, ...] = ("/",)
    quota: str | int = "90%"
    free: str | int = 0
    group: str = ""
    file_mode: str = "0440"
    directory_mode: str = "0550"
    hash: str = "full"
    algorithm: str = "auto"
    jobs: int = 0
    evict_service: bool = False
    share_private: bool = False
    lease_hours: float = 24

    @property
    def modes(self) -> tuple[int, int]:
        return int(self.file_mode, 8), int(self.directory_mode, 8)


def check_settings(values: dict[str, t.Any]) -> Settings:
    """Settings of a configuration.

    :raises ValueError: what is wrong with it.
    """
    unknown = values.keys() - set(Settings._fields)
    if unknown:
        raise ValueError(f"has an unknown key: {', '.join(sorted(unknown))}")
    if not isinstance(values.get("cache"), str):
        raise ValueError("lacks `cache`, the directory of the cache (or give --cache)")
    kinds: dict[str, t.Any] = {"jobs": int, "evict_service": bool, "share_private": bool, "sources": list}
    kinds.update({"quota": (str, int), "free": (str, int), "lease_hours": (int, float)})
    for key, value in values.items():
        wanted = kinds.get(key, str)
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            raise ValueError(f"`{key}` is of the wrong kind: {shown(json.dumps(value))}")
    if not all(isinstance(path, str) and path.startswith("/") for path in values.get("sources", [])):
        raise ValueError("`sources` is not a list of absolute paths")
    settings = Settings(**{**values, "sources": tuple(values.get("sources", ("/",)))})
    for key in ("cache", "mount"):
        if getattr(settings, key) and not getattr(settings, key).startswith("/"):
            raise ValueError(f"`{key}` is not an absolute path")
    for key in ("quota", "free"):
        try:
            read_size(getattr(settings, key))
        except ValueError as error:
            raise ValueError(f"`{key}` {error}") from None
    for key, choices in (("hash", ("full", "once")), ("algorithm", ("auto", *ALGORITHMS))):
        if getattr(settings, key) not in choices:
            raise ValueError(f"`{key}` is none of {', '.join(choices)}")
    for key in ("file_mode", "directory_mode"):
        text = getattr(settings, key)
        if not re.fullmatch("0?[0-7]{3}", text) or int(text, 8) & 0o400 == 0 or int(text, 8) & 0o002:
            raise ValueError(
                f'`{key}` is not a mode such as "{Settings._field_defaults[key]}", or lets everybody write'
            )
    if settings.modes[0] & 0o222:
        raise ValueError("`file_mode` lets copies be written")
    if settings.modes[1] & 0o022:
        raise ValueError("`directory_mode` lets copies be changed")
    if settings.modes[1] & 0o100 == 0:
        raise ValueError("`directory_mode` lets nobody enter")
    if settings.jobs < 0 or settings.lease_hours < 0:
        raise ValueError("`jobs` and `lease_hours` are not below 0")
    return settings


def load_settings(path: str | None, cache: str | None) -> Settings:
    """Read the configuration; what root would believe must be root's."""
    values: t.Any = {}
    where = path or CONFIGURATION
    try:
        with open(where, encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            if os.geteuid() == 0 and (status.st_uid != 0 or status.st_mode & 0o022):
                raise Failed(Exit.USAGE, f"{where} can be changed by others than root: chown root, chmod go-w")
            values = json.load(file)
        if not isinstance(values, dict):
            raise ValueError("is no object")
    except FileNotFoundError:
        if path or not cache:
            raise Failed(Exit.USAGE, f"{where} is missing: write it, or give --cache (see --help)") from None
    except (OSError, ValueError) as error:
        raise Failed(Exit.USAGE, f"{where} cannot be used: {error}") from None
    try:
        return check_settings({**values, "cache": cache} if cache else values)
    except ValueError as error:
        raise Failed(Exit.USAGE, f"{where} {error}") from None


# --- what a source holds ---


class Entry(t.NamedTuple):
    """A file, folder or symbolic link; *path* is relative, and empty for the source itself."""

    path: str
    kind: str
    size: int
    mtime: int
    target: str
    ctime: int
    device: int
    inode: int
    links: int
    mode: int
    gid: int
    allocated: int


KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}


def entry_of(path: str, status: os.stat_result, target: str = "") -> Entry:
    kind = KINDS.get(stat.S_IFMT(status.st_mode), "other")
    regular = kind == "file"
    return Entry(
        path,
        kind,
        status.st_size if regular else 0,
        status.st_mtime_ns if regular else 0,
        target,
        # A folder's own times change with what is in it, which is looked at itself.
        status.st_ctime_ns if regular else 0,
        status.st_dev,
        status.st_ino,
        status.st_nlink if regular else 1,
        status.st_mode,
        status.st_gid,
        status.st_blocks * 512,
    )


def walk(top: str) -> t.Iterator[Entry]:
    """Everything in *top*, itself first, in a fixed order. By descriptors: a folder that becomes a link meanwhile is not followed."""
    status = os.lstat(top)
    yield entry_of("", status)
    if not stat.S_ISDIR(status.st_mode):
        return
    stack: list[tuple[int, str, t.Iterator[str]]] = []
    try:
        fd = os.open(top, FOLDER)
        stack.append((fd, "", iter(sorted(os.listdir(fd), key=os.fsencode))))
        while stack:
            fd, folder, names = stack[-1]
            name = next(names, None)
            if name is None:
                os.close(stack.pop()[0])
                continue
            path = folder + name
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            entry = entry_of(path, status, os.readlink(name, dir_fd=fd) if stat.S_ISLNK(status.st_mode) else "")
            yield entry
            if entry.kind == "folder":
                if len(stack) >= DEEPEST:
                    raise OSError(errno.ENAMETOOLONG, f"deeper than {DEEPEST} folders", path)
                below = os.open(name, FOLDER, dir_fd=fd)
                # On the stack before its names are read: whatever fails, it is closed.
                stack.append((below, path + "/", iter(())))
                stack[-1] = (below, path + "/", iter(sorted(os.listdir(below), key=os.fsencode)))
    finally:
        for left in stack:
            os.close(left[0])


class Fingerprint:
    """What a tree looks like without reading its files: names, kinds, sizes, times of change, targets of links."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.newest = 0

    def add(self, entry: Entry) -> None:
        line = f"{entry.kind}\0{entry.path}\0{entry.size}\0{entry.mtime}\0{entry.target}\0"
        self.hash.update(os.fsencode(line))
        self.newest = max(self.newest, entry.ctime)


class Seen(t.NamedTuple):
    fingerprint: str
    entries: list[Entry]


def reads_as_corrupt(error: OSError) -> bool:
    return error.errno in (errno.EIO, errno.EILSEQ, errno.EUCLEAN, errno.ESTALE, errno.ENODATA, errno.EBADMSG)


def source_failed(path: str, error: OSError) -> Failed:
    """A failure to read a source, by who has to do something about it."""
    if reads_as_corrupt(error):
        return Failed(Exit.CORRUPT, f"{shown(path)} cannot be read: {error.strerror}; check its disk")
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        return Failed(
            Exit.CHANGED, f"{shown(path)} went away while it was looked at; try again when nothing changes it"
        )
    return Failed(Exit.SOURCE, f"{shown(path)} cannot be copied: {error.strerror}")


def look(top: str, keep: bool) -> Seen:
    """Look at a source; with *keep*, remember its entries."""
    for _attempt in range(LOOKS):
        found, entries = Fingerprint(), []
        try:
            for entry in walk(top):
                found.add(entry)
                if keep:
                    entries.append(entry)
        except OSError as error:
            raise source_failed(os.path.join(top, str(error.filename or "")), error) from None
        # A file that changes within the tick of its last change would look the same afterwards.
        if not 0 <= time.time_ns() - found.newest < TICK_NS:
            return Seen(found.hash.hexdigest(), entries)
        time.sleep(TICK_NS / 1e9)
    raise Failed(Exit.CHANGED, f"{shown(top)} is being written: get it when nothing writes it")


def is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


class Source:
    """A dataset where it comes from: a folder or a file, named by its real path."""

    def __init__(self, given: str, settings: Settings) -> None:
        self.path = os.path.realpath(given)
        self.name = os.path.basename(self.path)
        cache = os.path.realpath(settings.cache)
        allowed = [os.path.realpath(path) for path in settings.sources]
        if not any(is_inside(self.path, path) for path in allowed):
            raise Failed(
                Exit.SOURCE, f"{shown(self.path)} is not inside of {', '.join(map(shown, allowed))} (`sources`)"
            )
        if is_inside(self.path, cache) or is_inside(cache, self.path):
            raise Failed(Exit.SOURCE, f"{shown(self.path)} holds the cache or lies in it")
        slug = re.sub(r"[^A-Za-z0-9._]+", "_", self.name)[:40].lstrip(".") or "dataset"
        self.set = f"{slug}-{hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]}"

    def require(self) -> None:
        try:
            status = os.stat(self.path)
        except OSError as error:
            raise Failed(
                Exit.CORRUPT if reads_as_corrupt(error) else Exit.SOURCE,
                f"{shown(self.path)}: {error.strerror}; with --offline a copy is served without its source",
            ) from None
        if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
            raise Failed(Exit.SOURCE, f"{shown(self.path)} is neither a folder nor a file")

    def place(self, entry: Entry) -> str:
        return os.path.join(self.path, entry.path) if entry.path else self.path


def check_entries(source: Source, entries: list[Entry], gid: int | None) -> None:
    """Refuse what cannot be copied, and with *gid* what that group may not read."""
    for entry in entries:
        if entry.kind == "other":
            raise Failed(Exit.SOURCE, f"{shown(source.place(entry))} is a device, a socket or a pipe: take it out")
    if gid is None:
        return
    above = [entry_of("", os.stat(path)) for path in ancestors(source.path)]
    for entry in above:
        if not may_read(entry, gid, 1):
            raise private(source.path, gid)
    for entry in entries:
        if entry.kind != "link" and not may_read(entry, gid, 4):
            raise private(source.place(entry), gid)


def ancestors(path: str) -> list[str]:
    found = []
    while os.path.dirname(path) != path:
        path = os.path.dirname(path)
        found.append(path)
    return found


def may_read(entry: Entry, gid: int, bits: int) -> bool:
    return bool(entry.mode & bits or (entry.gid == gid and entry.mode & bits << 3))


def private(path: str, gid: int) -> Failed:
    try:
        group = grp.getgrgid(gid).gr_name
    except KeyError:
        group = str(gid)
    return Failed(Exit.SOURCE, f"{shown(path)} may not be read by the group {group}, its copy could: chmod, or --share")


def copied_target(source: Source, entry: Entry) -> str:
    """Where a symbolic link of the copy points: the same file of the copy. One that leads out of the source is refused."""
    folder = os.path.dirname(source.place(entry))
    real = os.path.realpath(os.path.join(folder, entry.target))
    if not is_inside(real, source.path):
        raise Failed(
            Exit.SOURCE,
            f"{shown(source.place(entry))} is a link out of the source, to {shown(entry.target)}: "
            "name a source that holds both, or put the file in its place",
        )
    plain = os.path.normpath(os.path.join(os.path.dirname(entry.path), entry.target))
    if plain.startswith(("/", "../")) or plain == "..":
        return os.path.relpath(real, folder)
    return entry.target


# --- small tools of the file system ---


class Folder:
    """An open folder. What is in it is reached by its descriptor: no link is followed, whatever others put in its place."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def at(cls, path: str) -> Folder:
        """Open a real path, part by part."""
        found = cls(os.open("/", FOLDER))
        for name in path.split("/"):
            if name:
                with found as above:
                    found = above.folder(name, os.O_PATH)
        with found:
            return found.folder(".")

    @property
    def path(self) -> str:
        """A path that leads here, wherever somebody moves the folder."""
        return f"/proc/self/fd/{self.fd}"

    @property
    def status(self) -> os.stat_result:
        return os.fstat(self.fd)

    def folder(self, name: str, way: int = 0) -> Folder:
        return Folder(os.open(name, FOLDER | way, dir_fd=self.fd))

    def names(self) -> list[str]:
        return sorted(os.listdir(self.fd))

    def lstat(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def file(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o640) -> int:
        """Open a regular file that has no other name: with one, it would be a file from elsewhere."""
        fd = os.open(name, flags | READ, mode, dir_fd=self.fd)
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            os.close(fd)
            raise OSError(errno.ELOOP, "is no file of the cache", name)
        return fd

    def file_or_new(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o640) -> int:
        while True:
            try:
                # Not O_CREAT: Linux refuses that for a file of somebody else in a sticky folder (fs.protected_regular).
                return self.file(name, flags)
            except FileNotFoundError:
                pass
            with contextlib.suppress(FileExistsError):
                # Others may write it only where they must: who may write a file may also give it other names.
                return self.file(name, flags | os.O_CREAT | os.O_EXCL, mode)

    def read(self, name: str) -> str | None:
        """The text of a file; None when there is none that can be read."""
        try:
            fd = self.file(name)
        except OSError:
            return None
        with open(fd, encoding="utf-8", errors="replace") as file:
            try:
                return file.read(1 << 20)
            except OSError:
                return None

    def json(self, name: str) -> t.Any:
        try:
            return json.loads(self.read(name) or "null")
        except (ValueError, RecursionError):
            return None

    def replace(self, name: str, text: str, durable: bool = False) -> None:
        """Put a file in place at once or not at all. Its staging name is a fixed one: what killed processes leave does not add up."""
        staged = f"{name}~{os.geteuid()}"
        fd = self.file_or_new(staged, os.O_WRONLY)
        try:
            os.ftruncate(fd, 0)
            write_all(fd, memoryview(text.encode("utf-8")), 0)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(staged, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        if durable:
            os.fsync(self.fd)

    def write(self, name: str, text: str, durable: bool = False) -> None:
        """Write a file where it is: in a sticky folder nobody replaces the file of somebody else."""
        data = text.encode("utf-8")
        fd = self.file_or_new(name, os.O_WRONLY, 0o660)
        try:
            write_all(fd, memoryview(data), 0)
            os.ftruncate(fd, len(data))
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        if durable:
            os.fsync(self.fd)

    def make(self, name: str, mode: int, gid: int | None) -> Folder:
        """Open a folder; one that is not there yet is made, and belongs to the group."""
        try:
            os.mkdir(name, 0o700, dir_fd=self.fd)
        except FileExistsError:
            return self.folder(name)
        made = self.folder(name)
        made.give(mode, gid)
        return made

    def give(self, mode: int, gid: int | None) -> None:
        if gid is not None and self.status.st_gid != gid:
            os.fchown(self.fd, -1, gid)
        os.fchmod(self.fd, mode)

    def unlink(self, name: str) -> None:
        os.unlink(name, dir_fd=self.fd)

    def empty(self, first: str = "", depth: int = 0) -> None:
        """Remove all that is in it, folders read-only or not. *first* goes first."""
        if depth > DEEPEST:
            raise OSError(errno.ENAMETOOLONG, f"deeper than {DEEPEST} folders")
        with contextlib.suppress(PermissionError):
            os.fchmod(self.fd, 0o700)
        for name in sorted(self.names(), key=lambda name: name != first):
            status = self.lstat(name)
            if status and stat.S_ISDIR(status.st_mode):
                with self.folder(name) as below:
                    below.empty(depth=depth + 1)
                os.rmdir(name, dir_fd=self.fd)
            elif status:
                self.unlink(name)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def read_small(path: str) -> str | None:
    """The text of a file of the kernel; None when there is none that can be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return None


def write_all(fd: int, view: memoryview, position: int) -> None:
    while view:
        count = os.pwrite(fd, view, position)
        view, position = view[count:], position + count


def sync_tree(folder: Folder) -> None:
    """All of a tree is on disk: by one flush of its file system, or, where libc has none, file by file."""
    try:
        import ctypes  # costs more than all the rest of a `get` that finds its copy

        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(folder.fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    except (ImportError, AttributeError):
        for entry in walk(f"{folder.path}/."):
            if entry.kind != "link":
                below = os.open(os.path.join(folder.path, entry.path or "."), READ)
                os.fsync(below)
                os.close(below)


def is_rotational(path: str) -> bool:
    """Whether a path is on a disk that turns; False when nobody knows (network, tmpfs)."""
    number = os.stat(path).st_dev
    block = f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"
    for attribute in ("queue/rotational", "../queue/rotational"):
        answer = read_small(f"{block}/{attribute}")
        if answer is not None:
            return answer.strip() == "1"
    return False


def fastest_algorithm() -> str:
    """SHA-256 where the processor computes it (1.5 times BLAKE2b on an EPYC), BLAKE2b elsewhere (twice SHA-256)."""
    flags = read_small("/proc/cpuinfo") or ""
    return "sha256" if re.search(r"^(flags|Features)\s*:.*\b(sha_ni|sha2)\b", flags, re.MULTILINE) else "blake2b"


class Flock:
    """An open file with a lock of the kernel on it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def take(cls, fd: int, how: int = fcntl.LOCK_EX, wait: bool = True) -> Flock | None:
        """Lock an open file, which it takes over; None when somebody else has it and *wait* is False."""
        try:
            fcntl.flock(fd, how if wait else how | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        return cls(fd)

    def release(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def __enter__(self) -> Flock:
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()


# --- leases: who uses a copy ---


class Lease(t.NamedTuple):
    """That a process uses a copy. It stands in the name of a file, which is there or is not."""

    copy: str
    pid: int
    started: int
    namespace: str
    boot: str
    since: int

    @classmethod
    def of(cls, copy: str, pid: int) -> Lease:
        """:raises ProcessLookupError: there is no such process."""
        started = start_of(pid)
        if started is None:
            raise ProcessLookupError(pid)
        return cls(copy, pid, started, pid_namespace(), boot_id(), int(time.clock_gettime(time.CLOCK_BOOTTIME)))

    @classmethod
    def read(cls, name: str) -> Lease | None:
        match = re.fullmatch(rf"({GENERATION})@(\d{{1,9}})@(\d+)@(\w+)@([\w-]+)@(\d+)", name, re.ASCII)
        return cls(match[1], int(match[2]), int(match[3]), match[4], match[5], int(match[6])) if match else None

    @property
    def file(self) -> str:
        return "@".join(str(part) for part in self)

    def holds(self, hours: float) -> bool:
        """Whether its process still runs. Nothing here asks the time of day, which may jump."""
        if self.boot != boot_id():
            return False
        if self.namespace != pid_namespace():
            return 0 <= time.clock_gettime(time.CLOCK_BOOTTIME) - self.since < hours * 3600
        started = start_of(self.pid)
        return started is not None and started in (0, self.started)


def start_of(pid: int) -> int | None:
    """When a process started, in ticks since boot; 0 when it is hidden from us; None when it has ended."""
    if pid <= 0:
        return None
    text = read_small(f"/proc/{pid}/stat")
    if text:
        fields = text.rpartition(")")[2].split()
        return None if fields[0] in "ZX" else int(fields[19])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return 0
    return 0


def pid_namespace() -> str:
    try:
        return "".join(c for c in os.readlink("/proc/self/ns/pid") if c.isdigit())
    except OSError:
        return "0"


def boot_id() -> str:
    return (read_small("/proc/sys/kernel/random/boot_id") or "unknown").strip()


def process_words(pid: int) -> str:
    name = read_small(f"/proc/{pid}/comm")
    return f"{pid} ({shown(name.strip())})" if name else str(pid)


def lockers(fd: int) -> list[int]:
    """Processes that hold a flock on the file, as far as this one can see."""
    status = os.fstat(fd)
    wanted = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    found = []
    for line in (read_small("/proc/locks") or "").splitlines():
        words = line.split()
        if "FLOCK" in words and wanted in words and "->" not in words and int(words[4]) > 0:
            found.append(int(words[4]))
    return found


# --- the cache ---


class Record(t.NamedTuple):
    """What is known of a whole copy; its file is written last."""

    source: str
    name: str
    fingerprint: str
    copy_fingerprint: str
    algorithm: str
    hash: str
    manifest: str
    bytes: int
    disk: int
    files: int
    made: float
    user: str
    version: str
    whole: bool

    @classmethod
    def read(cls, folder: Folder) -> Record | None:
        try:
            record = cls(**folder.json("record.json"))
        except TypeError:
            return None
        sound = all(isinstance(value, str) for value in record[:7]) and all(
            isinstance(n, (int, float)) and 0 <= n < 1 << 62 for n in record[7:11]
        )
        sound = sound and record.algorithm in ALGORITHMS and is_name(record.source)
        named = sound and record.name not in ("", ".", "..") and "/" not in record.name and is_name(record.name)
        return record if named and record.whole is True else None


class Copy(t.NamedTuple):
    """A whole copy, or what once was one. *owner* is -1 where root does not remove it."""

    set: str
    name: str
    path: str
    record: Record | None
    damaged: str
    owner: int

    @property
    def disk(self) -> int:
        return self.record.disk if self.record else 0


class Staging(t.NamedTuple):
    set: str
    name: str
    owner: int
    need: int
    done: int
    state: dict[str, t.Any]


class Dataset(t.NamedTuple):
    """What the cache has of one source."""

    set: str
    source: str
    number: int
    used: float
    pin: str
    copies: list[Copy]
    staging: list[Staging]
    trash: list[Copy]

    def current(self) -> Copy | None:
        return next((copy for copy in self.copies if copy.record and not copy.damaged), None)


class Victim(t.NamedTuple):
    kind: str  # trash, staging, copy
    set: str
    name: str
    disk: int
    owner: int
    why: str
    source: str


class Held(t.NamedTuple):
    """A copy that nobody removes while *lock* is held."""

    set: str
    copy: str
    path: str
    lock: Flock


NOBODY = 65534
NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def open_to_others(status: os.stat_result) -> bool:
    """Whether others than root may put something else in its place, or something of theirs into it."""
    return status.st_uid != 0 or bool(status.st_mode & 0o002) or bool(status.st_mode & 0o020 and status.st_gid)


def is_sticky(status: os.stat_result) -> bool:
    return bool(status.st_mode & stat.S_ISVTX) or not status.st_mode & 0o022


class Cache:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.path = os.path.realpath(settings.cache)
        self.gid: int | None = None
        if settings.group:
            try:
                self.gid = grp.getgrnam(settings.group).gr_gid
            except KeyError:
                raise Failed(Exit.USAGE, f"there is no group {settings.group} (`group`)") from None
        if not os.path.isdir(self.path):
            raise Failed(Exit.CACHE, f"{self.path} is no directory: is its disk mounted?")
        mount = settings.mount
        if mount and not (os.path.ismount(mount) and is_inside(self.path, os.path.realpath(mount))):
            raise Failed(Exit.CACHE, f"nothing is mounted at {mount}, where the cache is to be")
        self.top = Folder.at(self.path)
        mode = 0o700 if self.gid is None else 0o3770
        made = not (os.geteuid() == 0 and open_to_others(self.top.status))
        self.locks, self.requests, self.sets = (
            self.top.make(name, mode, self.gid) if made else self.top.folder(name) for name in FOLDERS
        )
        # Root in a cache of users.
        self.guest = os.geteuid() == 0 and any(
            open_to_others(folder.status) for folder in (self.top, self.locks, self.requests, self.sets)
        )
        self.stuck: set[tuple[str, str]] = set()
        # Copies that this process found to be wrong, whether or not it may say so to others.
        self.shunned: set[tuple[int, str]] = set()
        if self.guest:
            self.require_safe()
            return
        with contextlib.suppress(OSError):
            if not self.top.lstat("CACHEDIR.TAG"):
                self.top.replace("CACHEDIR.TAG", CACHEDIR_TAG)

    def require_safe(self) -> None:
        """Only root may write the directory itself, and in those of users each may change only what is theirs."""
        wrong = [self.path] if open_to_others(self.top.status) else []
        for name, folder in zip(FOLDERS, (self.locks, self.requests, self.sets)):
            if folder.status.st_uid != 0 or not is_sticky(folder.status):
                wrong.append(self.at(name))
        if wrong:
            raise Failed(
                Exit.CACHE,
                f"root does not work where users can exchange directories: {', '.join(map(shown, wrong))}. Run the role "
                "storage again, or see docs/dataset_cache.md",
            )

    def at(self, *parts: str) -> str:
        """A path, to be shown."""
        return os.path.join(self.path, *parts)

    def size(self) -> tuple[int, int]:
        """Bytes of the file system, and of them free to users."""
        found = os.fstatvfs(self.top.fd)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    @contextlib.contextmanager
    def acting_as(self, uid: int) -> t.Iterator[None]:
        """What root changes in a folder of a user, it changes with this user's rights and the group's."""
        if not self.guest or uid == 0 or os.geteuid() != 0:
            yield
            return
        groups = os.getgroups()
        os.setgroups([])
        os.setegid(self.sets.status.st_gid)
        os.seteuid(uid)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups(groups)

    def writing(self, folder: Folder) -> t.ContextManager[None]:
        """What root writes in a folder, its owner or, where that is root, nobody writes, with the group's rights."""
        return self.acting_as(folder.status.st_uid or NOBODY)

    def lock_file(self, name: str, what: str) -> int:
        file = f"{name}.{what}"
        if not self.guest:
            return self.locks.file_or_new(file)
        try:
            return self.locks.file(file)
        except FileNotFoundError:
            with self.opened(name) as folder:
                if folder is None:
                    raise
                with self.writing(folder):
                    return self.locks.file_or_new(file)

    def take(self, name: str, what: str, wait: bool = False) -> Flock | None:
        while True:
            fd = self.lock_file(name, what)
            status = os.fstat(fd)
            if status.st_uid == os.geteuid() and status.st_mode & 0o020:
                os.fchmod(fd, 0o640)  # made by an older release
            lock = Flock.take(fd, wait=wait)
            if lock is None:
                return None
            now = self.locks.lstat(f"{name}.{what}")
            if now and (now.st_dev, now.st_ino) == (status.st_dev, status.st_ino):
                return lock
            # It was removed meanwhile: who comes later would have another one.
            lock.release()

    def lock(self, name: str, what: str) -> Flock:
        """Wait for a lock; never called with the lock of the room, which others would wait for too."""
        if not self.guest:
            return t.cast(Flock, self.take(name, what, wait=True))
        return self.patient(lambda: self.take(name, what), self.at("locks", f"{name}.{what}"))

    def try_lock(self, name: str, what: str) -> Flock | None:
        """A lock; None where somebody has it. One that a user has made unusable keeps others from this dataset alone."""
        try:
            return self.take(name, what)
        except OSError:
            return None

    def patient(self, take: t.Callable[[], Flock | None], what: str) -> Flock:
        """Wait for a lock as root: not for ever, as a user may hold it."""
        end = time.monotonic() + LOCK_S
        while True:
            lock = take()
            if lock:
                return lock
            if time.monotonic() >= end:
                raise Failed(Exit.BUSY, f"somebody holds the lock {shown(what)}: lslocks tells who")
            time.sleep(POLL_S)

    def room(self) -> Flock:
        """A lock on a folder that is always there, which nobody can exchange."""

        def take(wait: bool = False) -> Flock | None:
            return Flock.take(os.open(".", FOLDER, dir_fd=self.locks.fd), wait=wait)

        return self.patient(take, self.at("locks")) if self.guest else t.cast(Flock, take(wait=True))

    # what there is

    @contextlib.contextmanager
    def opened(self, name: str) -> t.Iterator[Folder | None]:
        """The folder of a dataset; None where there is none, or one that root does not touch."""
        try:
            folder = self.sets.folder(name)
        except OSError as error:
            if error.errno not in (*NO_FOLDER, errno.EACCES):
                raise
            yield None
            return
        with folder:
            yield None if self.guest and not is_sticky(folder.status) else folder

    def names(self) -> list[str]:
        return [name for name in self.sets.names() if not name.startswith(".")]

    def datasets(self) -> list[Dataset]:
        found = []
        for name in self.names():
            try:
                dataset = self.dataset(name)
            except OSError as error:
                if (name, "") not in self.stuck:
                    say(f"{shown(self.at('sets', name))} cannot be read: {error.strerror}")
                self.stuck.add((name, ""))
                continue
            if dataset:
                found.append(dataset)
        return found

    def dataset(self, name: str) -> Dataset | None:
        with self.opened(name) as folder:
            return self.read(folder, name) if folder else None

    def read(self, folder: Folder, name: str) -> Dataset:
        copies: list[Copy] = []
        trash: list[Copy] = []
        staging = []
        for item in folder.names():
            if re.fullmatch(GENERATION, item, re.ASCII) or item.startswith(".trash-"):
                copy = self.copy(folder, name, item)
                if copy:
                    (trash if item.startswith(".") else copies).append(copy)
            elif item.startswith(".staging-"):
                with contextlib.suppress(OSError), folder.folder(item) as stage:
                    moved = stage.status.st_uid != folder.status.st_uid and stage.lstat("record.json")
                    if moved and not self.is_live(folder, item):
                        # A whole copy, which the owner of the dataset may have renamed.
                        trash.append(t.cast(Copy, self.copy(folder, name, item)))
                        continue
                    state = stage.json("progress")
                    state = state if isinstance(state, dict) else {}
                    need, done = as_count(stage.json("need")), as_count(state.get("written"))
                    staging.append(Staging(name, item, self.owner(stage), need, done, state))
        number, _space, used = (folder.read("used") or "").strip().partition(" ")
        source = folder.json("source")
        return Dataset(
            name,
            source if isinstance(source, str) else "",
            int(number) if re.fullmatch(r"\d{1,18}", number, re.ASCII) else 0,
            float(used) if re.fullmatch(r"\d{1,11}", used, re.ASCII) else 0.0,
            folder.read("pin") or "",
            sorted(copies, key=lambda copy: -int(copy.name[1:])),
            staging,
            trash,
        )

    def owner(self, folder: Folder) -> int:
        """Whose it is. A folder that others may write, somebody may have moved here: root does not remove it."""
        return -1 if self.guest and folder.status.st_mode & 0o022 else folder.status.st_uid

    def copy(self, folder: Folder, name: str, item: str) -> Copy | None:
        """One copy; None when it is gone, or no folder."""
        path = self.at("sets", name, item)
        try:
            with folder.folder(item) as made:
                damaged = self.mark(folder, item, made.status.st_uid)
                return Copy(name, item, path, Record.read(made), damaged, self.owner(made))
        except OSError as error:
            if error.errno in NO_FOLDER:
                return None
            return Copy(name, item, path, None, "", -1)

    def mark(self, folder: Folder, item: str, owner: int) -> str:
        """Why a copy is damaged: as root, its owner or the dataset's says, or the caller for itself."""
        if (folder.status.st_ino, item) in self.shunned:
            return "damaged"
        status = None if item.startswith(".") else folder.lstat(f"{item}.damaged")
        believed = (0, owner, folder.status.st_uid or NOBODY, os.geteuid())
        # A file with another name, or that others may write, is one that somebody else moved here.
        sound = status and stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and not status.st_mode & 0o022
        if status is None or not sound or status.st_uid not in believed:
            return ""
        return folder.read(f"{item}.damaged") or "damaged"

    def used(self, datasets: list[Dataset]) -> int:
        """Bytes that copies take or will take."""
        kept = sum(copy.disk for dataset in datasets for copy in dataset.copies + dataset.trash)
        return kept + sum(staging.need for dataset in datasets for staging in dataset.staging)

    def users(self, folder: Folder, copy: Copy) -> list[str]:
        """Who uses a copy; called with the lock of its dataset, so that no new user comes."""
        # The owner of the dataset may have renamed it: whose lease it was, its name does not tell any more.
        moved = copy.name.startswith(".") and copy.owner != folder.status.st_uid
        found = [f"pin of {shown(folder.read('pin') or '')}"] if moved and folder.read("pin") else []
        with contextlib.suppress(OSError), folder.folder("leases") as leases:
            for name in leases.names():
                lease = Lease.read(name)
                if lease and (moved or lease.copy == copy.name) and lease.holds(self.settings.lease_hours):
                    found.append(process_words(lease.pid))
        try:
            with folder.folder(copy.name) as made:
                lock = Flock.take(made.file("use"), wait=False)
                if lock:
                    lock.release()
                    return found
                fd = made.file("use")
        except FileNotFoundError:
            return found
        except OSError:
            return [*found, "somebody"]
        try:
            return found + ([process_words(pid) for pid in lockers(fd)] or ["somebody"])
        finally:
            os.close(fd)

    # what is done to a dataset

    def touch(self, folder: Folder) -> None:
        """Record a use, by a number that only grows: the time of day is for people."""
        # A full disk is no reason not to serve what is on it.
        with contextlib.suppress(OSError), self.writing(folder):
            folder.write("used", f"{min(max(self.numbers(), default=0) + 1, LAST)} {int(time.time())}\n")

    def numbers(self) -> list[int]:
        found = []
        for name in self.names():
            with self.opened(name) as folder:
                number = ((folder and folder.read("used")) or "").partition(" ")[0]
            found.append(int(number) if re.fullmatch(r"\d{1,18}", number, re.ASCII) else 0)
        return found

    def open_set(self, source: Source) -> Folder:
        """The folder of a dataset; called with its lock."""
        if self.guest:
            raise self.refusal(source)
        mode = self.sets.status.st_mode & 0o7777
        folder = self.sets.make(source.set, mode, self.gid)
        try:
            folder.make("leases", mode, self.gid).close()
            if folder.json("source") != source.path:
                folder.write("source", json.dumps(source.path))
        except BaseException:
            folder.close()
            raise
        return folder

    def refusal(self, source: Source) -> Failed:
        return Failed(
            Exit.CACHE,
            f"root makes nothing in a cache of users, and it has no copy of {shown(source.path)} that root or the owner of "
            "the source made: run it as a member of the group",
        )

    def close_sets(self) -> None:
        """Forget all datasets of which nothing is left: who removed the last copy may not have been who made the dataset."""
        for dataset in self.datasets() if self.guest else ():
            if not (dataset.pin or dataset.copies or dataset.staging or dataset.trash):
                self.try_close(dataset.set)

    def try_close(self, name: str) -> None:
        lock = self.try_lock(name, "lock")
        if lock:
            with lock, contextlib.suppress(OSError):
                self.close_set(name)

    def close_set(self, name: str) -> None:
        """Forget a dataset of which nothing is left; called with its lock."""
        with self.opened(name) as folder:
            if folder is None or folder.read("pin"):
                return
            left = folder.names()
            if not all(item in ("leases", "pin", "source", "used") or ENDINGS.search(item) for item in left):
                return
            with contextlib.suppress(OSError), self.acting_as(folder.status.st_uid):
                for item in left:
                    if item == "leases":
                        with folder.folder(item) as leases:
                            for lease in leases.names():
                                leases.unlink(lease)
                        os.rmdir(item, dir_fd=folder.fd)
                    else:
                        folder.unlink(item)
                os.rmdir(name, dir_fd=self.sets.fd)

    def find(self, source: Source, fingerprint: str | None) -> Held | None:
        """A whole copy of what the source is now (None: of whatever it was), looked at and held."""
        while True:
            with self.opened(source.set) as folder:
                if folder is None:
                    return None
                with self.lock(source.set, "lock"):
                    held = self.hold(folder, source, fingerprint)
                if held is None:
                    return None
                copy, lock = held
                wrong = self.wrong(folder, copy)
                with self.lock(source.set, "lock"):
                    if not wrong:
                        self.touch(folder)
                        return Held(copy.set, copy.name, os.path.join(copy.path, "data", copy_name(copy)), lock)
                    self.condemn(folder, copy, wrong)
                lock.release()

    def hold(self, folder: Folder, source: Source, fingerprint: str | None) -> tuple[Copy, Flock] | None:
        """The newest copy that may be served; called with the lock of its dataset."""
        givers = self.givers(source.path)
        if givers is not None and folder.status.st_uid not in givers:
            # Its owner can put something else in the place of a copy.
            return None
        for copy in self.read(folder, source.set).copies:
            if not copy.record or copy.damaged or copy.record.source != source.path:
                continue
            if fingerprint in (None, copy.record.fingerprint) and (givers is None or copy.owner in givers):
                lock = self.share(folder, copy)
                if lock:
                    return copy, lock
        return None

    def givers(self, source: str) -> set[int] | None:
        """Whose copies are served; None: everybody's. Members of the group trust each other, root only who may change the source."""
        if os.geteuid() != 0:
            return None
        try:
            return {0, os.stat(source).st_uid}
        except OSError:
            return {0}

    def share(self, folder: Folder, copy: Copy) -> Flock | None:
        """Keep a copy, as `run` does."""
        with contextlib.suppress(OSError), folder.folder(copy.name) as made:
            # Nobody who works as this program does holds it otherwise here.
            return Flock.take(made.file("use"), fcntl.LOCK_SH, wait=False)
        return None

    def wrong(self, folder: Folder, copy: Copy) -> str:
        """What a look at the copy shows to be wrong with it: not its content, which is `verify`."""
        found = Fingerprint()
        try:
            with folder.folder(copy.name) as made, made.folder("data") as data:
                for entry in walk(os.path.join(data.path, copy_name(copy))):
                    found.add(entry)
        except OSError as error:
            if reads_as_corrupt(error) or error.errno in NO_FOLDER:
                return f"it cannot be read: {error.strerror}"
            raise
        fingerprint = t.cast(Record, copy.record).copy_fingerprint
        return "" if found.hash.hexdigest() == fingerprint else "names, sizes or times in it have changed"

    def condemn(self, folder: Folder, copy: Copy, why: str) -> None:
        """A copy is never served again; called with the lock of its dataset."""
        say(f"the copy {shown(copy.path)} is not used any more: {why}")
        self.shunned.add((folder.status.st_ino, copy.name))
        try:
            with self.writing(folder):
                folder.replace(f"{copy.name}.damaged", why, durable=True)
        except OSError as error:
            say(f"others cannot be told: {error.strerror}")

    def lease(self, held: Held, pid: int) -> None:
        """Keep a copy for a process; dead leases go on the way."""
        with self.lock(held.set, "lock"), self.opened(held.set) as folder:
            try:
                if folder is None:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
                with folder.folder("leases") as leases, self.writing(leases):
                    for name in leases.names():
                        old = Lease.read(name)
                        if old is None or not old.holds(self.settings.lease_hours):
                            with contextlib.suppress(OSError):
                                leases.unlink(name)
                    os.close(leases.file_or_new(Lease.of(held.copy, pid).file))
            except ProcessLookupError:
                raise Failed(Exit.USAGE, f"there is no process {pid} to keep the copy for (--pid)") from None
            except OSError as error:
                say(f"the copy may be evicted while it is used: {error.strerror}")

    # making room

    def victims(self, datasets: list[Dataset], look_at: t.Callable[[Copy], bool]) -> t.Iterator[Victim]:
        """What may go, in this order. *look_at* tells whether a copy is in use."""
        for dataset in datasets:
            for copy in dataset.trash:
                # The owner of a dataset can rename what another reads.
                if look_at(copy):
                    continue
                yield Victim("trash", copy.set, copy.name, copy.disk, copy.owner, "removed before", dataset.source)
            for staging in dataset.staging:
                if not self.is_making(staging):
                    why = "left by a process that was killed"
                    yield Victim("staging", staging.set, staging.name, staging.need, staging.owner, why, dataset.source)
        for dataset in datasets:
            # What is pinned keeps its copies, damaged ones too, until there is a whole one.
            for copy in dataset.copies if dataset.current() or not dataset.pin else ():
                if copy is not dataset.current() and not look_at(copy):
                    why = "damaged" if copy.damaged or not copy.record else "older than its source"
                    yield Victim("copy", copy.set, copy.name, copy.disk, copy.owner, why, dataset.source)
        for dataset in sorted(datasets, key=lambda dataset: (dataset.number, dataset.used, dataset.set)):
            current = dataset.current()
            if current and not dataset.pin and not look_at(current):
                why = "used longest ago"
                yield Victim("copy", current.set, current.name, current.disk, current.owner, why, dataset.source)

    def is_making(self, staging: Staging) -> bool:
        """Whether somebody makes this copy. The owner of SET.make can exchange it: who makes a copy holds its folder, too."""
        lock = self.try_lock(staging.set, "make")
        if lock is None:
            return True
        with lock, self.opened(staging.set) as folder:
            return folder is None or self.is_live(folder, staging.name)

    def is_live(self, folder: Folder, name: str) -> bool:
        try:
            lock = Flock.take(os.open(name, FOLDER, dir_fd=folder.fd), wait=False)
        except OSError:
            return True
        if lock:
            lock.release()
        return lock is None

    def is_used(self, copy: Copy) -> bool:
        lock = self.try_lock(copy.set, "lock")
        if lock is None:
            return True
        with lock, self.opened(copy.set) as folder:
            return folder is None or bool(self.users(folder, copy))

    def missing(self, datasets: list[Dataset], need: int) -> int:
        """Bytes that have to go before *need* more fit."""
        whole, free = self.size()
        quota, floor = read_size(self.settings.quota, whole), read_size(self.settings.free, whole)
        promised = sum(max(0, staging.need - staging.done) for dataset in datasets for staging in dataset.staging)
        if need > quota:
            raise NoRoom(f"{size_words(need)} are more than the quota of {size_words(quota)} (`quota`)")
        return max(self.used(datasets) + need - quota, need + promised + floor - free)

    def removable(self, victim: Victim) -> bool:
        if (victim.set, victim.name) in self.stuck:
            return False
        return victim.owner >= 0 and os.geteuid() in (0, victim.owner)

    def plan(self, need: int) -> list[Victim]:
        """What has to go before *need* bytes fit; called with the lock of the room.

        :raises NoRoom: not enough can go; then nothing should.
        """
        datasets = self.datasets()
        missing = self.missing(datasets, need)
        chosen: list[Victim] = []
        freed = others = 0
        for victim in self.victims(datasets, self.is_used) if missing > 0 or need == 0 else ():
            rest = victim.kind != "copy" or victim.why == "damaged"
            if freed >= missing and not (need == 0 and rest):
                continue
            if not self.removable(victim):
                others += victim.disk
                continue
            chosen.append(victim)
            freed += victim.disk
        if freed < missing:
            words = f"{size_words(missing - freed)} more would have to be free, and what is left is pinned, in use or not ours"
            if others:
                words += f"; {size_words(others)} of other users can go by root's `dataset-cache evict --need {need}`"
            raise NoRoom(words, freed + others >= missing)
        return chosen

    def make_room(self, need: int, told: t.Callable[[Victim], None]) -> None:
        """Have room for *need* bytes; called with the lock of the room."""
        for _attempt in range(5):
            victims = self.plan(need)
            if not victims:
                return
            for victim in victims:
                if self.dropped(victim):
                    told(victim)
            if need == 0 and self.missing(self.datasets(), 0) <= 0:
                return
        raise NoRoom("others use up what is freed; try again")

    def dropped(self, victim: Victim) -> bool:
        """Remove one thing. What one user has made so that it cannot be removed, keeps root from nothing else."""
        try:
            return self.drop(victim)
        except OSError as error:
            if not self.guest:
                raise
            say(f"{shown(self.at('sets', victim.set, victim.name))} cannot be removed: {error.strerror}")
            self.stuck.add((victim.set, victim.name))
            return False

    def drop(self, victim: Victim) -> bool:
        """Remove one thing, unless somebody has come to use it; called with the lock of the room."""
        with self.opened(victim.set) as folder:
            if folder is None:
                return False
            if victim.kind == "staging":
                lock = self.try_lock(victim.set, "make")
                if lock is None:
                    return False
                with lock:
                    if self.is_live(folder, victim.name):
                        return False
                    self.discard(folder, victim.name)
            else:
                if victim.kind == "trash" and self.is_used(Copy(victim.set, victim.name, "", None, "", victim.owner)):
                    return False
                trash = victim.name
                if victim.kind == "copy":
                    lock = self.try_lock(victim.set, "lock")
                    if lock is None:
                        return False
                    with lock:
                        copy = self.copy(folder, victim.set, victim.name)
                        if copy is None or self.users(folder, copy):
                            return False
                        current = self.read(folder, victim.set).current()
                        if folder.read("pin") and (current is None or current.name == victim.name):
                            return False
                        trash = f".trash-{victim.name}-{secrets.token_hex(4)}"
                        with self.acting_as(copy.owner):
                            os.rename(victim.name, trash, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
                            with contextlib.suppress(OSError):
                                folder.unlink(f"{victim.name}.damaged")
                self.discard(folder, trash)
        self.try_close(victim.set)
        return True

    def discard(self, above: Folder, name: str) -> None:
        """Remove a folder with all that is in it."""
        with above.folder(name) as folder:
            owner = self.owner(folder)
            if owner < 0:
                raise OSError(errno.EPERM, "others may write to it: it may be no copy", name)
            with self.acting_as(owner):
                folder.empty("data")
            with self.acting_as(owner if above is not self.top else 0):
                os.rmdir(name, dir_fd=above.fd)

    def sweep(self) -> None:
        """Take out what users put there and no program of ours did: it would keep others from their locks, or root busy for ever."""
        for folder in (self.locks, self.requests, self.sets):
            for name in folder.names():
                status = folder.lstat(name)
                if status is None:
                    continue
                is_folder = stat.S_ISDIR(status.st_mode)
                is_file = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
                if not (is_folder if folder is self.sets else is_file):
                    self.expel(folder, name, is_folder)
        for name in self.top.names():
            if name.startswith(".odd-"):
                try:
                    os.rmdir(name, dir_fd=self.top.fd)
                except OSError:
                    with contextlib.suppress(OSError):
                        self.discard(self.top, name)

    def expel(self, folder: Folder, name: str, is_folder: bool) -> None:
        try:
            if not is_folder:
                lock = None
                if folder is self.locks and stat.S_ISREG(t.cast(os.stat_result, folder.lstat(name)).st_mode):
                    lock = Flock.take(os.open(name, READ, dir_fd=folder.fd), wait=False)
                    if lock is None:
                        say(f"the lock {shown(name)} is held, and has other names: it stays")
                        return
                with lock or contextlib.nullcontext():
                    folder.unlink(name)
                return
            # Users cannot follow it there, and it may be what one of them has of another: that is kept.
            moved = f".odd-{secrets.token_hex(6)}"
            os.rename(name, moved, src_dir_fd=folder.fd, dst_dir_fd=self.top.fd)
            say(f"the folder {shown(name)} was no part of the cache and is {shown(self.at(moved))} now")
        except OSError as error:
            say(f"{shown(name)} is no part of the cache and cannot be removed: {error.strerror}")

    def ask_for_room(self, need: int) -> None:
        """Have root's service remove what other users own."""
        name = f"{need}-{os.getpid()}-{secrets.token_hex(4)}"
        os.close(self.requests.file_or_new(name))
        end = time.monotonic() + SERVICE_S
        try:
            while self.requests.lstat(name):
                if time.monotonic() > end:
                    raise NoRoom("the service that evicts for users did not answer (dataset-cache-evict.service)")
                time.sleep(POLL_S)
        finally:
            with contextlib.suppress(OSError):
                self.requests.unlink(name)


def copy_name(copy: Copy) -> str:
    return t.cast(Record, copy.record).name


def as_count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 62 else 0


# --- progress ---


class Progress:
    """How far a copy is: a bar on a terminal, a line every ten seconds elsewhere, and a file for those who wait."""

    def __init__(self, name: str, quiet: bool, what: str = "copying") -> None:
        self.name, self.quiet, self.what = shown(name), quiet, what
        self.terminal = not quiet and sys.stderr.isatty()
        self.lock = threading.Lock()
        self.done = self.written = self.total = 0
        # How often each byte is counted: once when it is copied, once more when it is read back.
        self.passes = 1
        self.first: tuple[float, int] | None = None
        self.folder: Folder | None = None
        self.told = self.filed = time.monotonic()
        self.drawn = False

    def add(self, count: int, written: int = 0) -> None:
        with self.lock:
            self.done += count
            self.written += written

    def tick(self) -> None:
        """Called now and then by the one who waits for the work."""
        now = time.monotonic()
        if self.folder and now - self.filed >= 1:
            self.filed = now
            state = {"done": self.done // self.passes, "written": self.written, "total": self.total}
            with contextlib.suppress(OSError):
                self.folder.replace("progress", json.dumps(state))
        self.show(self.done // self.passes, self.total)

    def show(self, done: int, total: int) -> None:
        now = time.monotonic()
        # Who waits comes in the middle: only what is done from then on tells how fast it is.
        self.first = self.first or (now, done)
        if self.quiet or now - self.told < (0.2 if self.terminal else 10):
            return
        self.told = now
        share = done / total if total else 0.0
        rate = (done - self.first[1]) / max(now - self.first[0], 0.001)
        left = f"{clock(max(total - done, 0) / rate)} left" if rate > 0 and total else ""
        text = f"{self.what} {self.name}: {share:4.0%} of {size_words(total)}, {size_words(rate)}/s {left}"
        if self.terminal:
            columns = shutil.get_terminal_size().columns
            room = columns - len(text) - 4
            drawn = f" [{'#' * int(room * share)}{' ' * (room - int(room * share))}]" if room >= 10 else ""
            sys.stderr.write(f"\r\x1b[K{(text + drawn)[: columns - 1]}")
            sys.stderr.flush()
            self.drawn = True
        else:
            say(text)

    def end(self) -> None:
        if self.drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self.drawn = False


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(min(seconds, 359_999)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


# --- copying ---


class Options(t.NamedTuple):
    hash: str
    jobs: int
    quiet: bool
    wait: float | None
    offline: bool
    share: bool
    sums: str | None
    expect: str | None


class Workers:
    """Threads that take work from one list; the first failure stops all of them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.stop = threading.Event()
        self.failures: list[BaseException] = []

    def each(self, work: t.Callable[[t.Any], None], items: t.Iterable[t.Any], tick: t.Callable[[], None]) -> None:
        waiting = iter(items)
        guard = threading.Lock()

        def run() -> None:
            try:
                while not self.stop.is_set():
                    with guard:
                        item = next(waiting, None)
                    if item is None:
                        return
                    work(item)
            except BaseException as error:  # noqa: BLE001 - it is raised again in the main thread
                self.failures.append(error)
                self.stop.set()

        threads = [threading.Thread(target=run, daemon=True) for _number in range(self.count)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(POLL_S)
                    tick()
        except BaseException:
            self.stop.set()
            for thread in threads:
                thread.join()
            raise
        if self.failures:
            raise self.failures[0]

    def check(self) -> None:
        if self.stop.is_set():
            raise Stopped(0)


def write_failed(error: OSError) -> Failed:
    if error.errno in FULL:
        return Failed(Exit.ROOM, f"the disk of the cache is full: {error.strerror}")
    return Failed(Exit.CACHE, f"the cache cannot be written: {error.strerror}")


class Buffer(threading.local):
    """One for each thread."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(CHUNK))


class Making:
    """The making of one copy; its caller holds the dataset's SET.make."""

    def __init__(self, cache: Cache, source: Source, options: Options) -> None:
        self.cache, self.source, self.options = cache, source, options
        self.settings = cache.settings
        self.progress = Progress(source.name, options.quiet)
        self.sums: dict[str, str] = {}
        self.digests: dict[str, str] = {}
        self.targets: dict[str, str] = {}
        self.workers = Workers(options.jobs or self.job_count())
        self.buffer = Buffer()
        self.drop_source = False
        self.folder: Folder | None = None
        self.stage: Folder | None = None
        self.name = self.top = self.shown = ""
        self.algorithm = ""
        self.full = options.hash == "full"

    def job_count(self) -> int:
        # A disk that turns loses more by seeking than it gains by a longer queue.
        return 2 if is_rotational(self.source.path) else max(2, min(8, os.cpu_count() or 2))

    def run(self) -> Held:
        seen = look(self.source.path, keep=True)
        shares = self.options.share or self.settings.share_private
        check_entries(self.source, seen.entries, None if shares else self.cache.gid)
        self.targets = {entry.path: copied_target(self.source, entry) for entry in seen.entries if entry.kind == "link"}
        self.read_expected(seen.entries)
        self.algorithm = "sha256" if self.sums else self.settings.algorithm
        if self.algorithm == "auto":
            self.algorithm = fastest_algorithm()
        try:
            self.reserve(self.need(seen.entries))
            self.fill(seen)
            return self.finish(seen)
        except OSError as error:
            raise write_failed(error) from None
        finally:
            self.progress.end()
            self.clear()

    def clear(self) -> None:
        """Take away what was not finished; what cannot be is the next one's, or root's."""
        self.progress.folder = None
        if self.stage and self.folder and self.name:
            with contextlib.suppress(OSError):
                self.stage.empty("data")
                os.rmdir(self.name, dir_fd=self.folder.fd)
        for folder in (self.stage, self.folder):
            if folder:
                folder.close()
        with contextlib.suppress(OSError), self.cache.lock(self.source.set, "lock"):
            self.cache.close_set(self.source.set)

    def read_expected(self, entries: list[Entry]) -> None:
        """Which SHA-256 files are to have: by --expect, by --sums or by the source's own list."""
        files = {entry.path for entry in entries if entry.kind == "file"}
        if self.options.expect:
            if files != {""}:
                raise Failed(Exit.USAGE, "--expect is for a source that is one file; --sums names a list")
            self.sums = {"": self.options.expect.lower()}
            return
        path = self.options.sums or (os.path.join(self.source.path, SUMS) if SUMS in files else "")
        if not path:
            return
        try:
            with open(path, "rb") as file:
                self.sums = read_sums(file.read())
        except OSError as error:
            raise (
                source_failed(path, error) if not self.options.sums else Failed(Exit.USAGE, f"{shown(path)}: {error}")
            ) from None
        except ValueError as error:
            raise Failed(Exit.CORRUPT, f"{shown(path)}: {error}") from None
        if files == {""}:
            self.sums = {"": self.sums[self.source.name]} if self.source.name in self.sums else {}
            if not self.sums:
                raise Failed(Exit.CORRUPT, f"{shown(path)} does not name {shown(self.source.name)}")
        missing = [name for name in self.sums if name not in files]
        if missing:
            raise Failed(
                Exit.CORRUPT, f"{shown(missing[0])} is missing, which {shown(path)} names ({len(missing)} in all)"
            )

    def need(self, entries: list[Entry]) -> int:
        """Bytes on disk that the copy takes at most."""
        total, inodes = BLOCK, set()
        for entry in entries:
            if entry.links > 1:
                if (entry.device, entry.inode) in inodes:
                    continue
                inodes.add((entry.device, entry.inode))
            size = entry.size
            # Fewer blocks than bytes: holes, or a file system that compresses. Only the extents tell.
            if entry.kind == "file" and size > CHUNK and entry.allocated < size:
                with contextlib.suppress(OSError):
                    size = self.data_size(entry)
            total += (size + BLOCK - 1) // BLOCK * BLOCK if entry.kind == "file" else BLOCK
            total += 200 + len(entry.path)  # its line of the manifest
        return total

    def data_size(self, entry: Entry) -> int:
        fd = os.open(self.source.place(entry), READ)
        try:
            return sum(end - start for start, end in extents(fd, entry.size))
        finally:
            os.close(fd)

    def reserve(self, need: int) -> None:
        """Have room, and promise it to this copy."""

        def told(victim: Victim) -> None:
            if not self.options.quiet:
                say(f"evicted {shown(victim.source or victim.set)} ({size_words(victim.disk)}, {victim.why})")

        while True:
            with self.cache.room():
                self.clear_left()
                try:
                    self.cache.make_room(need, told)
                except NoRoom as error:
                    if not (error.others and self.settings.evict_service):
                        raise
                    short = True
                else:
                    if self.make_stage(need):
                        return
                    short = False
            if short:
                self.cache.ask_for_room(need)
            else:
                time.sleep(POLL_S)

    def clear_left(self) -> None:
        """This process holds SET.make: whoever made what is there is gone."""
        with self.cache.opened(self.source.set) as folder:
            for staging in self.cache.read(folder, self.source.set).staging if folder else ():
                with contextlib.suppress(OSError):
                    if not self.cache.is_live(t.cast(Folder, folder), staging.name):
                        self.cache.discard(t.cast(Folder, folder), staging.name)

    def make_stage(self, need: int) -> bool:
        """Begin the copy; False while somebody has the lock of the dataset, for which nobody waits with that of the room."""
        lock = self.cache.take(self.source.set, "lock")
        if lock is None:
            return False
        with lock:
            self.folder = self.cache.open_set(self.source)
            name = f".staging-{secrets.token_hex(6)}"
            self.stage = self.folder.make(name, 0o700, None)
            fcntl.flock(self.stage.fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # nobody else can have opened it
            self.stage.give(0o2750, self.cache.gid)
            if self.stage.status.st_uid != os.geteuid():
                raise Failed(Exit.CACHE, f"somebody else writes in {self.cache.at('sets', self.source.set)}")
            self.name = name
        self.stage.replace("need", str(need))
        # Nobody else enters it: below, paths are as safe as descriptors.
        self.stage.make("data", 0o2700, None).close()
        # By the descriptor: the owner of the dataset's folder may exchange what has a name in it.
        self.top = os.path.join(self.stage.path, "data", self.source.name)
        self.shown = self.cache.at("sets", self.source.set, name, "data", self.source.name)
        self.progress.folder = self.stage
        return True

    def place(self, entry: Entry) -> str:
        return os.path.join(self.top, entry.path) if entry.path else self.top

    def fill(self, seen: Seen) -> None:
        """Copy everything, flush it, and read it back."""
        firsts: dict[tuple[int, int], Entry] = {}
        files, again = [], []
        for entry in seen.entries:
            if entry.kind == "folder":
                os.mkdir(self.place(entry), 0o700)
            elif entry.kind == "link":
                os.symlink(self.targets[entry.path], self.place(entry))
            elif entry.links > 1 and firsts.setdefault((entry.device, entry.inode), entry) is not entry:
                again.append(entry)
            else:
                files.append(entry)
        self.progress.total = size = sum(entry.size for entry in files)
        self.progress.passes = 2 if self.full else 1
        self.drop_source = size > memory_available() // 2
        # Inodes lie on a disk in the order in which they were made, mostly; and so does what they hold.
        files.sort(key=lambda entry: (entry.device, entry.inode))
        self.workers.each(self.copy_file, files, self.progress.tick)
        for entry in again:
            first = firsts[entry.device, entry.inode]
            os.link(self.place(first), self.place(entry), follow_symlinks=False)
            self.digests[entry.path] = self.digests[first.path]
            self.check_sum(entry)
        sync_tree(t.cast(Folder, self.stage))
        if self.full:
            small = [entry for entry in files if entry.size < LARGE]
            self.workers.each(self.read_back, small, self.progress.tick)

    def copy_file(self, entry: Entry) -> None:
        path, target = self.source.place(entry), self.place(entry)
        mode = self.settings.modes[0] | (0o110 if entry.mode & 0o100 else 0)
        try:
            fd = os.open(path, READ)
        except OSError as error:
            raise source_failed(path, error) from None
        try:
            self.same(entry, os.fstat(fd))
            if entry.size >= LARGE:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            out = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
            try:
                self.digests[entry.path] = self.stream(fd, out, entry)
                self.same(entry, os.fstat(fd))
                os.utime(out, ns=(entry.mtime, entry.mtime))
                if self.full and entry.size >= LARGE:
                    os.fsync(out)
            finally:
                os.close(out)
            if self.drop_source:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
        self.check_sum(entry)
        if self.full and entry.size >= LARGE:
            self.read_back(entry)

    def same(self, entry: Entry, status: os.stat_result) -> None:
        if entry_of(entry.path, status)[1:8] != entry[1:8]:
            raise Failed(
                Exit.CHANGED,
                f"{shown(self.source.place(entry))} changed while it was copied; get it when nothing writes it",
            )

    def check_sum(self, entry: Entry) -> None:
        wanted = self.sums.get(entry.path)
        if wanted and wanted != self.digests[entry.path]:
            raise Failed(
                Exit.CORRUPT,
                f"{shown(self.source.place(entry))} is corrupt: its SHA-256 is {self.digests[entry.path]}, not {wanted}",
            )

    def check_link(self, path: str, target: str) -> None:
        """A link of the copy leads to where the source's leads."""
        ends = []
        for top in (self.source.path, self.top):
            place = os.path.join(top, path)
            end = os.path.realpath(
                os.path.join(os.path.dirname(place), target if top == self.top else os.readlink(place))
            )
            ends.append(os.path.relpath(end, os.path.realpath(top)))
        if ends[0] != ends[1]:
            raise Failed(
                Exit.SOURCE, f"{shown(path)} is a link that leads out of the source and back: make it relative"
            )

    def stream(self, fd: int, out: int, entry: Entry) -> str:
        """Copy what a file holds, holes as holes; the hash of what was read."""
        digest = hashlib.new(self.algorithm)
        position = 0
        sparse = entry.allocated < entry.size
        for start, end in extents(fd, entry.size) if sparse else [(0, entry.size)]:
            feed_zeros(digest, start - position, self.workers.check)
            position = start
            while position < end:
                view = self.buffer.view[: min(CHUNK, end - position)]
                count = self.read(fd, view, position, entry)
                digest.update(view[:count])
                write_all(out, view[:count], position)
                position += count
                self.progress.add(count, count)
                self.workers.check()
        if position < entry.size:
            feed_zeros(digest, entry.size - position, self.workers.check)
        if sparse:
            os.ftruncate(out, entry.size)
        return digest.hexdigest()

    def read(self, fd: int, view: memoryview, position: int, entry: Entry) -> int:
        try:
            count = os.preadv(fd, [view], position)
        except OSError as error:
            raise source_failed(self.source.place(entry), error) from None
        if count == 0:
            raise Failed(Exit.CHANGED, f"{shown(self.source.place(entry))} became shorter while it was copied")
        return count

    def read_back(self, entry: Entry) -> None:
        """What is on the disk is what was read: asked of the disk, as far as the kernel lets go of its pages."""
        path = self.place(entry)
        found = hash_file(path, self.algorithm, entry.size, self.buffer.view, self.workers.check)
        if found != self.digests[entry.path]:
            raise Failed(
                Exit.WRONG,
                f"{shown(os.path.join(self.shown, entry.path))} was read back otherwise than it was written: "
                "check the disk of the cache",
            )
        self.progress.add(entry.size)

    def finish(self, seen: Seen) -> Held:
        """Make it a copy, if the source is still what it was."""
        stage, above = t.cast(Folder, self.stage), t.cast(Folder, self.folder)
        self.unchanged(seen)
        for path, target in self.targets.items():
            self.check_link(path, target)
        folder_mode = self.settings.modes[1]
        for entry in seen.entries:
            if entry.kind == "folder":
                os.chmod(self.place(entry), folder_mode)
        manifest = self.write_manifest(seen.entries)
        for name in ("need", "progress"):
            with contextlib.suppress(FileNotFoundError):
                stage.unlink(name)
        fingerprint, disk = self.look_at_copy(seen.entries)
        files = [entry for entry in seen.entries if entry.kind == "file"]
        record = Record(
            self.source.path,
            self.source.name,
            seen.fingerprint,
            fingerprint,
            self.algorithm,
            self.options.hash,
            manifest,
            sum(entry.size for entry in files),
            disk,
            len(files),
            time.time(),
            user_name(os.geteuid()),
            VERSION,
            True,
        )
        self.write_file("record.json", json.dumps(record._asdict(), indent=1))
        self.write_file("use", "")
        with stage.folder("data") as data:
            os.fchmod(data.fd, folder_mode)
        os.fchmod(stage.fd, folder_mode | 0o2000)
        sync_tree(stage)
        lock = t.cast(Flock, Flock.take(stage.file("use"), fcntl.LOCK_SH))
        with self.cache.lock(self.source.set, "lock"):
            name = next_generation(above.names())
            os.rename(self.name, name, src_dir_fd=above.fd, dst_dir_fd=above.fd)
            self.name = ""
            os.fsync(above.fd)
            self.cache.touch(above)
        path = self.cache.at("sets", self.source.set, name, "data", self.source.name)
        return Held(self.source.set, name, path, lock)

    def unchanged(self, seen: Seen) -> None:
        now = look(self.source.path, keep=True)
        if [entry[:8] for entry in now.entries] == [entry[:8] for entry in seen.entries]:
            return
        before, after = ({entry.path: entry[:8] for entry in entries} for entries in (seen.entries, now.entries))
        changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        names = ", ".join(shown(path or self.source.name) for path in changed[:3])
        raise Failed(
            Exit.CHANGED,
            f"{shown(self.source.path)} changed while it was copied ({names}); get it when nothing writes it",
        )

    def look_at_copy(self, entries: list[Entry]) -> tuple[str, int]:
        """The copy's fingerprint and its bytes on disk, when it has the shape of its source."""
        found, disk, inodes, shape = Fingerprint(), BLOCK, set(), []
        for entry in walk(self.top):
            found.add(entry)
            shape.append((entry.path, entry.kind, entry.size))
            if (entry.device, entry.inode) not in inodes:
                disk += entry.allocated
            if entry.links > 1:
                inodes.add((entry.device, entry.inode))
        if shape != [(entry.path, entry.kind, entry.size) for entry in entries]:
            raise Failed(Exit.WRONG, "the copy has not the files of its source: somebody else writes in the cache")
        return found.hash.hexdigest(), disk + t.cast(
            os.stat_result, t.cast(Folder, self.stage).lstat("manifest")
        ).st_size

    def write_manifest(self, entries: list[Entry]) -> str:
        """A line of JSON for each thing in the copy; the SHA-256 of them all."""
        digest = hashlib.sha256()
        fd = t.cast(Folder, self.stage).file("manifest", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with open(fd, "wb", buffering=CHUNK) as file:
            os.fchmod(fd, self.settings.modes[0])
            for entry in entries:
                row: dict[str, t.Any] = {"path": entry.path, "kind": entry.kind}
                if entry.kind == "file":
                    row.update(size=entry.size, hash=self.digests[entry.path])
                elif entry.kind == "link":
                    row.update(target=self.targets[entry.path])
                line = json.dumps(row).encode("ascii") + b"\n"
                digest.update(line)
                file.write(line)
        return digest.hexdigest()

    def write_file(self, name: str, text: str) -> None:
        stage = t.cast(Folder, self.stage)
        stage.replace(name, text)
        fd = stage.file(name)
        try:
            os.fchmod(fd, self.settings.modes[0])
        finally:
            os.close(fd)


def next_generation(names: list[str]) -> str:
    """The name of the next copy, beside what is there; a user may have left the largest that is read."""
    taken = {int(match[1]) for name in names for match in [re.match(r"g(\d{6,18})(?!\d)", name, re.ASCII)] if match}
    number = max((number for number in taken if number < 10**17), default=0) + 1
    while number in taken:
        number += 1
    return f"g{number:06}"


def extents(fd: int, size: int) -> t.Iterator[tuple[int, int]]:
    """Where a file has data."""
    position = 0
    while position < size:
        try:
            start = os.lseek(fd, position, os.SEEK_DATA)
            end = os.lseek(fd, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            if error.errno != errno.EINVAL:
                raise
            start, end = position, size
        if start < size:
            yield start, min(end, size)
        position = end


def feed_zeros(digest: t.Any, count: int, check: t.Callable[[], None]) -> None:
    while count > 0:
        digest.update(ZEROS[: min(count, CHUNK)])
        count -= CHUNK
        check()


def hash_file(path: str, algorithm: str, size: int, buffer: memoryview, check: t.Callable[[], None]) -> str:
    """The hash of a file as the disk has it; something that no file can have where its size differs."""
    fd = os.open(path, READ)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        digest, position = hashlib.new(algorithm), 0
        while stat.S_ISREG(os.fstat(fd).st_mode):
            count = os.preadv(fd, [buffer], position)
            if count == 0:
                return digest.hexdigest() if position == size else f"{position} bytes"
            digest.update(buffer[:count])
            position += count
            check()
        return "no file"
    finally:
        os.close(fd)


def memory_available() -> int:
    match = re.search(r"^MemAvailable:\s+(\d+) kB", read_small("/proc/meminfo") or "", re.MULTILINE)
    return int(match[1]) * 1024 if match else 1 << 62


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


# --- commands ---


def obtain(cache: Cache, source: Source, options: Options) -> Held:
    """A whole copy of the source as it is now, held; made when there is none, by one process at a time."""
    waiting, told = Progress(source.name, options.quiet, "waiting for"), False
    end = None if options.wait is None else time.monotonic() + options.wait
    while True:
        if not options.offline:
            source.require()
        held = cache.find(source, None if options.offline else look(source.path, keep=False).fingerprint)
        if held:
            return held
        if options.offline:
            raise Failed(Exit.ABSENT, f"there is no whole copy of {shown(source.path)}")
        if cache.guest:
            raise cache.refusal(source)
        lock = cache.take(source.set, "make")
        if lock:
            with lock:
                held = cache.find(source, look(source.path, keep=False).fingerprint)
                if held is None:
                    held = Making(cache, source, options).run()
                    drop_old(cache, source)
                return held
        if not options.quiet and not told:
            say(f"another process copies {shown(source.path)}; waiting for it")
            told = True
        try:
            wait_for_maker(cache, source, waiting, end)
        finally:
            waiting.end()


def wait_for_maker(cache: Cache, source: Source, waiting: Progress, end: float | None) -> None:
    while True:
        lock = cache.take(source.set, "make")
        if lock:
            lock.release()
            return
        if end is not None and time.monotonic() >= end:
            raise Failed(Exit.WAIT, f"another process still copies {shown(source.path)}")
        dataset = cache.dataset(source.set)
        for staging in dataset.staging if dataset else ():
            waiting.show(as_count(staging.state.get("done")), as_count(staging.state.get("total")))
        time.sleep(POLL_S)


def drop_old(cache: Cache, source: Source) -> None:
    """Remove copies that the new one replaces, but those in use."""
    with contextlib.suppress(OSError), cache.room():
        dataset = cache.dataset(source.set)
        for victim in cache.victims([dataset] if dataset else [], cache.is_used):
            if victim.kind == "copy" and victim.why != "used longest ago" and cache.removable(victim):
                cache.drop(victim)


def options_of(args: argparse.Namespace, settings: Settings) -> Options:
    if args.expect and not re.fullmatch("[0-9a-fA-F]{64}", args.expect):
        raise Failed(Exit.USAGE, "--expect is no SHA-256")
    return Options(
        args.hash or settings.hash,
        args.jobs or settings.jobs,
        args.quiet,
        args.wait,
        args.offline,
        args.share,
        args.sums,
        args.expect,
    )


def serve(args: argparse.Namespace) -> tuple[str, Cache | None, Held | None]:
    """The path to use: of a copy, or with --or-source of the source itself."""
    source = None
    try:
        settings = load_settings(args.config, args.cache)
        source = Source(args.source, settings)
        cache = Cache(settings)
        held = obtain(cache, source, options_of(args, settings))
        return held.path, cache, held
    except OSError as error:
        failure = Failed(Exit.CACHE, f"the cache cannot be used: {error}")
    except Failed as error:
        failure = error
    if not (args.or_source and source and failure.status in FALL_BACK):
        raise failure
    source.require()
    say(f"the source itself is used: {failure}")
    return source.path, None, None


def get(args: argparse.Namespace) -> Exit:
    path, cache, held = serve(args)
    if cache and held:
        cache.lease(held, args.pid or os.getppid())
    sys.stdout.buffer.write(os.fsencode(path) + b"\n")
    sys.stdout.buffer.flush()
    return Exit.DONE


def run(args: argparse.Namespace) -> Exit:
    """Become the command, with the lock on the copy as an open file that all its children have too."""
    if not args.command:
        raise Failed(Exit.USAGE, "no command: dataset-cache run SOURCE -- COMMAND [ARGUMENT ...]")
    path, _cache, held = serve(args)
    if held:
        os.set_inheritable(held.lock.fd, True)
    command = [part.replace("{}", path) for part in args.command]
    os.umask(args.umask)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, {**os.environ, args.env: path})  # noqa: S606 - what `run` is for
    except OSError as error:
        say(f"{shown(command[0])}: {error.strerror}")
        os._exit(127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126)


def open_cache(args: argparse.Namespace) -> Cache:
    return Cache(load_settings(args.config, args.cache))


def named(cache: Cache, given: str) -> str:
    """The dataset that is meant: by its name in the cache, or by its source, which may be gone or forbidden by now."""
    if "/" not in given and given in cache.names():
        return given
    return Source(given, cache.settings._replace(sources=("/",))).set


def chosen(cache: Cache, given: list[str]) -> list[Dataset]:
    if not given:
        return cache.datasets()
    found = [cache.dataset(named(cache, one)) for one in given]
    for dataset, one in zip(found, given):
        if dataset is None:
            raise Failed(Exit.ABSENT, f"{shown(one)} is not in the cache")
    return t.cast("list[Dataset]", found)


def pin(args: argparse.Namespace) -> Exit:
    cache = open_cache(args)
    for given in args.sources:
        name = given if "/" not in given and given in cache.names() else ""
        source = None if name else Source(given, cache.settings)
        name = name or t.cast(Source, source).set
        with cache.opened(name) as folder:
            if cache.guest and folder is None:
                raise cache.refusal(Source(given, cache.settings))
        with cache.lock(name, "lock"):
            if source and not cache.guest:
                cache.open_set(source).close()
            with cache.opened(name) as folder:
                if folder is None:
                    raise Failed(Exit.ABSENT, f"{shown(given)} is not in the cache")
                with cache.writing(folder):
                    folder.write("pin", user_name(os.getuid()), durable=True)
    return Exit.DONE


def unpin(args: argparse.Namespace) -> Exit:
    cache = open_cache(args)
    for dataset in chosen(cache, args.sources):
        with cache.lock(dataset.set, "lock"):
            with cache.opened(dataset.set) as folder:
                if folder is None or not folder.read("pin"):
                    raise Failed(Exit.ABSENT, f"{shown(dataset.source)} is not pinned")
                with cache.writing(folder):
                    folder.write("pin", "", durable=True)
            cache.close_set(dataset.set)
    return Exit.DONE


def release(args: argparse.Namespace) -> Exit:
    """Give up leases of `get` before their process ends."""
    cache = open_cache(args)
    pid = args.pid or os.getppid()
    for dataset in chosen(cache, args.sources):
        with cache.lock(dataset.set, "lock"), cache.opened(dataset.set) as folder:
            if folder is None or not folder.lstat("leases"):
                continue
            with folder.folder("leases") as leases, cache.acting_as(leases.status.st_uid):
                for name in leases.names():
                    lease = Lease.read(name)
                    if lease and (lease.pid, lease.namespace) == (pid, pid_namespace()):
                        leases.unlink(name)
    return Exit.DONE


def status(args: argparse.Namespace) -> Exit:
    cache = open_cache(args)
    datasets = chosen(cache, args.sources)
    rows = [row for dataset in datasets for row in describe(cache, dataset, args.check)]
    whole, free = cache.size()
    total: dict[str, t.Any] = {
        "cache": cache.path,
        "used": cache.used(cache.datasets()),
        "quota": read_size(cache.settings.quota, whole),
        "free": free,
        "floor": read_size(cache.settings.free, whole),
        "odd": [cache.at(name) for name in cache.top.names() if name.startswith(".odd-")],
    }
    if args.json:
        sys.stdout.write(json.dumps({**total, "datasets": rows}, indent=2) + "\n")
        return Exit.DONE
    table = [("SIZE", "LAST USED", "STATE", "PIN", "IN USE BY", "SOURCE")]
    for row in rows:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["last_used"])) if row["last_used"] else "never"
        state = row["state"] + (f" {row['done']:.0%}" if row["state"] == "making" else "")
        pinned = shown(row["pinned_by"]) if row["pinned"] else ""
        table.append((size_words(row["size"]), used, state, pinned, ", ".join(row["in_use_by"]), shown(row["source"])))
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        sys.stdout.write("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() + "\n")
    sys.stdout.write(
        f"{size_words(total['used'])} of {size_words(total['quota'])} used, {size_words(free)} free on the file system\n"
    )
    for path in total["odd"]:
        sys.stdout.write(f"{shown(path)} was no part of the cache: remove it by hand\n")
    return Exit.DONE


def describe(cache: Cache, dataset: Dataset, check: bool) -> list[dict[str, t.Any]]:
    """A row for each copy, for one that is being made, or for the mere wish to keep one."""
    common: dict[str, t.Any] = {
        "name": dataset.set,
        "source": dataset.source,
        "last_used": dataset.used or None,
        "pinned": bool(dataset.pin),
        "pinned_by": dataset.pin or None,
        "path": None,
        "made": None,
        "files": None,
        "done": None,
        "in_use_by": [],
    }
    rows = []
    current = dataset.current()
    for copy in dataset.copies:
        state = "whole" if copy is current else "damaged" if copy.damaged or not copy.record else "superseded"
        if check and state == "whole":
            # A member of the group may have written what its source is.
            with cache.acting_as(copy.owner if copy.owner >= 0 else NOBODY):
                state = compare(t.cast(Record, copy.record))
        record = copy.record
        path = os.path.join(copy.path, "data", record.name) if record else copy.path
        found = {"path": path, "made": record.made, "files": record.files} if record else {}
        users = look_who(cache, copy)
        rows.append({**common, **found, "state": state, "size": copy.disk, "in_use_by": users})
    for staging in dataset.staging:
        state = "making" if cache.is_making(staging) else "interrupted"
        done = min(1.0, staging.done / staging.need) if staging.need else 0.0
        rows.append({**common, "state": state, "size": staging.need, "done": done})
    for copy in dataset.trash:
        rows.append({**common, "state": "removed", "size": copy.disk})
    return rows or [{**common, "state": "absent", "size": 0}]


def look_who(cache: Cache, copy: Copy) -> list[str]:
    """Who uses a copy, for those who only want to know: whoever has its lock for longer keeps nobody waiting."""
    end = time.monotonic() + 1
    while True:
        lock = cache.try_lock(copy.set, "lock")
        if lock:
            with lock, cache.opened(copy.set) as folder:
                return cache.users(folder, copy) if folder else []
        if time.monotonic() >= end:
            return ["somebody"]
        time.sleep(POLL_S)


def compare(record: Record) -> str:
    """Whether a copy is what its source is now."""
    try:
        return "whole" if look(record.source, keep=False).fingerprint == record.fingerprint else "stale"
    except (Failed, OSError):
        return "sourceless"


def evict(args: argparse.Namespace) -> Exit:
    cache = open_cache(args)
    need = 0
    if args.need:
        try:
            need = read_size(args.need, cache.size()[0])
        except ValueError as error:
            raise Failed(Exit.USAGE, f"--need {error}") from None

    def told(victim: Victim) -> None:
        if not args.quiet or args.dry_run:
            name = shown(victim.source or victim.set)
            sys.stdout.write(
                f"{'would evict' if args.dry_run else 'evicted'} {name}: {size_words(victim.disk)}, {victim.why}\n"
            )
            sys.stdout.flush()

    with cache.room():
        if cache.guest:
            cache.sweep()
        for name in cache.requests.names() if args.requests else []:
            wanted = re.match(r"\d{1,18}(?=-)", name, re.ASCII)
            if wanted:
                # The user hears from its own attempt when there is no room still.
                with contextlib.suppress(NoRoom):
                    cache.make_room(int(wanted[0]), told)
            with contextlib.suppress(OSError):
                cache.requests.unlink(name)
        if args.dry_run:
            collections.deque(map(told, cache.plan(need)), maxlen=0)
        else:
            cache.make_room(need, told)
            cache.close_sets()
    return Exit.DONE


def remove(args: argparse.Namespace) -> Exit:
    cache = open_cache(args)
    for dataset in chosen(cache, args.sources):
        make = cache.take(dataset.set, "make")
        if make is None:
            raise Failed(Exit.BUSY, f"{shown(dataset.source)} is being copied")
        with make, cache.room(), cache.opened(dataset.set) as folder:
            if folder is None:
                raise Failed(Exit.ABSENT, f"{shown(dataset.source)} is not in the cache")
            dataset = cache.read(folder, dataset.set)  # as it is now that nobody changes it
            if dataset.pin:
                raise Failed(Exit.BUSY, f"{shown(dataset.source)} is pinned: dataset-cache unpin")
            for copy in dataset.copies:
                users = look_who(cache, copy)
                if users:
                    raise Failed(Exit.BUSY, f"{shown(dataset.source)} is used by {', '.join(users)}")
            for copy, kind in [(copy, "copy") for copy in dataset.copies] + [(copy, "trash") for copy in dataset.trash]:
                victim = Victim(kind, copy.set, copy.name, copy.disk, copy.owner, "rm", "")
                if not cache.removable(victim):
                    owner = user_name(copy.owner) if copy.owner >= 0 else "somebody who lets others write to it"
                    raise Failed(Exit.CACHE, f"the copy belongs to {owner}: let them or root remove it")
                if not cache.drop(victim):
                    raise Failed(Exit.BUSY, f"{shown(dataset.source)} is in use")
            for staging in dataset.staging:
                if cache.is_live(folder, staging.name):
                    raise Failed(Exit.BUSY, f"{shown(dataset.source)} is being copied")
                cache.discard(folder, staging.name)
            cache.try_close(dataset.set)
    return Exit.DONE


def verify(args: argparse.Namespace) -> Exit:
    cache = open_cache(args)
    wrong, failed = 0, Exit.DONE
    for dataset in chosen(cache, args.sources):
        for copy in dataset.copies:
            try:
                with cache.opened(dataset.set) as folder:
                    wrong += bool(folder) and not verified(cache, t.cast(Folder, folder), copy, args)
            except (OSError, ValueError, MemoryError, Failed) as error:
                # What a user has made so that it cannot be read keeps nobody from the others.
                say(f"{shown(copy.path)} cannot be verified: {error}")
                failed = error.status if isinstance(error, Failed) else Exit.CACHE
    return Exit.WRONG if wrong else failed


def verified(cache: Cache, folder: Folder, copy: Copy, args: argparse.Namespace) -> bool:
    with cache.lock(copy.set, "lock"):
        lock = cache.share(folder, copy) if copy.record and not copy.damaged else None
    if lock is None:
        if not folder.lstat(copy.name):
            return True
        if copy.record and not copy.damaged:
            raise Failed(Exit.BUSY, "somebody has locked it")
        say(f"{shown(copy.path)}: {shown(copy.damaged) or 'no record'}")
        return False
    with lock, folder.folder(copy.name) as made:
        # Others may have made it so that root would read what they may not.
        with cache.acting_as(made.status.st_uid):
            found = Verifying(cache, folder, copy, made, args).run()
        if found:
            with cache.lock(copy.set, "lock"):
                cache.condemn(folder, copy, found)
        elif not args.quiet:
            sys.stdout.write(f"{shown(t.cast(Record, copy.record).source)}: as it was copied\n")
        return not found


class Verifying:
    """Reads a copy again, and with --source its source too."""

    def __init__(self, cache: Cache, folder: Folder, copy: Copy, made: Folder, args: argparse.Namespace) -> None:
        self.cache, self.folder, self.copy, self.made = cache, folder, copy, made
        self.record = t.cast(Record, copy.record)
        self.top = os.path.join(made.path, "data", self.record.name)
        self.with_source = args.with_source
        self.progress = Progress(self.record.name, args.quiet, "verifying")
        self.workers = Workers(args.jobs or cache.settings.jobs or max(2, min(8, os.cpu_count() or 2)))
        self.buffer = Buffer()

    def run(self) -> str:
        """What is wrong with the copy; nothing, when all is well."""
        wrong = self.cache.wrong(self.folder, self.copy)
        if wrong:
            return wrong
        try:
            with open(self.made.file("manifest"), "rb") as file:
                text = file.read()
            if hashlib.sha256(text).hexdigest() != self.record.manifest:
                return "its manifest has changed"
            rows = [json.loads(line) for line in text.splitlines()]
            files = [row for row in rows if row["kind"] == "file"]
            if not all(isinstance(row["path"], str) and is_name(row["path"]) and row["hash"] for row in files):
                return "its manifest is none"
            self.progress.total = sum(row["size"] for row in files)
        except OSError as error:
            return f"its manifest cannot be read: {error.strerror}"
        except (ValueError, TypeError, KeyError, RecursionError):
            return "its manifest is none"
        self.progress.passes = 2 if self.with_source else 1
        try:
            self.workers.each(self.check, files, self.progress.tick)
        except Failed as error:
            return str(error)
        finally:
            self.progress.end()
        return ""

    def check(self, row: dict[str, t.Any]) -> None:
        for top in (self.top, self.record.source) if self.with_source else (self.top,):
            path = os.path.join(top, row["path"]) if row["path"] else top
            try:
                found = hash_file(path, self.record.algorithm, row["size"], self.buffer.view, self.workers.check)
            except OSError as error:
                raise Failed(Exit.WRONG, f"{shown(path)} cannot be read: {error.strerror}") from None
            if found != row["hash"]:
                raise Failed(Exit.WRONG, f"{shown(path)} is not what was copied")
            self.progress.add(row["size"])


# --- the command line ---


def parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    for option, words in (
        ("config", f"another configuration than {CONFIGURATION}"),
        ("cache", "another directory of the cache"),
    ):
        shared.add_argument(f"--{option}", metavar="PATH", default=argparse.SUPPRESS, help=words)
    shared.add_argument(
        "-q", "--quiet", action="store_true", default=argparse.SUPPRESS, help="no progress, only failures"
    )
    top = argparse.ArgumentParser(
        "dataset-cache",
        description=HELP,
        epilog=MANUAL,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[shared],
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"dataset-cache {VERSION}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, work: t.Callable[[argparse.Namespace], Exit], words: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=words, description=words, parents=[shared], allow_abbrev=False)
        made.set_defaults(work=work)
        return made

    jobs = {"type": int, "default": 0, "metavar": "N", "help": "files at the same time (default: by the kind of disk)"}
    for name, work, words in (
        ("get", get, "print the path of the whole copy; make it when it is missing"),
        ("run", run, "run a command (after --) with the copy, which stays until it ends; {} in it is the path"),
    ):
        made = command(name, work, words)
        made.add_argument("source", metavar="SOURCE")
        made.add_argument(
            "--hash", choices=("full", "once"), help="read the copy back from the disk (full), or not (once)"
        )
        made.add_argument("--jobs", **t.cast(t.Any, jobs))
        made.add_argument("--or-source", action="store_true", help="where the cache fails, give the path of the source")
        made.add_argument("--offline", action="store_true", help="serve a whole copy without looking at its source")
        made.add_argument(
            "--wait", type=float, metavar="S", help="seconds to wait for another process that copies (default: no end)"
        )
        made.add_argument("--sums", metavar="FILE", help=f"SHA-256 of the files (default: {SUMS} in the source)")
        made.add_argument("--expect", metavar="SHA256", help="the SHA-256 of a source that is one file")
        made.add_argument("--share", action="store_true", help="copy also what the group may not read in the source")
        if name == "get":
            made.add_argument("--pid", type=int, help="the process to keep the copy for (default: the caller)")
        else:
            made.add_argument(
                "--env", default="DATASET_CACHE_PATH", metavar="NAME", help="variable with the path (%(default)s)"
            )
    for name, work, words in (
        ("pin", pin, "never evict it"),
        ("unpin", unpin, "let it be evicted again"),
        ("release", release, "end what `get` keeps for a process before that ends"),
        ("rm", remove, "remove its copies"),
    ):
        made = command(name, work, words)
        made.add_argument("sources", nargs="+", metavar="SOURCE")
        if name == "release":
            made.add_argument("--pid", type=int, help="the process (default: the caller)")
    made = command("status", status, "what there is: size, last use, state, pin, users")
    made.add_argument("sources", nargs="*", metavar="SOURCE")
    made.add_argument("--json", action="store_true", help="for programs")
    made.add_argument(
        "--check", action="store_true", help="look at the sources: a copy may be stale, or its source gone"
    )
    made = command("evict", evict, "remove what was used longest ago, until under the quota")
    made.add_argument("--dry-run", action="store_true", help="only tell")
    made.add_argument("--need", metavar="SIZE", help="until this much more fits")
    made.add_argument(
        "--requests", action="store_true", help="answer users who need room that others hold (root's service)"
    )
    made = command("verify", verify, "read copies again; a wrong one is never served any more")
    made.add_argument("sources", nargs="*", metavar="SOURCE")
    made.add_argument("--jobs", **t.cast(t.Any, jobs))
    made.add_argument(
        "--source", dest="with_source", action="store_true", help="compare with what the sources hold, too"
    )
    return top


def on_signal(number: int, _frame: object) -> None:
    raise Stopped(number)


def main(arguments: list[str]) -> int:
    command: list[str] = []
    if "run" in arguments and "--" in arguments:
        cut = arguments.index("--")
        arguments, command = arguments[:cut], arguments[cut + 1 :]
    args = parser().parse_args(arguments)
    for name, value in (("config", None), ("cache", None), ("quiet", False)):
        setattr(args, name, getattr(args, name, value))
    args.command = command
    # What is made belongs to the group as a whole; the command of `run` gets its own mask back.
    args.umask = os.umask(0o007)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, on_signal)
    try:
        return int(args.work(args))
    except Failed as error:
        say(str(error))
        return int(error.status)
    except Stopped as stopped:
        return 128 + stopped.number
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        say(f"the cache cannot be used: {error}")
        return int(Exit.CACHE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
