# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps of a rebuild, in their order, each as data: a command, a directory, a file, an edit. Pure.

``disks`` makes partitions, file systems and mounts; ``files`` restores; ``system`` makes what was restored start here. A step that
writes to a device names it in ``writes``.
"""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import files, layout, mounting
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.layout import DoesNotFit, Partition
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import storage
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest.document import Facts
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import fstab_lines, is_within

ROOT = "/target"
WORK = "/run/rigwright_bare_metal"
SETTLE = ["udevadm", "settle", "--timeout=60"]
# Directories that a running system fills itself, by mode; backups leave these out.
EMPTY_DIRECTORIES = {
    "/proc": "0555", "/sys": "0555", "/dev": "0755", "/run": "0755", "/tmp": "1777", "/var/tmp": "1777", "/mnt": "0755", "/media": "0755",  # noqa: S108
}  # fmt: skip
# What desktops mount when a user opens it, and what fstab mounts on demand.
OF_DESKTOPS = ("/media", "/run/media")
ON_DEMAND = {"noauto", "x-systemd.automount"}
GRUB = {"x86_64": "x86_64-efi", "aarch64": "arm64-efi"}
EXT = ("ext2", "ext3", "ext4")


class Build:
    """Gathers the steps. ``nodes``: path and size of each device of the manifest that is there or made by then."""

    def __init__(
        self, manifest: Facts, here: Facts, nodes: dict[str, tuple[str, int]], empty: t.Collection[str] = ()
    ) -> None:
        self.manifest, self.here, self.nodes, self.empty = manifest, here, nodes, empty
        # A file system's blocks are no smaller than the sectors of any disk that it may be on.
        self.sector = 512
        self.phases: dict[str, list[Facts]] = {"disks": [], "files": [], "system": []}
        self.summary: list[str] = []
        self.notes: list[str] = []
        self.phase = "disks"

    def run(self, *command: str, writes: t.Sequence[str] = (), **more: t.Any) -> None:
        self.phases[self.phase].append({"do": "run", "command": list(command), "writes": list(writes), **more})

    def add(self, do: str, **facts: t.Any) -> None:
        self.phases[self.phase].append({"do": do, **facts})

    # Disks

    def disks(
        self,
        tables: t.Mapping[str, list[Partition]],
        on: t.Mapping[str, str],
        data: t.Mapping[str, int],
        above: t.Callable[[str], list[str]],
    ) -> None:
        """Add the steps that make partitions, file systems and mounts."""
        self.sector = max(self.here[name]["logical_sector"] for name in on.values())
        for disk, name in on.items():
            path = self.here[name]["path"]
            # Devices on partitions are gone with them; an extended one is as small as its table, which goes with that of the disk.
            parts = [
                part
                for part in above(name)
                if self.here[part]["kind"] == "part" and self.here[part]["size"] >= layout.MIB
            ]
            for old in [*parts, name]:
                # Also its partitions, whose signatures would reappear at the same places.
                self.run("wipefs", "--all", "--quiet", self.here[old]["path"], writes=[path])
            if disk in tables:
                sector = self.here[name]["logical_sector"]
                text = layout.script(self.manifest["disks"][disk]["table"], tables[disk], sector)
                self.run("sfdisk", "--wipe=always", "--wipe-partitions=always", path, writes=[path], input=text)
                self.summary.append(
                    f"{path}: a new {self.manifest['disks'][disk]['table']['type']} table, as {disk} had"
                )
        self.run(*SETTLE)
        extended = {name for disk in tables for name in self._extended(disk)}
        todo = [name for name in self.manifest["devices"] if name in self.nodes and name not in {*tables, *extended}]
        while todo:
            todo = [created for name in todo for created in self._fill(name, data)]
        self._mount()

    def _extended(self, disk: str) -> set[str]:
        table = self.manifest["disks"][disk]["table"]
        return {row["name"] for row in table["partitions"] if layout.is_extended(table, row)}

    def _fill(self, name: str, data: t.Mapping[str, int]) -> list[str]:
        """Make what a device holds; return the devices that this creates."""
        device = self.manifest["devices"][name]
        node, size = self.nodes[name]
        kind = device["content"]["type"]
        self.summary.append(f"{node}: {layout.human(size)} {kind if kind and name not in self.empty else 'left empty'}")
        if name in self.empty or not kind:
            return []
        if kind == storage.LUKS:
            return self._encrypt(name)
        if kind == storage.PV:
            group = layout.group_on(self.manifest, name)
            members = [member for member in self.nodes if layout.group_on(self.manifest, member) == group]
            # The group is made with the last of its devices: an encrypted one is there later than a partition.
            whole = bool(group) and layout.devices_of(self.manifest, group) <= set(members)
            return self._group(group, members, data) if whole and name == members[-1] else []
        self.run(*format_command(device, node, self.sector, size), writes=[node])
        self._subvolumes(name)
        return []

    def _encrypt(self, name: str) -> list[str]:
        (inner,) = layout.children(self.manifest, name)
        node, size = self.nodes[name]
        content = self.manifest["devices"][name]["content"]
        label = ["--label", content["label"]] if content["label"] else []
        # grub opens what has the kernels, and computes no Argon2, which is the default of LUKS2.
        of_grub = layout.devices_under(self.manifest, "/boot") or layout.devices_under(self.manifest, "/")
        self.run(
            *("cryptsetup", "luksFormat", "--batch-mode", "--type", f"luks{content['version'] or 2}"),
            *("--uuid", content["uuid"], *label, *(["--pbkdf", "pbkdf2"] if name in of_grub else [])),
            *("--key-file=-", node),
            writes=[node],
            secret=True,
        )
        self.run("cryptsetup", "open", "--key-file=-", node, inner, writes=[node], secret=True)
        self.run(*SETTLE)
        lost = self.manifest["devices"][name]["size"] - self.manifest["devices"][inner]["size"]
        self.nodes[inner] = (f"/dev/mapper/{inner}", size - lost)
        return [inner]

    def _group(self, group: str, members: list[str], data: t.Mapping[str, int]) -> list[str]:
        facts = self.manifest["volume_groups"][group]
        extent = facts["extent_size"]
        nodes = [self.nodes[name][0] for name in members]
        for node in nodes:
            self.run("pvcreate", "--yes", "-ff", node, writes=[node])
        self.run("vgcreate", "--yes", "--physicalextentsize", f"{extent}b", group, *nodes, writes=nodes)
        room = sum((self.nodes[name][1] - layout.LVM_HEAD) // extent for name in members)
        try:
            sizes = layout.divide(
                layout.volume_shares(self.manifest, group, data), room, f"extents of {layout.human(extent)}"
            )
        except DoesNotFit as error:
            raise DoesNotFit(f"the volume group {group} does not fit: {error}") from error
        found = []
        for volume, extents in sizes.items():
            self.run(
                *("lvcreate", "--yes", "--wipesignatures", "y", "--extents", str(extents), "--name", volume, group),
                writes=nodes,
            )
            name = layout.volume_device(group, volume)
            self.nodes[name] = (f"/dev/mapper/{name}", extents * extent)
            found.append(name)
        self.run(*SETTLE)
        return found

    def _subvolumes(self, name: str) -> None:
        """Create the subvolumes of a btrfs that were mounted."""
        roots = sorted({mount["root"] for mount in mounting.own_mounts(self.manifest, name) if mount["root"] != "/"})
        if self.manifest["devices"][name]["content"]["type"] != "btrfs" or not roots:
            return
        node, place = self.nodes[name][0], f"{WORK}/btrfs"
        self.add("directory", path=place, mode="0700")
        self.run("mount", "-t", "btrfs", node, place, writes=[node])
        for root in roots:
            self.add("directory", path=f"{place}{root}".rpartition("/")[0], mode="")
            self.run("btrfs", "subvolume", "create", f"{place}{root}", writes=[node])
        self.run("umount", place)

    def _mount(self) -> None:
        places, left_out = mounting.in_order(self.manifest, [name for name in self.nodes if name not in self.empty])
        for place in places:
            if place.shows:
                # Otherwise its files would land on the file system around it.
                self.add("directory", path=self.at(place.shows), mode="")
                self.add("directory", path=self.at(place.target), mode="")
                self.run("mount", "--bind", self.at(place.shows), self.at(place.target))
                continue
            mount, node = place.mount, self.nodes[place.device][0]
            options = self._compression(place.target) if mount["type"] == "btrfs" else []
            options += [f"subvol={mount['root']}"] if mount["type"] == "btrfs" and mount["root"] != "/" else []
            self.add("directory", path=self.at(place.target), mode="0755")
            self.run(
                *("mount", *(["-o", ",".join(options)] if options else []), node, self.at(place.target)), writes=[node]
            )
        self.notes += [
            f"{mount['root']} of {mount.get('source') or mount['type']}, which was mounted at {mount['target']}, "
            "cannot be mounted there before the restore: its files come back to the file system around it"
            for mount in left_out
        ]

    def _compression(self, target: str) -> list[str]:
        """Return how a btrfs compresses: otherwise its files would need more than they did."""
        lines = fstab_lines(self.manifest.get("files", {}).get("fstab", ""))
        options = [option for line in lines if line.target == target for option in line.options]
        return [option for option in options if option.startswith("compress")]

    def at(self, path: str) -> str:
        return ROOT if path == "/" else f"{ROOT}{path}"

    # Files

    def files(self, left_out: t.Sequence[str]) -> None:
        self.phase = "files"
        self.add("mounted", path=ROOT)
        self.add("restore", target=ROOT, exclude=list(left_out))
        self.summary.append(f"restore to {ROOT}" + (f", without {', '.join(left_out)}" if left_out else ""))

    # System

    def system(
        self, names: t.Sequence[str], absent: t.Sequence[str], boot_disk: tuple[str, str], left_out: t.Sequence[str]
    ) -> None:
        """Add the steps that make the restored system start."""
        self.phase = "system"
        self.add("mounted", path=ROOT)
        for path, mode in EMPTY_DIRECTORIES.items():
            self.add("directory", path=self.at(path), mode=mode)
        for mount in self.manifest["mounts"]:
            self.add("directory", path=self.at(mount["target"]), mode="")
        swap = self._swap_files(left_out)
        references = device_references(self.manifest)
        for kind, path in (
            ("fstab", "/etc/fstab"),
            ("crypttab", "/etc/crypttab"),
            ("resume", "/etc/initramfs-tools/conf.d/resume"),
            ("grub", "/etc/default/grub"),
            ("grub", "/etc/default/grub.d/*.cfg"),
        ):
            self.add("edit", path=self.at(path), kind=kind, references=references, absent=list(absent))
        # An installer wrote it long ago, with the old names of disks.
        self.add("remove", path=self.at("/boot/grub/device.map"))
        for place in ("/dev", "/proc", "/sys", "/run"):
            self.add("bind", source=place, path=self.at(place))
        self.add("kernels", root=ROOT)
        self._loader(boot_disk)
        self.add("first_boot", root=ROOT, expected=expectations(self.manifest, names, swap))
        self.summary.append(
            f"grub for {self.manifest['boot']['mode'].upper()}, initramfs, DKMS, a check at the first boot"
        )
        self.run("sync")
        for place in ("/run", "/sys", "/proc", "/dev"):
            self.run("umount", "--recursive", "--lazy", self.at(place))
        self.run("umount", "--recursive", ROOT)

    def _swap_files(self, left_out: t.Sequence[str]) -> bool:
        """Create swap files again, but not those of a disk that is not made: they would fill /. Return whether there are any."""
        files_of_swap = [
            swap
            for swap in self.manifest["swaps"]
            if swap["type"] == "file" and not any(is_within(swap["path"], point) for point in left_out)
        ]
        for swap in files_of_swap:
            self.add("swap_file", path=self.at(swap["path"]), size=swap["size"])
            self.summary.append(f"{swap['path']}: {layout.human(swap['size'])} of swap in a file")
        return bool(files_of_swap)

    def _loader(self, boot_disk: tuple[str, str]) -> None:
        """Install grub for the firmware of this machine."""
        path, lasting = boot_disk
        if self.manifest["boot"]["mode"] == "uefi":
            esp = next(
                (
                    point
                    for point in storage.ESP
                    for mount in self.manifest["mounts"]
                    if mount["target"] == point and mount["type"] == "vfat"
                ),
                storage.ESP[0],
            )
            # A firmware that lost its entries, or a disk in another machine, starts the program at the removable place.
            removable = ["--force-extra-removable"] if self.manifest["host"]["distribution"] == "debian" else []
            target = GRUB.get(self.manifest["host"]["architecture"], GRUB["x86_64"])
            command = ["grub-install", f"--target={target}", f"--efi-directory={esp}", "--recheck"]
            without = {
                "command": ["chroot", ROOT, *command, "--no-nvram", *(removable or ["--removable"])],
                "warning": "the firmware took no entry for this system, and has to start the program at the removable place",
            }
            self._inside(*command, *removable, writes=[path], otherwise=without)
        else:
            # What the package asks for when it is upgraded: on the old disk's name the next upgrade would fail, or leave an old core.
            selections = f"grub-pc grub-pc/install_devices multiselect {lasting}\n"
            self._inside("debconf-set-selections", input=selections)
            self._inside("grub-install", "--target=i386-pc", "--recheck", path, writes=[path])
        self._inside("update-grub")

    def _inside(self, *command: str, **more: t.Any) -> None:
        self.run("chroot", ROOT, *command, **more)


def format_command(device: Facts, node: str, sector: int = 512, size: int = 0) -> list[str]:
    """Return the command that makes a file system with the old UUID, label and features, which its kernel and grub know.

    :param sector: of the disk; blocks are at least as large.
    :param size: of the device, in bytes.
    """
    content, features = device["content"], device.get("features") or {}
    kind, uuid, label = content["type"], content["uuid"], content["label"]
    if kind in EXT:
        command = ["mke2fs", "-q", "-F", "-t", kind, "-U", uuid, *(["-L", label] if label else [])]
        if features:
            block = max(features["block_size"], sector)
            # The new disk may have more blocks than 32 bits count.
            enabled = {*features["features"], *(["64bit"] if kind == "ext4" and size // block >= 1 << 32 else [])}
            command += ["-b", str(block), "-I", str(features["inode_size"]), "-i", str(features["bytes_per_inode"])]
            command += ["-m", str(features["reserved_percent"]), "-O", ",".join(["none", *sorted(enabled)])]
        return [*command, node]
    if kind == "xfs":
        command = ["mkfs.xfs", "-q", "-f", *(["-L", label] if label else [])]
        options: dict[str, list[str]] = {section: [] for section in storage.XFS_OPTIONS}
        options["m"].append(f"uuid={uuid}")
        if features:
            enabled = features["options"]
            for section, names in storage.XFS_OPTIONS.items():
                # Those that mkfs of Debian 12 does not know are not named unless they were on: off is what it does.
                options[section] += [
                    f"{name}={enabled[name]}" for name in names if enabled[name] or name not in ("exchange", "parent")
                ]
            options["i"].append(f"size={features['inode_size']}")
            command += ["-b", f"size={max(features['block_size'], sector)}"]
        for section, values in options.items():
            command += [f"-{section}", ",".join(values)] if values else []
        return [*command, node]
    if kind == "btrfs":
        return ["mkfs.btrfs", "-q", "-f", "-U", uuid, *(["-L", label] if label else []), node]
    if kind == "vfat":
        bits = content["version"].replace("FAT", "")
        fat = ["-F", bits] if bits in ("12", "16", "32") else []
        return ["mkfs.vfat", *fat, "-i", uuid.replace("-", ""), *(["-n", label] if label else []), node]
    return ["mkswap", "-U", uuid, *(["-L", label] if label else []), node]


def device_references(manifest: Facts) -> dict[str, Facts]:
    """Return, by device: its UUIDs, mount points, subvolumes, all names that files may use for it, and those that a new one has too."""
    found = {}
    for name, device in manifest["devices"].items():
        content = device["content"]
        mounts = layout.mounts_of(manifest, name)
        lasting = _lasting_names(manifest, name)
        tags = {"UUID": content["uuid"], "LABEL": content["label"]}
        names = {device["path"], f"/dev/{name}", *lasting, *device.get("links", ())}
        for disk in device["parents"]:
            facts = manifest["disks"].get(disk, {"table": {}})
            table = facts["table"]
            for row in table.get("partitions", ()):
                if row["name"] != name:
                    continue
                links = [*facts["by_id"], *facts.get("by_path", ())]
                names |= {f"{link}-part{row['number']}" for link in links}
                # A table of DOS has no ids of its own for partitions: they are made of that of the disk.
                of_disk = f"{table['id'].lower().removeprefix('0x')}-{row['number']:02x}"
                tags |= {"PARTUUID": row["uuid"] or of_disk, "PARTLABEL": row["label"]}
        facts = manifest["disks"].get(name, {})
        names |= {*facts.get("by_id", ()), *facts.get("by_path", ())}
        names |= {f"{tag}={value}" for tag, value in tags.items() if value}
        found[name] = {
            "uuid": content["uuid"],
            "partuuid": tags.get("PARTUUID", ""),
            "targets": sorted(mount["target"] for mount in mounts),
            "swap": "[SWAP]" in device["mountpoints"],
            "subvolumes": {
                mount["target"]: mount.get("subvolume", mount["root"])
                for mount in mounts
                if content["type"] == "btrfs" and mount["root"] == mount.get("subvolume", mount["root"])
            },
            "names": sorted(files.normal(word) for word in names if word),
            # The one below /dev/mapper comes first.
            "lasting_names": sorted(map(files.normal, lasting), key=lambda word: ("/mapper/" not in word, word)),
        }
    return found


def _lasting_names(manifest: Facts, name: str) -> set[str]:
    """Return the names of a volume, or of an opened encrypted device, that do not depend on the disk."""
    if manifest["devices"][name]["kind"] not in ("crypt", "lvm"):
        return set()
    volumes = {
        f"/dev/{group}/{volume['name']}"
        for group, facts in manifest["volume_groups"].items()
        for volume in facts["volumes"]
        if layout.volume_device(group, volume["name"]) == name
    }
    return {f"/dev/mapper/{name}", f"{files.BY}id/dm-name-{name}", *volumes}


def mounts_at_boot(manifest: Facts, target: str) -> bool:
    """Return whether the system mounts this by itself, and not only when a user opens it."""
    rows = [line for line in fstab_lines(manifest.get("files", {}).get("fstab", "")) if line.target == target]
    if not rows:
        return not any(is_within(target, place) for place in OF_DESKTOPS)
    return not any({*row.options} & ON_DEMAND for row in rows)


def expectations(manifest: Facts, names: t.Sequence[str], swap: bool) -> Facts:
    """Return what the first boot has to find of the devices that were made."""
    return {
        "host": manifest["host"]["name"],
        "machine_id": manifest["host"]["machine_id"],
        "mounts": sorted(
            mount["target"]
            for name in names
            for mount in layout.mounts_of(manifest, name)
            if mounts_at_boot(manifest, mount["target"])
        ),
        "swap": swap or any("[SWAP]" in manifest["devices"][name]["mountpoints"] for name in names),
        "driver": manifest["nvidia"]["driver"],
        "host_keys": manifest["host_keys"],
        "network": sorted(card["name"] for card in manifest.get("network", ()) if card.get("up", True)),
    }
