# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The previous packages, kept as .deb files: as apt has cached them, or made again from what is installed."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import (
    replace_file,
    sync_directory,
    sync_file,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.root_directories import make_directories
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.dpkg import Dpkg
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import KEPT, Entry, Record
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import bare_name

ARCHIVES = "/var/cache/apt/archives"


class KeptPackages:
    """The files of packages as they were before a change. Going back needs neither a network nor a source."""

    def __init__(self, dpkg: Dpkg, tree: Tree, record: Record) -> None:
        self.dpkg = dpkg
        self.tree = tree
        self.record = record

    def path(self, name: str, entry: Entry) -> str:
        return self.tree.at(f"{KEPT}/{file_name(name, entry)}")

    def is_whole(self, path: str) -> bool:
        """Return whether a kept package is as it was written. Those of earlier versions have no checksum: they must not be empty."""
        name = os.path.basename(path)
        checksum = self.record.kept.get(name)
        if not os.path.isfile(path) or os.path.islink(path):
            return False
        return checksum_of(path) == checksum if checksum else os.path.getsize(path) > 0

    def keep(self, entries: t.Mapping[str, Entry]) -> None:
        """Keep these packages as files. The record has their checksums."""
        os.makedirs(self.tree.at(KEPT), exist_ok=True)
        os.chmod(self.tree.at(KEPT), 0o700)
        for name, entry in entries.items():
            kept, cached = self.path(name, entry), self.tree.at(f"{ARCHIVES}/{file_name(name, entry)}")
            if self.is_whole(kept):
                continue
            unfinished = f"{kept}.part"
            # After a power cut, the download can be incomplete.
            if os.path.exists(cached) and self.dpkg.run(["dpkg-deb", "--info", cached])[0] == 0:
                shutil.copyfile(cached, unfinished)
            else:
                self._repack(dpkg_name(name, entry), unfinished)
            os.chmod(unfinished, 0o600)
            # The record names it later, and must not be on the disk before it.
            sync_file(unfinished)
            os.replace(unfinished, kept)
            self.record.kept[os.path.basename(kept)] = checksum_of(kept)
        sync_directory(self.tree.at(KEPT))

    def drop_all_but(self, names: t.Collection[str]) -> None:
        """Remove all files but those with these names."""
        for name in self.tree.names(KEPT):
            path = self.tree.at(f"{KEPT}/{name}")
            if os.path.isdir(path):
                shutil.rmtree(path)  # a killed run was building a package in it
            elif name not in names:
                os.unlink(path)

    def _repack(self, name: str, target: str) -> None:
        """Build a package from what is installed: possibly no source has that version any more."""
        with tempfile.TemporaryDirectory(dir=self.tree.at(KEPT)) as root:
            os.chmod(root, 0o755)  # noqa: S103 - it becomes the package's root directory
            files = listed_files(self.dpkg.must(["dpkg-query", "--listfiles", name]))
            directories = {os.path.dirname(path) for path, _place in files}
            for path, place in files:
                if path in directories:
                    _copy_directory(self.tree.at(place), root + path)
                else:
                    _copy(self.tree.at(place), root + path)
            control = os.path.join(root, "DEBIAN")
            make_directories(control)
            replace_file(os.path.join(control, "control"), control_of(self.dpkg.must(["dpkg-query", "--status", name])))
            for script in self.dpkg.must(["dpkg-query", "--control-list", name]).split():
                if script != "md5sums":
                    path = self.dpkg.must(["dpkg-query", "--control-path", name, script]).strip()
                    shutil.copy2(path, os.path.join(control, script))
            _drop_missing_conffiles(root)
            self.dpkg.must(["dpkg-deb", "-Zgzip", "-z1", "--build", root, target])


def dpkg_name(name: str, entry: Entry) -> str:
    """Return the only name of a package that is never ambiguous to dpkg: a library can be installed for two architectures."""
    return f"{bare_name(name)}:{entry['architecture']}"


def file_name(name: str, entry: Entry) -> str:
    """Return the name that apt gives the file of a package in its cache."""
    return f"{bare_name(name)}_{entry['version'].replace(':', '%3a')}_{entry['architecture']}.deb"


def listed_files(text: str) -> list[tuple[str, str]]:
    """Return path in the package and place on the host of the files in ``dpkg-query --listfiles``. Diversions move a file elsewhere."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        diverted = re.match(r"(?:locally diverted|diverted by \S+) to: (.+)", line)
        if diverted and found:
            found[-1] = (found[-1][0], diverted.group(1))
        elif line.startswith("/") and line != "/.":
            found.append((line, line))
    return found


def control_of(status: str) -> str:
    """Return a package's control file from its status, without what dpkg has added."""
    fields = re.split(r"\n(?=\S)", status.strip())
    return "".join(f"{field}\n" for field in fields if not re.match(r"(Status|Conffiles|Config-Version):", field))


def checksum_of(path: str) -> list[t.Any]:
    """Return size and SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
        return [file.tell(), digest.hexdigest()]


def _copy_directory(source: str, target: str) -> None:
    """Create a directory that has more files of the package. On the host it can be a link: /lib is one if /usr is merged."""
    if os.path.isdir(source):
        os.mkdir(target)
        _copy_state(source, target)


def _copy(source: str, target: str) -> None:
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
    elif os.path.isdir(source):
        os.mkdir(target)
    elif os.path.isfile(source):
        shutil.copyfile(source, target)
    else:
        return  # a person has removed it: leave it out
    _copy_state(source, target)


def _drop_missing_conffiles(root: str) -> None:
    """Drop missing configuration files from the list: dpkg-deb refuses a package without one that a person has removed."""
    tree = Tree(root)
    named = tree.text("/DEBIAN/conffiles").splitlines()
    if named:
        existing = [line for line in named if tree.exists(line.split()[-1])]
        replace_file(f"{root}/DEBIAN/conffiles", "".join(f"{line}\n" for line in existing))


def _copy_state(source: str, target: str) -> None:
    """Copy owner, mode and times. The owner comes first: chown clears the set-id bits of a mode."""
    is_link = os.path.islink(target)
    state = os.lstat(source) if is_link else os.stat(source)
    os.chown(target, state.st_uid, state.st_gid, follow_symlinks=False)
    shutil.copystat(source, target, follow_symlinks=not is_link)
