# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Import an archive of tar as a snapshot, and report what the archive had lost."""

from __future__ import annotations

import os
import stat
import tarfile

from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import Restic
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic_outcome import judge
from ansible_collections.rigwright.workstation.plugins.module_utils._core import programs
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject

# Programs that need a capability instead of the set-user-ID bit on Debian and Ubuntu; without it they fail for everybody but root.
CAPABLE = (
    "ping",
    "mtr-packet",
    "restic",
    "dumpcap",
    "gst-ptp-helper",
    "newuidmap",
    "newgidmap",
    "snap-confine",
    "gnome-keyring-daemon",
)
# Directories that each boot, or a package, fills again; they do not belong in a backup.
RUNNING = ("proc", "sys", "dev", "run")
LAYERS = "var/lib/docker/overlay2"


class Survey:
    """The contents and losses of an archive, from its headers."""

    def __init__(self) -> None:
        self.files = self.bytes = self.sockets = 0
        self.attributes = self.acls = self.capabilities = self.sparse = self.numeric = 0
        self.tops: set[str] = set()
        self.modules: set[str] = set()
        self.kernels: set[str] = set()
        self.incapable: list[str] = []
        self.group_writable: list[str] = []
        self.running: set[str] = set()
        self.layers = 0
        self.links_missing: list[str] = []
        self._names: set[str] = set()

    def take(self, member: tarfile.TarInfo) -> None:
        """Count a member of the archive."""
        name = member.name[2:] if member.name.startswith("./") else member.name.lstrip("/")
        self._names.add(name)
        parts = name.split("/")
        self.tops.add(parts[0])
        self.files += not member.isdir()
        self.bytes += member.size if member.isreg() else 0
        kept = [key for key in member.pax_headers if key.startswith(("SCHILY.xattr.", "LIBARCHIVE.xattr."))]
        self.attributes += bool(kept)
        self.capabilities += any("security.capability" in key for key in kept)
        self.acls += any(key.startswith("SCHILY.acl.") or "posix_acl" in key for key in member.pax_headers)
        self.sparse += bool(member.issparse())
        if parts[0] in RUNNING and len(parts) > 1:
            self.running.add(parts[0])
        self.layers += name.startswith(LAYERS + "/")
        if len(parts) > 2 and parts[:2] == ["lib", "modules"]:
            self.modules.add(parts[2])
        if len(parts) > 3 and parts[:3] == ["usr", "lib", "modules"]:
            self.modules.add(parts[3])
        if parts[0] == "boot" and len(parts) == 2 and parts[1].startswith("vmlinuz-"):
            self.kernels.add(parts[1][len("vmlinuz-") :])
        if member.isreg() and parts[-1] in CAPABLE and not kept and not member.mode & stat.S_ISUID:
            self.incapable.append("/" + name)
        if member.isreg() and parts[0] == "etc" and member.mode & stat.S_IWGRP and not kept:
            self.group_writable.append("/" + name)
        if member.islnk() and member.linkname.lstrip("./") not in self._names:
            self.links_missing.append("/" + name)

    def report(self) -> JsonObject:
        """Return the contents and the losses, each as a sentence."""
        lost = []
        if not self.capabilities:
            some = f", such as {', '.join(self.incapable[:5])}" if self.incapable else ""
            lost.append(
                f"file capabilities: the archive has none{some}; reinstall the packages of such programs after a restore"
            )
        if not self.acls:
            some = (
                f"; these have a mode that may be a mask: {', '.join(self.group_writable[:5])}"
                if self.group_writable
                else ""
            )
            lost.append(f"ACLs: the archive has none, and a mask has become the mode of the group{some}")
        if not self.attributes:
            lost.append("extended attributes: the archive has none")
        if not self.sparse:
            lost.append("sparse files: none is marked as such; a restore makes holes again where there are zeros")
        if self.modules and not self.kernels:
            lost.append(
                f"kernels: it has modules of {', '.join(sorted(self.modules))} and no kernel in /boot;"
                " do not restore /lib/modules over a system"
            )
        if self.running:
            lost.append(
                f"it has what a running system makes by itself, and must not be restored: /{', /'.join(sorted(self.running))}"
            )
        if self.layers:
            lost.append(f"it has {self.layers} files of docker's layers, which are worth nothing by themselves")
        if self.links_missing:
            lost.append(f"hard links to files that are not in it: {', '.join(self.links_missing[:5])}")
        return {
            "files": self.files,
            "bytes": self.bytes,
            "capabilities": self.capabilities,
            "acls": self.acls,
            "lost": lost,
        }


def survey(archive: str) -> JsonObject:
    """Read the headers of an archive.

    :raises tarfile.TarError: it is none, or is cut off.
    :raises OSError: it cannot be read.
    """
    found = Survey()
    with tarfile.open(archive) as tar:
        for member in tar:
            found.take(member)
            tar.members = []  # type: ignore[attr-defined] # a list of all files of a system would fill the memory
    if not found.files:
        raise tarfile.ReadError("it is empty")
    return found.report()


def unpack(archive: str, scratch: str) -> str:
    """Unpack everything but what a running system fills itself; return the error, if any."""
    command = [
        "tar",
        "--extract",
        "--file",
        archive,
        "--directory",
        scratch,
        "--preserve-permissions",
        "--same-owner",
        "--numeric-owner",
    ]
    command += ["--acls", "--xattrs", "--xattrs-include=*", "--sparse", "--delay-directory-restore"]
    # Only at the top: /home/alice/dev belongs to her.
    command.append("--anchored")
    for name in (*RUNNING, LAYERS):
        command += [f"--exclude={top}{name}/*" for top in ("", "./", "/")]
    done = programs.run(command)
    return (
        "" if done.returncode == 0 else (done.stderr.strip().splitlines() or [f"tar ended with {done.returncode}"])[-1]
    )


def back_up(restic: Restic, scratch: str, archive: str, host: str, tag: str, moment: str) -> tuple[str, str]:
    """Back up what was unpacked, with its original paths; return the snapshot and the error."""
    names = sorted(os.listdir(scratch))
    arguments = ["backup", "--json", "--host", host, "--tag", tag, "--tag", "imported", "--time", moment, "--", *names]
    done = restic.run(*arguments, cwd=scratch)
    outcome = judge(done)
    ids = [
        line.split('"snapshot_id":"')[1].split('"')[0] for line in done.out.splitlines() if '"snapshot_id":"' in line
    ]
    return (
        ids[-1] if ids and outcome.ok else ""
    ), "" if outcome.ok else f"{archive}: {outcome.message}: {outcome.remedy}"
