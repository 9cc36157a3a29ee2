# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The manifest of this machine, from its programs and files; and the file of the manifest.

The module machine_manifest uses it, and the program of the role backup, which has no Ansible.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import re
import tempfile
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt import packages as apt
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import directory, read_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.redact import without_secrets
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.writable import open_problem
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import api as docker_api
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import boot as manifest_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import document, storage
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import packages as manifest_packages
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest.document import Facts
from ansible_collections.rigwright.workstation.plugins.module_utils._system import mounts as system_mounts

CONDA = "/opt/conda"
# How a program is run: by its words, to its exit status and its output. The language is C's.
Run = t.Callable[[list[str]], tuple[int, str]]
# The exit status of a program that is not there, as a shell has it.
MISSING = 127
# What a user may name at most: the manifest is root's, and no larger than need be.
_PREFIXES, _PACKAGES = 200, 10_000


def space(path: str) -> tuple[int, int]:
    """Return the size of a file system and its used bytes."""
    found = os.statvfs(path)
    return found.f_blocks * found.f_frsize, (found.f_blocks - found.f_bfree) * found.f_frsize


class ProbeError(Exception):
    """A required program has no output; the text has the remedy."""


class Machine:
    """A machine, as its programs and files describe it."""

    def __init__(self, run: Run, tree: Tree) -> None:
        self.run, self.tree = run, tree
        self.problems: list[str] = []

    def ask(self, *command: str) -> str:
        """Return the output of a program; empty where it is missing or fails."""
        rc, out = self.run(list(command))
        return out if rc == 0 else ""

    def storage(self) -> Facts:
        listed = self.ask("lsblk", "-J", "-O", "-b")
        if not listed:
            raise ProbeError("lsblk shows no disks of this machine: install util-linux, and run this as root")
        devices, mapped = storage.parse_lsblk(listed), storage.parse_mapped(listed)
        by_id, by_path = self.links("by-id"), self.links("by-path")
        disks = {}
        for name, device in devices.items():
            if device["kind"] != "disk":
                continue
            table = self.table(device) if device["table_type"] else ""
            disks[name] = {
                "by_id": by_id.get(name, []),
                "by_path": by_path.get(name, []),
                "table": storage.parse_sfdisk(table) if table else {},
            }
        options = ("--reportformat", "json", "--units", "b", "--nosuffix")
        vgs = self.ask("vgs", *options, "-o", "vg_name,vg_uuid,vg_extent_size,vg_size,vg_free")
        groups = storage.volume_groups(
            self.ask("pvs", *options, "-o", "pv_name,pv_uuid,pv_size,vg_name"),
            vgs,
            self.ask("lvs", "-a", *options, "-o", "lv_name,vg_name,lv_size,segtype,stripes,origin,pool_lv"),
            {row["vg_name"]: self.group_backup(row["vg_name"]) for row in storage.parse_report(vgs, "vg")},
        )
        return {
            "disks": disks,
            "devices": {
                name: {
                    **device,
                    "features": self.features(device),
                    # Ubuntu's installer writes these into fstab.
                    **({"links": by_id.get(mapped[name], [])} if name in mapped else {}),
                }
                for name, device in devices.items()
            },
            "volume_groups": groups,
            "arrays": {
                name: storage.parse_mdadm(self.ask("mdadm", "--detail", "--export", device["path"]))
                for name, device in devices.items()
                if device["kind"] == "md"
            },
        }

    def links(self, kind: str) -> dict[str, list[str]]:
        """Return the links below /dev/disk to each device, by its name."""
        return storage.parse_links(
            kind, {name: self.tree.link(f"/dev/disk/{kind}/{name}") for name in self.tree.names(f"/dev/disk/{kind}")}
        )

    def table(self, device: Facts) -> str:
        """Return a partition table, without which nothing on the disk can be made again.

        :raises ProbeError: no program can read it.
        """
        rc, out = self.run(["sfdisk", "-J", device["path"]])
        if rc == MISSING:
            raise ProbeError(f"nothing here reads the partition table of {device['path']}: install the package fdisk")
        if rc != 0:
            self.problems.append(
                f"sfdisk cannot read the partition table of {device['path']} ({device['table_type']}): it is not in the manifest"
            )
        return out if rc == 0 else ""

    def group_backup(self, name: str) -> str:
        """Return the output of vgcfgbackup without its head, which has the time and the command."""
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "group")
            self.ask("vgcfgbackup", "-f", path, name)
            text = Tree("/").text(path)
        return text[text.find(f"{name} {{") :] if f"{name} {{" in text else text

    def features(self, device: Facts) -> Facts:
        """Return what is needed to make the device's file system with the same features."""
        kind = device["content"]["type"]
        if kind in ("ext2", "ext3", "ext4"):
            return storage.parse_dumpe2fs(self.ask("dumpe2fs", "-h", device["path"]))
        if kind == "xfs":
            mounted = [point for point in device["mountpoints"] if point.startswith("/")]
            return storage.parse_xfs_info(self.ask("xfs_info", *mounted[:1] or [device["path"]]))
        if kind == "btrfs":
            shown = storage.parse_btrfs(self.ask("btrfs", "filesystem", "show", "--raw", device["path"]))
            return {"devices": shown.get(device["content"]["uuid"], 1)}
        return {}

    def open_automounts(self) -> None:
        """Have systemd mount what it mounts on demand from disks that are there: the manifest and the backup need it in its place."""
        points = [*storage.ESP]
        for line in system_mounts.fstab_lines(self.tree.text("/etc/fstab")):
            kind, _sign, value = line.source.partition("=")
            path = f"/dev/disk/by-{kind.lower()}/{system_mounts.escape_udev(value)}" if value else line.source
            if "x-systemd.automount" in line.options and path.startswith("/dev/") and self.tree.exists(path):
                points.append(line.target)
        for point in points:
            self.tree.names(point)

    def mounts(self) -> list[Facts]:
        found = []
        for mount in system_mounts.parse_mountinfo(self.tree.text("/proc/self/mountinfo")):
            # What a server holds is not made again, and is not asked how large it is: a dead one would never answer.
            remote = mount.fstype in system_mounts.NETWORK
            if not system_mounts.holds_data(mount) or not (
                remote or os.path.isdir(self.tree.at(self.tree.resolve(mount.target)))
            ):
                continue
            size, used = (0, 0) if remote else space(self.tree.at(self.tree.resolve(mount.target)))
            found.append(
                {
                    "target": mount.target,
                    "source": mount.source,
                    "type": mount.fstype,
                    "root": mount.root,
                    **({"subvolume": mount.subvolume} if mount.subvolume else {}),
                    "size": size,
                    "used": used,
                }
            )
        return found

    def packages(self) -> Facts:
        sources = manifest_packages.read_sources(self.tree)
        automatic = apt.parse_automatic(self.tree.text(apt.EXTENDED_STATES))
        return {
            **manifest_packages.installed(self.tree.text(apt.STATUS), automatic),
            "sources": sources,
            "keys": manifest_packages.read_keys(self.tree, sources),
        }

    def docker(self) -> Facts:
        try:
            return {
                "images": document.images(docker_api.ask("/images/json")),
                "volumes": document.volumes(docker_api.ask("/volumes")),
            }
        except OSError:
            return {}

    def conda(self) -> Facts:
        """Return the environments of the role conda with their locks, and other environments that users' conda knows."""
        found: Facts = {}
        for name in self.tree.names(f"{CONDA}/envs"):
            prefix = self.tree.resolve(f"{CONDA}/envs/{name}")
            locks = {
                kind: self.tree.text(f"{prefix}{ending}") for kind, ending in (("lock", ".lock"), ("pip", ".pip.txt"))
            }
            found[f"{CONDA}/envs/{name}"] = {kind: without_secrets(text) for kind, text in locks.items() if text}
        homes = self.tree.resolve("/home")
        for home in [*(f"{homes}/{name}" for name in self.tree.names("/home")), "/root"]:
            with contextlib.suppress(OSError), directory(f"{self.tree.at(self.tree.resolve(home))}/.conda") as handle:
                owner = os.fstat(handle).st_uid
                text = read_file("environments.txt", {owner}, dir_fd=handle).decode(errors="replace")
                for prefix in filter(os.path.isabs, text.splitlines()[:_PREFIXES]):
                    found.setdefault(prefix, {"packages": self.conda_packages(prefix, owner)})
        return found

    def conda_packages(self, prefix: str, owner: int) -> list[str]:
        """Return the packages of an environment that a user has named; none if it belongs to somebody else."""
        with contextlib.suppress(OSError, ValueError):
            path = self.tree.at(self.tree.resolve(f"{prefix}/conda-meta"))
            with directory(path) as handle, os.scandir(handle) as entries:
                if os.fstat(handle).st_uid in (0, owner):
                    names = [entry.name for entry in itertools.islice(entries, _PACKAGES)]
                    return sorted(name[:-5] for name in names if name.endswith(".json"))
        return []

    def network(self) -> list[Facts]:
        physical = [
            name for name in self.tree.names("/sys/class/net") if self.tree.exists(f"/sys/class/net/{name}/device")
        ]
        listed = self.ask("ip", "-j", "address")
        return document.interfaces(json.loads(listed) if listed else [], physical)

    def manifest(self) -> Facts:
        release = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', self.tree.text("/etc/os-release"), re.MULTILINE))
        packages = self.packages()
        self.open_automounts()
        found = self.storage()
        return {
            "schema": document.SCHEMA,
            "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "host": {
                "name": self.tree.text("/etc/hostname").strip() or platform.node(),
                "machine_id": self.tree.text("/etc/machine-id").strip(),
                "distribution": release.get("ID", ""),
                "version": release.get("VERSION_ID", ""),
                "codename": release.get("VERSION_CODENAME", ""),
                "architecture": platform.machine(),
            },
            "boot": manifest_boot.read_boot(self.tree, self.ask("efibootmgr", "-v"), packages["versions"]),
            **found,
            "mounts": self.mounts(),
            "swaps": storage.parse_swaps(self.tree.text("/proc/swaps")),
            "files": {name: without_secrets(self.tree.text(f"/etc/{name}")) for name in ("fstab", "crypttab")},
            "packages": packages,
            "kernels": manifest_packages.read_kernels(self.tree, platform.release()),
            "nvidia": manifest_packages.read_nvidia(self.tree),
            "docker": self.docker(),
            "conda": self.conda(),
            "network": self.network(),
            "host_keys": sorted(
                filter(
                    None,
                    (
                        document.fingerprint_of_host_key(self.tree.text(f"/etc/ssh/{name}"))
                        for name in self.tree.names("/etc/ssh")
                        if re.fullmatch(r"ssh_host_\w+_key\.pub", name)
                    ),
                )
            ),
        }


def read(path: str) -> Facts | None:
    """Return the manifest at a path, if there is one.

    :raises ValueError: it cannot be read as one.
    """
    text = Tree().text(path)
    return document.check(json.loads(text)) if text else None


def write(path: str, manifest: Facts) -> None:
    """Replace the file atomically, readable only by root."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    replace_file(path, json.dumps(manifest, indent=1, sort_keys=True) + "\n", 0o600)


def keep(machine: Machine, path: str, check: bool = False) -> tuple[Facts, list[str], str]:
    """Return the manifest, its changes, and the problems; write it only if something has changed.

    :raises ProbeError: a required program has no output, or other users may write where the manifest is kept.
    """
    problems = []
    refused = open_problem([os.path.dirname(path)], "path") if path else ""
    if refused:
        raise ProbeError(refused)
    try:
        old = read(path) if path else None
    except ValueError as error:
        old = None
        problems.append(f"{path} is damaged ({error}): it is written again")
    new = document.settle(machine.manifest(), old)
    changes = document.differences(old, new) if path else []
    if changes and not check:
        write(path, new)
    return new, changes, "; ".join([*problems, *machine.problems])
