# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Generations of conda environments on a disk: where they lie, how they are read, made and taken away."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import shutil
import stat
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils import _conda_plan as conda
from ansible_collections.rigwright.workstation.plugins.module_utils import _rattler, _uv, _writable
from ansible_collections.rigwright.workstation.plugins.module_utils._conda_plan import CondaError

RECEIPT = ".json"
LOCK = ".lock"
PIP_LOCK = ".pip.txt"
FILES = ".files.json"

# As many files are told by name.
MANY = 20

# CEP 22: conda and mamba change no environment that has this file, and show its message.
FROZEN = {
    "message": "Ansible keeps this environment and undoes changes by hand. Ask for packages in conda_environments,"
    " or make an environment of your own: conda create --name NAME --clone THIS"
}


class Store:
    """The directories of one `root`:

    envs/NAME                          link to a generation, relative
    generations/NAME/N                 its prefix
    generations/NAME/N.json, N.lock    its receipt and its lock; N.pip.txt where it has something from an index
    generations/NAME/N.files.json      its files with size and time, as they were installed
    cache/packages, index, uv          what was downloaded
    """

    def __init__(self, root: str, run_command: _uv.RunCommand) -> None:
        self.root, self.run_command = root, run_command

    def link(self, name: str) -> str:
        return os.path.join(self.root, "envs", name)

    def place(self, name: str, number: int | str = "") -> str:
        return os.path.join(self.root, "generations", name, str(number)).rstrip("/")

    def cache(self, what: str) -> str:
        return os.path.join(self.root, "cache", what)

    @contextlib.contextmanager
    def locked(self, make: bool) -> t.Iterator[None]:
        """One run at a time. The lock, on the directory itself, is gone when the process is, however it ended."""
        if make:
            os.makedirs(self.root, exist_ok=True)
        if not os.path.isdir(self.root):
            yield
            return
        directory = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield
        finally:
            os.close(directory)

    # Reading

    @property
    def foreign(self) -> str:
        """The root, where it is what an installer of conda has made."""
        return self.root if os.path.exists(os.path.join(self.root, "conda-meta")) else ""

    def names(self) -> list[str]:
        """The environments of which there is anything."""
        return _names(os.path.join(self.root, "generations"))

    def open_to_others(self) -> list[str]:
        """The directories down to the links and generations in which others than root may write."""
        places = (os.path.dirname(self.link("")), *map(self.place, ("", *self.names())))
        return sorted({directory for place in places for directory in _writable.open_to_others(place)})

    def read(self, wanted: conda.Wanted) -> conda.Environment:
        name = wanted.name
        numbers = {
            int(stem): os.path.exists(self.place(name, stem + RECEIPT))
            for stem in {entry.partition(".")[0] for entry in _names(self.place(name))}
            if stem.isdigit()
        }
        in_use, foreign = self._read_link(name)
        generations, leftovers = {}, []
        for number in sorted(number for number, ours in numbers.items() if ours):
            receipt = self._read_receipt(name, number)
            # What the link leads to is used, whatever has become of it.
            if number == in_use or (receipt.complete and os.path.isdir(self.place(name, number))):
                may_be_used = number in (in_use, wanted.generation) or conda.leads_to(wanted, receipt)
                generations[number] = self._read_generation(name, number, receipt, may_be_used)
            else:
                leftovers.append(number)
        if in_use is not None and in_use not in generations:
            in_use, foreign = None, foreign or (self.link(name) if os.path.exists(self.link(name)) else "")
        return conda.Environment(
            name=name,
            in_use=in_use,
            generations=generations,
            leftovers=leftovers,
            highest=max(numbers, default=0),
            foreign=foreign,
        )

    def _read_link(self, name: str) -> tuple[int | None, str]:
        """The generation that is linked, or what is in the way of the link."""
        path = self.link(name)
        if not os.path.lexists(path):
            return None, ""
        target = os.readlink(path) if os.path.islink(path) else ""
        base, number = os.path.split(target)
        if base == os.path.join("..", "generations", name) and number.isdigit():
            return int(number), ""
        return None, path

    def _read_receipt(self, name: str, number: int | str) -> conda.Receipt:
        path = self.place(name, f"{number}{RECEIPT}")
        try:
            with open(path, encoding="utf-8") as file:
                return conda.Receipt.from_json(json.load(file))
        except (ValueError, TypeError, KeyError) as error:
            raise CondaError(f"{path} cannot be read: {error}. Move it and {self.place(name, number)} away") from error

    def _read_generation(self, name: str, number: int, receipt: conda.Receipt, files: bool) -> conda.Generation:
        """*files*: whether to look at every file, which takes most of the time."""
        prefix = self.place(name, number)
        records = read_records(prefix)
        strange = {record: read_record(prefix, record) for record in conda.unknown_records(receipt, records)}
        distributions = read_distributions(prefix)
        return conda.Generation(
            number=number,
            receipt=receipt,
            present=conda.present_packages(receipt, conda.Found(records, distributions, strange)),
            lost=sorted(set(receipt.distributions) - set(distributions)),
            changed=self._read_changed(name, number) if files else [],
            has_lock=os.path.isfile(self.place(name, f"{number}{LOCK}")),
        )

    def _read_changed(self, name: str, number: int) -> list[str]:
        """The files of packages that are not as they were installed, in words."""
        path = self.place(name, f"{number}{FILES}")
        if not os.path.isfile(path):
            return []
        with open(path, encoding="utf-8") as file:
            installed = json.load(file)
        prefix = self.place(name, number)
        others = [file for file, state in installed.items() if _fate(f"{prefix}/{file}", state)]
        packaged = read_packaged(prefix) if others else {}
        words = []
        for file in sorted(others):
            owner = packaged.get(file, NOBODYS)
            fate = _fate(f"{prefix}/{file}", installed[file], owner.sha256)
            if fate:
                words.append(f"{file}{f' of {owner.package}' if owner.package else ''} was {fate}")
        return [
            *words[:MANY],
            *([f"{len(words) - MANY} more files were changed or removed"] if len(words) > MANY else []),
        ]

    # Writing

    def write_receipt(self, name: str, number: int, receipt: conda.Receipt) -> None:
        path = self.place(name, f"{number}{RECEIPT}")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        staged = os.path.join(os.path.dirname(path), f".{number}{RECEIPT}")
        with open(staged, "w", encoding="utf-8") as file:
            json.dump(receipt.to_json(), file, indent=1, sort_keys=True)
        os.replace(staged, path)

    def read_pip_lock(self, name: str, number: int) -> str:
        path = self.place(name, f"{number}{PIP_LOCK}")
        if not os.path.isfile(path):
            return ""
        with open(path, encoding="utf-8") as file:
            return file.read()

    def install(self, wanted: conda.Wanted, number: int, records: t.Any, pip_lock: str, uv: _uv.Uv) -> conda.Packages:
        """Make a generation, and tell its packages. Until its receipt is complete, it is none."""
        name, spec = wanted.name, wanted.spec
        prefix = self.place(name, number)
        self.write_receipt(name, number, conda.Receipt(spec))
        os.makedirs(self.cache("packages"), exist_ok=True)
        # uv's locks may be written by everybody.
        os.chmod(self.cache(""), 0o700)
        _rattler.install(name, records, prefix, self.cache("packages"))
        _rattler.write_lock(self.place(name, f"{number}{LOCK}"), spec, records)
        packages, distributions = _rattler.packages_of(records), read_distributions(prefix)
        if spec["pip"]:
            lock = pip_lock or uv.lock(wanted, prefix, distributions)
            uv.install(wanted, lock, prefix)
            with open(self.place(name, f"{number}{PIP_LOCK}"), "w", encoding="utf-8") as file:
                file.write(lock)
            new = sorted(set(read_distributions(prefix)) - set(distributions))
            packages.update({project + conda.PIP: package for project, package in map(conda.distribution, new)})
        open_to_users(prefix)
        self._compile(prefix)
        with open(self.place(name, f"{number}{FILES}"), "w", encoding="utf-8") as file:
            json.dump(read_files(prefix), file)
        receipt = conda.Receipt(
            spec=spec,
            complete=True,
            cuda=wanted.cuda,
            packages=packages,
            records=read_records(prefix),
            distributions=distributions,
        )
        # A power cut may not leave a receipt of files that never reached the disk.
        os.sync()
        self.write_receipt(name, number, receipt)
        return packages

    def _compile(self, prefix: str) -> None:
        """Compile what no package brought compiled: users may not write there, and would wait for it at every start."""
        for place in site_packages(prefix):
            python = os.path.join(prefix, "bin", os.path.basename(os.path.dirname(place)))
            if os.path.exists(python):
                # Some packages carry templates that are no Python: what cannot be compiled stays as it is.
                self.run_command([python, "-I", "-m", "compileall", "-qq", "-j", "0", place])

    def switch(self, name: str, number: int) -> None:
        """Point the link elsewhere in one step."""
        path = self.link(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        staged = os.path.join(os.path.dirname(path), f".{name}.rigwright")
        if os.path.lexists(staged):
            os.unlink(staged)
        os.symlink(os.path.join("..", "generations", name, str(number)), staged)
        os.replace(staged, path)

    def unlink(self, name: str) -> None:
        os.unlink(self.link(name))

    def discard(self, name: str, number: int) -> None:
        """The receipt goes last: a run that is killed in between leaves a leftover, and nothing without an owner."""
        path = self.place(name, number)
        receipt = self._read_receipt(name, number)
        # What is incomplete is marked already, and a full disk would not take the mark.
        if receipt.complete:
            self.write_receipt(name, number, conda.Receipt(receipt.spec))
        if os.path.lexists(path):
            shutil.rmtree(path)
        for ending in (FILES, PIP_LOCK, LOCK, RECEIPT):
            if os.path.exists(path + ending):
                os.unlink(path + ending)

    def tidy(self, name: str) -> None:
        """Leave no empty directories behind."""
        for entry in _names(self.place(name)):
            # What write_receipt was about when it was killed.
            if entry.startswith("."):
                os.unlink(self.place(name, entry))
        for path in (self.place(name), os.path.dirname(self.place(name)), os.path.dirname(self.link(name))):
            if os.path.isdir(path) and not os.listdir(path):
                os.rmdir(path)

    def prune_cache(self) -> None:
        """Keep what a generation has: that takes no room, since its files are the same ones. Without generations, keep nothing."""
        receipts = [(name, number) for name in self.names() for number in _numbers(_names(self.place(name)), RECEIPT)]
        kept: set[str] = set()
        for name, number in receipts:
            packages = self._read_receipt(name, number).packages
            kept.update(f"{package}-{build.version}-{build.build}" for package, build in packages.items())
        for entry in _names(self.cache("packages")):
            path = os.path.join(self.cache("packages"), entry)
            if os.path.isdir(path) and entry not in kept:
                shutil.rmtree(path)
                if os.path.exists(f"{path}.lock"):
                    os.unlink(f"{path}.lock")
        if not receipts:
            shutil.rmtree(self.cache(""), ignore_errors=True)
            if not os.listdir(self.root):
                os.rmdir(self.root)


def _names(directory: str) -> list[str]:
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else []


def _numbers(names: t.Iterable[str], ending: str) -> list[int]:
    stems = (name[: -len(ending)] for name in names if name.endswith(ending))
    return [int(stem) for stem in stems if stem.isdigit()]


# What is in a prefix


def read_records(prefix: str) -> dict[str, str]:
    """What conda says is in a prefix: its records with their SHA-256. Digests take a tenth of the time of parsing."""
    folder = os.path.join(prefix, "conda-meta")
    records = {}
    for name in _names(folder):
        if name.endswith(".json"):
            with open(os.path.join(folder, name), "rb") as file:
                records[name] = hashlib.sha256(file.read()).hexdigest()
    return records


def read_record(prefix: str, record: str) -> tuple[str, conda.Package]:
    path = os.path.join(prefix, "conda-meta", record)
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        return data["name"], conda.Package(data["version"], data["build"], data.get("sha256") or "")
    except (ValueError, KeyError, TypeError):
        # Whatever it is, it does not belong there.
        return record, conda.Package("unreadable")


class Packaged(t.NamedTuple):
    """Of which package a file is, and its SHA-256 as installed; empty for a link."""

    package: str
    sha256: str


NOBODYS = Packaged("", "")


def read_packaged(prefix: str) -> dict[str, Packaged]:
    """The files that conda brought."""
    files = {}
    for record in read_records(prefix):
        with (
            contextlib.suppress(ValueError, KeyError, TypeError),
            open(os.path.join(prefix, "conda-meta", record), encoding="utf-8") as file,
        ):
            data = json.load(file)
            for row in data["paths_data"]["paths"]:
                digest = row.get("sha256_in_prefix") or row.get("sha256") or ""
                files[row["_path"]] = Packaged(data["name"], "" if row["path_type"] == "softlink" else digest)
    return files


def site_packages(prefix: str) -> list[str]:
    return glob.glob(os.path.join(glob.escape(prefix), "lib", "python3*", "site-packages"))


def read_distributions(prefix: str) -> list[str]:
    """What Python's own tools know of, whoever put it there."""
    names = {
        name for place in site_packages(prefix) for name in _names(place) if name.endswith((".dist-info", ".egg-info"))
    }
    return sorted(names)


def read_files(prefix: str) -> dict[str, list[int]]:
    """Size and time of change of every file and link, but for what is looked at otherwise, and what Python compiles and writes again."""
    files = {}
    for folder, folders, names in os.walk(prefix):
        folders[:] = [name for name in folders if not name.endswith(("__pycache__", "conda-meta", ".dist-info"))]
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for path in (os.path.join(folder, name) for name in (*names, *links)):
            state = os.lstat(path)
            files[os.path.relpath(path, prefix)] = [state.st_size, state.st_mtime_ns]
    return files


def _fate(path: str, state: t.Sequence[int], sha256: str = "") -> str:
    """What has happened to a file since it had this size and time: nothing is empty.

    With its SHA-256 another time alone says nothing: it was touched, or came back from a backup.
    """
    try:
        found = os.lstat(path)
    except OSError:
        return "removed"
    if [found.st_size, found.st_mtime_ns] == list(state):
        return ""
    is_same = (
        found.st_size == state[0] and stat.S_ISREG(found.st_mode) and sha256 and _rattler.file_digest(path) == sha256
    )
    return "" if is_same else "changed"


def open_to_users(prefix: str) -> None:
    """Have everybody read conda's records, which py-rattler keeps to itself, and nobody write uv's lock. Mark the prefix as kept."""
    lock = os.path.join(prefix, ".lock")
    if os.path.lexists(lock):
        os.unlink(lock)
    folder = os.path.join(prefix, "conda-meta")
    for name in _names(folder):
        os.chmod(os.path.join(folder, name), 0o644)
    with open(os.path.join(folder, "frozen"), "w", encoding="utf-8") as file:
        json.dump(FROZEN, file)


def processes_in(prefix: str) -> list[int]:
    """The processes that run from a prefix, or have its libraries loaded."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/maps", encoding="utf-8", errors="replace") as file:
                loaded = f"{prefix}/" in file.read()
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                called = f"{prefix}/".encode() in file.read()
        except OSError:
            # It has ended.
            continue
        if (loaded or called) and int(entry) != os.getpid():
            found.append(int(entry))
    return sorted(found)
