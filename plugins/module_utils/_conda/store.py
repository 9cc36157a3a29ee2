# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Generations of conda environments on a disk: where they are, and how they are read, installed and removed."""

from __future__ import annotations

import json
import os
import shutil
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._conda import plan as conda
from ansible_collections.rigwright.workstation.plugins.module_utils._conda import rattler
from ansible_collections.rigwright.workstation.plugins.module_utils._conda import uv as conda_uv
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.plan import CondaError
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.prefix import (
    CHANGED,
    REMOVED,
    Changed,
    describe_changes,
    list_names,
    open_to_users,
    read_changed,
    read_distributions,
    read_files,
    read_record,
    read_records,
    site_packages,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core import writable
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import (
    clear_unfinished,
    replace_file,
    replace_link,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import read_file

RECEIPT = ".json"
# A list of every file of an environment is larger than files that people write.
RECEIPT_LIMIT = 1 << 28
LOCK = ".lock"
PIP_LOCK = ".pip.txt"
FILES = ".files.json"
# The files next to a prefix, except its receipt, which has their SHA-256.
BESIDE = (FILES, PIP_LOCK, LOCK)


class Store:
    """The directories of one `root`:

    envs/NAME                          link to a generation, relative
    generations/NAME/N                 its prefix
    generations/NAME/N.json, N.lock    its receipt and its lock; N.pip.txt where it has something from an index
    generations/NAME/N.files.json      its files with mode, owner, size and time, as they were installed
    cache/packages, index, uv          what was downloaded
    """

    def __init__(self, root: str, run_command: conda_uv.RunCommand) -> None:
        self.root, self.run_command = root, run_command

    def link(self, name: str) -> str:
        return os.path.join(self.root, "envs", name)

    def place(self, name: str, number: int | str = "") -> str:
        return os.path.join(self.root, "generations", name, str(number)).rstrip("/")

    def cache(self, name: str) -> str:
        return os.path.join(self.root, "cache", name)

    # Reading

    @property
    def foreign(self) -> str:
        """Return the root, if an installer of conda has made it."""
        return self.root if os.path.exists(os.path.join(self.root, "conda-meta")) else ""

    def names(self) -> list[str]:
        """Return the environments of which anything exists."""
        linked = {name for name in list_names(os.path.dirname(self.link(""))) if self._read_link(name)[0] is not None}
        return sorted({*list_names(self.place("")), *linked})

    def open_to_others(self) -> list[str]:
        """Return the directories down to links and generations in which users other than root may write."""
        places = (os.path.dirname(self.link("")), *map(self.place, ("", *self.names())))
        return sorted({directory for place in places for directory in writable.open_to_others(place)})

    def read(self, wanted: conda.Wanted) -> conda.Environment:
        name = wanted.name
        stems = {entry.partition(".")[0] for entry in list_names(self.place(name))}
        in_use, foreign = self._read_link(name)
        # A linked generation belongs to this module, also without a receipt: nobody else makes such a link.
        linked = {in_use} if in_use is not None else set()
        receipts = set(_numbers(list_names(self.place(name)), RECEIPT))
        generations, leftovers = {}, []
        for number in sorted(receipts | linked):
            receipt = self._read_receipt(name, number)
            # The linked generation counts, even if it is damaged, as long as its receipt says what it was.
            if receipt.complete and (number == in_use or os.path.isdir(self.place(name, number))):
                may_be_used = number in (in_use, wanted.generation) or conda.leads_to(wanted, receipt)
                generations[number] = self._read_generation(name, number, receipt, may_be_used)
            elif number != in_use:
                leftovers.append(number)
        return conda.Environment(
            name=name,
            in_use=in_use,
            generations=generations,
            leftovers=leftovers,
            highest=max({*linked, *(int(stem) for stem in stems if stem.isdigit())}, default=0),
            foreign=foreign,
        )

    def _read_link(self, name: str) -> tuple[int | None, str]:
        """Return the linked generation, or the path of what is in the way of the link."""
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
            # `absent` also reads a directory in which others may write.
            return conda.Receipt.from_json(json.loads(read_file(path, {0, os.geteuid()}, RECEIPT_LIMIT)))
        except FileNotFoundError:
            return conda.Receipt({})
        except (ValueError, TypeError, KeyError) as error:
            raise CondaError(f"{path} cannot be read: {error}. Move it and {self.place(name, number)} away") from error

    def _read_generation(self, name: str, number: int, receipt: conda.Receipt, files: bool) -> conda.Generation:
        """Read a generation; *files* says whether to check every file, which takes most of the time."""
        prefix = self.place(name, number)
        records = read_records(prefix)
        strange = {record: read_record(prefix, record) for record in conda.unknown_records(receipt, records)}
        distributions = read_distributions(prefix)
        damaged = self._read_damaged(name, number, receipt)
        # Without the record of its files it is unknown which have changed.
        changed = self._read_changed(name, number) if files and FILES not in damaged else []
        shared = {row.package for row in changed} & set(receipt.packages)
        return conda.Generation(
            number=number,
            receipt=receipt,
            present=conda.present_packages(receipt, conda.Found(records, distributions, strange)),
            lost=sorted(set(receipt.distributions) - set(distributions)),
            changed=[
                *(f"{number}{ending} {fate}" for ending, fate in damaged.items()),
                *describe_changes(prefix, changed),
            ],
            spoiled=[conda.archive(package, receipt.packages[package]) for package in sorted(shared)],
            has_lock=not {LOCK, PIP_LOCK} & set(damaged),
        )

    def _read_damaged(self, name: str, number: int, receipt: conda.Receipt) -> dict[str, str]:
        """Return what has happened to files next to a prefix, by their endings; unchanged files are left out."""
        found = self.read_beside(name, number)
        return {
            ending: CHANGED if ending in found else REMOVED
            for ending in BESIDE
            if found.get(ending) != receipt.beside.get(ending)
        }

    def _read_changed(self, name: str, number: int) -> list[Changed]:
        """Return the files that are not as they were installed."""
        with open(self.place(name, f"{number}{FILES}"), encoding="utf-8") as file:
            installed = json.load(file)
        return read_changed(self.place(name, number), installed)

    # Writing

    def create(self) -> None:
        """Create the root."""
        os.makedirs(self.root, exist_ok=True)

    def write_receipt(self, name: str, number: int, receipt: conda.Receipt) -> None:
        path = self.place(name, f"{number}{RECEIPT}")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        replace_file(path, json.dumps(receipt.to_json(), indent=1, sort_keys=True))

    def read_beside(self, name: str, number: int) -> dict[str, str]:
        """Return the SHA-256 of the files next to a prefix, by their endings."""
        digests = {ending: _digest(self.place(name, f"{number}{ending}")) for ending in BESIDE}
        return {ending: digest for ending, digest in digests.items() if digest}

    def read_pip_lock(self, name: str, number: int) -> str:
        path = self.place(name, f"{number}{PIP_LOCK}")
        if not os.path.isfile(path):
            return ""
        with open(path, encoding="utf-8") as file:
            return file.read()

    def install(
        self, wanted: conda.Wanted, number: int, records: t.Any, pip_lock: str, uv: conda_uv.Uv
    ) -> conda.Packages:
        """Install a generation and return its packages. It counts once its receipt is complete."""
        name, spec = wanted.name, wanted.spec
        prefix = self.place(name, number)
        self.write_receipt(name, number, conda.Receipt(spec))
        os.makedirs(self.cache("packages"), exist_ok=True)
        # uv's locks may be written by everybody.
        os.chmod(self.cache(""), 0o700)
        lock = self.place(name, f"{number}{LOCK}")
        rattler.write_lock(lock, spec, records)
        rattler.install(name, lock, records, prefix, self.cache("packages"), self.run_command)
        packages, distributions = rattler.packages_of(records), read_distributions(prefix)
        if spec["pip"]:
            pip_lock = pip_lock or uv.lock(wanted, prefix, distributions)
            uv.install(wanted, pip_lock, prefix)
            with open(self.place(name, f"{number}{PIP_LOCK}"), "w", encoding="utf-8") as file:
                file.write(pip_lock)
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
            beside=self.read_beside(name, number),
        )
        # A power cut may not leave a receipt of files that never reached the disk.
        os.sync()
        self.write_receipt(name, number, receipt)
        return packages

    def _compile(self, prefix: str) -> None:
        """Compile modules without compiled files: users may not write there, and would wait for it at every start."""
        for place in site_packages(prefix):
            python = os.path.join(prefix, "bin", os.path.basename(os.path.dirname(place)))
            if os.path.exists(python):
                # Without site: lines of a .pth file are code of a package, and this is root.
                # Some packages have templates that are not Python: files that cannot be compiled stay as they are.
                self.run_command([python, "-I", "-S", "-m", "compileall", "-qq", "-j", "0", place])

    def switch(self, name: str, number: int) -> None:
        """Point the link to another generation in one step."""
        path = self.link(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        replace_link(path, os.path.join("..", "generations", name, str(number)))

    def unlink(self, name: str) -> None:
        os.unlink(self.link(name))

    def discard(self, name: str, number: int) -> None:
        """Remove a generation, the receipt last: a run that is killed in between leaves a known leftover."""
        path = self.place(name, number)
        receipt = self._read_receipt(name, number)
        # An incomplete generation is marked already, and a full disk would refuse the mark.
        if receipt.complete:
            self.write_receipt(name, number, conda.Receipt(receipt.spec))
        if os.path.lexists(path):
            shutil.rmtree(path)
        for ending in (*BESIDE, RECEIPT):
            if os.path.exists(path + ending):
                os.unlink(path + ending)

    def tidy(self, name: str) -> None:
        """Remove unfinished files and empty directories."""
        clear_unfinished(self.place(name))
        for path in (self.place(name), os.path.dirname(self.place(name)), os.path.dirname(self.link(name))):
            if os.path.isdir(path) and not os.listdir(path):
                os.rmdir(path)

    def forget(self, archive: str) -> None:
        """Remove a package from the cache, so that its next installation downloads it again."""
        path = os.path.join(self.cache("packages"), archive)
        if os.path.isdir(path):
            shutil.rmtree(path)
            if os.path.exists(f"{path}.lock"):
                os.unlink(f"{path}.lock")

    def prune_cache(self) -> None:
        """Remove packages that no generation has. The others take no space, since the files of generations are the same ones."""
        receipts = [
            (name, number) for name in self.names() for number in _numbers(list_names(self.place(name)), RECEIPT)
        ]
        kept: set[str] = set()
        for name, number in receipts:
            packages = self._read_receipt(name, number).packages
            kept.update(conda.archive(package, build) for package, build in packages.items())
        for entry in list_names(self.cache("packages")):
            if entry not in kept:
                self.forget(entry)
        if not receipts:
            shutil.rmtree(self.cache(""), ignore_errors=True)
            if not os.listdir(self.root):
                os.rmdir(self.root)


def _digest(path: str) -> str:
    """SHA-256 of a file, empty for none."""
    return rattler.file_digest(path) if os.path.isfile(path) else ""


def _numbers(names: t.Iterable[str], ending: str) -> list[int]:
    stems = (name[: -len(ending)] for name in names if name.endswith(ending))
    return [int(stem) for stem in stems if stem.isdigit()]
