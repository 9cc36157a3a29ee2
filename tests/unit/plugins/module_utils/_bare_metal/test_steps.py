# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of a rebuild: file systems as they were, and a boot loader for the firmware that is there."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import steps

from tests.unit.support.manifest.manifests import GIB, blank, device, recorded, simple
from tests.unit.support.manifest.rebuilds import plan_of, whole


def commands(phase: str, program: str) -> list[str]:
    return [" ".join(step["command"]) for step in whole().phases[phase] if program in step.get("command", [])]


def test_an_ext4_keeps_its_own_features() -> None:
    (root,) = (entry for entry in commands("disks", "mke2fs") if entry.endswith("vg0-root"))
    assert "-U 87171525-9f26-4222-8eda-27a0baffb8d1" in root and "-b 4096 -I 256 -i 8192 -m 5" in root
    features = root.partition("-O ")[2].split()[0].split(",")
    assert features[0] == "none" and "metadata_csum" in features
    assert not {"metadata_csum_seed", "orphan_file", "needs_recovery"} & set(features)


def test_an_xfs_keeps_its_own_options() -> None:
    (home,) = (entry for entry in commands("disks", "mkfs.xfs") if entry.endswith("vg0-home"))
    assert (
        "-m uuid=1ef94f64-49a3-43fc-bac9-dfb07c5b7e81,crc=1,finobt=1,rmapbt=1,reflink=1,bigtime=1,inobtcount=1" in home
    )
    assert "-i sparse=1,nrext64=1,size=512" in home and "exchange" not in home and "parent" not in home


@pytest.mark.parametrize(
    ("kind", "version", "command"),
    [
        ("vfat", "FAT32", "mkfs.vfat -F 32 -i EE433006 -n L /dev/x"),
        ("vfat", "", "mkfs.vfat -i EE433006 -n L /dev/x"),
        ("swap", "1", "mkswap -U EE43-3006 -L L /dev/x"),
        ("btrfs", "", "mkfs.btrfs -q -f -U EE43-3006 -L L /dev/x"),
        ("ext4", "1.0", "mke2fs -q -F -t ext4 -U EE43-3006 -L L /dev/x"),
        ("xfs", "", "mkfs.xfs -q -f -L L -m uuid=EE43-3006 /dev/x"),
    ],
)
def test_a_file_system_has_the_uuid_and_the_label_that_it_had(kind: str, version: str, command: str) -> None:
    content = {"type": kind, "version": version, "uuid": "EE43-3006", "label": "L"}
    assert " ".join(steps.format_command({"content": content}, "/dev/x")) == command


def test_of_a_btrfs_the_subvolumes_are_made_that_were_mounted() -> None:
    assert commands("disks", "subvolume") == ["btrfs subvolume create /run/rigwright_bare_metal/btrfs/@sets"]
    assert "mount -o subvol=/@sets /dev/nvme0n1p1 /target/srv" in commands("disks", "mount")


def test_a_passphrase_is_in_no_command() -> None:
    encrypted = [step for step in whole().phases["disks"] if step.get("command", [""])[0] == "cryptsetup"]
    assert [step["secret"] for step in encrypted] == [True, True]
    assert all("--key-file=-" in step["command"] for step in encrypted)
    assert "--uuid" in encrypted[0]["command"] and "luks2" in encrypted[0]["command"]


def test_volumes_keep_their_size_where_there_is_room() -> None:
    extents = {entry.split()[-2]: entry.split()[-4] for entry in commands("disks", "lvcreate")}
    assert extents == {"home": "128", "root": "256", "swap_1": "64"}


def test_volumes_of_a_smaller_group_fit_into_it() -> None:
    plan = plan_of(
        recorded(),
        blank(vda=1700 << 20),
        {"vdb": "/dev/disk/by-id/vda"},
        mode="uefi",
        keep=("sda", "vdc", "vdd", "nvme0n1"),
        passphrase=True,
    )
    created = [step["command"] for step in plan.phases["disks"] if step.get("command", [""])[0] == "lvcreate"]
    extents = {command[-2]: int(command[-4]) for command in created}
    assert extents["swap_1"] == 64 and 75 <= extents["home"] < 128 and extents["root"] < 256
    # 64 and 256 MiB before it, 16 of LUKS's header.
    assert sum(extents.values()) * 4 <= 1700 - 2 - 320 - 16


def test_uefi_gets_an_entry_and_the_removable_place() -> None:
    (step,) = (entry for entry in whole().phases["system"] if "grub-install" in entry.get("command", []))
    assert step["otherwise"]["command"][2:] == [
        *("grub-install", "--target=x86_64-efi", "--efi-directory=/boot/efi", "--recheck"),
        *("--no-nvram", "--force-extra-removable"),
    ]
    assert (
        " ".join(step["command"])
        == "chroot /target grub-install --target=x86_64-efi --efi-directory=/boot/efi --recheck --force-extra-removable"
    )


def test_bios_gets_grub_on_the_disk_of_the_system() -> None:
    plan = plan_of(simple(("ext4 /", 4000, 1000)), blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"})
    system = {step["command"][2]: step for step in plan.phases["system"] if step.get("command", [""])[0] == "chroot"}
    assert system["grub-install"]["command"][-2:] == ["--recheck", "/dev/vda"]
    assert system["debconf-set-selections"]["input"] == (
        "grub-pc grub-pc/install_devices multiselect /dev/disk/by-id/vda\n"
    )


def test_steps_come_in_the_order_of_their_needs() -> None:
    does = [step["do"] if step["do"] != "run" else " ".join(step["command"][2:3]) for step in whole().phases["system"]]
    order = [
        does.index(entry)
        for entry in ("directory", "swap_file", "edit", "kernels", "grub-install", "update-grub", "first_boot")
    ]
    assert order == sorted(order)


def test_a_swap_file_comes_back_as_large_as_it_was() -> None:
    assert [step for step in whole().phases["system"] if step["do"] == "swap_file"] == [
        {"do": "swap_file", "path": "/target/swapfile", "size": 64 << 20}
    ]


def test_all_names_of_a_device_lead_to_its_uuid() -> None:
    found = steps.device_references(recorded())
    assert {"/dev/disk/by-id/old-vdb-part2", "/dev/vdb2"} <= set(found["vdb2"]["names"])
    assert (
        "/dev/vg0/root" in found["vg0-root"]["names"]
        and found["vg0-root"]["lasting_names"][0] == "/dev/mapper/vg0-root"
    )
    assert (found["vdb2"]["targets"], found["vdb2"]["lasting_names"]) == (["/boot"], [])
    assert found["nvme0n1"]["uuid"] == "29c66ab1-73f4-4f34-ad1a-e1efb28e4ceb"


def test_the_first_boot_expects_only_what_was_restored() -> None:
    (step,) = (entry for entry in whole().phases["system"] if entry["do"] == "first_boot")
    assert step["expected"]["mounts"] == ["/", "/boot", "/boot/efi", "/data", "/home", "/log", "/scratch", "/srv"]
    assert step["expected"]["host"] == "ws1" and step["expected"]["swap"] is True


def test_a_bind_mount_of_a_btrfs_is_no_subvolume() -> None:
    manifest: dict[str, Any] = copy.deepcopy(simple(("btrfs /", 4000, 1000)))
    manifest["devices"]["sda1"]["mountpoints"] = ["/", "/home", "/srv/www"]
    (root,) = manifest["mounts"]
    manifest["mounts"] = [
        {**root, "root": "/@rootfs", "subvolume": "/@rootfs"},
        {**root, "target": "/home", "root": "/@rootfs/home", "subvolume": "/@rootfs/home"},
        {**root, "target": "/srv/www", "root": "/@rootfs/data/www", "subvolume": "/@rootfs"},
    ]
    plan = plan_of(manifest, blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"})
    ran = [
        " ".join(step["command"]) for step in plan.phases["disks"] if step.get("command", [""])[0] in ("btrfs", "mount")
    ]
    assert ran[1:] == [
        "btrfs subvolume create /run/rigwright_bare_metal/btrfs/@rootfs",
        "btrfs subvolume create /run/rigwright_bare_metal/btrfs/@rootfs/home",
        "mount -o subvol=/@rootfs /dev/vda1 /target",
        "mount -o subvol=/@rootfs/home /dev/vda1 /target/home",
        "mount --bind /target/data/www /target/srv/www",
    ]


def test_a_block_is_no_smaller_than_a_sector_of_the_new_disk() -> None:
    manifest = simple(("ext2 /boot", 488, 100), ("ext4 /", 4000, 1000))
    manifest["devices"]["sda1"]["features"] = {
        "features": ["filetype"], "block_size": 1024, "inode_size": 256, "bytes_per_inode": 4096, "reserved_percent": 5,
    }  # fmt: skip
    here = blank(vda=8 * GIB)
    for sector, block in ((512, "1024"), (4096, "4096")):
        here["vda"]["logical_sector"] = sector
        plan = plan_of(manifest, here, {"sda": "/dev/disk/by-id/vda"})
        (created,) = (entry["command"] for entry in plan.phases["disks"] if "ext2" in entry.get("command", []))
        assert created[created.index("-b") + 1] == block


def test_a_swap_file_of_a_kept_disk_is_not_created() -> None:
    manifest = simple(("ext4 /", 4000, 1000))
    manifest["devices"]["sdb"] = device("disk", "/dev/sdb", GIB, content="ext4", uuid="u-data", mountpoints=["/data"])
    manifest["disks"]["sdb"] = {"by_id": [], "table": {}}
    manifest["mounts"].append({**manifest["mounts"][0], "target": "/data", "source": "/dev/sdb"})
    for path, created in (("/data/swapfile", False), ("/database/swapfile", True)):
        manifest["swaps"] = [{"path": path, "type": "file", "size": 64 * GIB, "priority": -2}]
        plan = plan_of(manifest, blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"}, keep=("sdb",))
        assert [step["path"] for step in plan.phases["system"] if step["do"] == "swap_file"] == [
            f"/target{path}"
        ] * created
        (check,) = (step["expected"] for step in plan.phases["system"] if step["do"] == "first_boot")
        assert check["swap"] is created


@pytest.mark.parametrize(
    ("mounts", "bound"),
    [
        # Otherwise the files of /home would land on /, below what fstab mounts over them.
        ([("/data", "/"), ("/home", "/home")], ["/target/data/home /target/home"]),
        ([("/data", "/"), ("/data2", "/")], ["/target/data /target/data2"]),
        ([("/data", "/"), ("/data/docker", "/docker")], []),
        ([("/home", "/home")], []),
        ([("/data", "/"), ("/data/x", "/x"), ("/srv", "/x/y")], ["/target/data/x/y /target/srv"]),
    ],
)
def test_files_of_a_bind_mount_come_back_to_their_disk(mounts: list[tuple[str, str]], bound: list[str]) -> None:
    manifest = copy.deepcopy(simple(("ext4 /", 2000, 1000), ("ext4", 3000, 0)))
    manifest["devices"]["sda2"]["mountpoints"] = [target for target, _root in mounts]
    row = {"source": "/dev/sda2", "type": "ext4", "size": 3000, "used": 0}
    manifest["mounts"] += [{**row, "target": target, "root": root} for target, root in mounts]
    plan = plan_of(manifest, blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"})
    ran = [step["command"] for step in plan.phases["disks"] if step.get("command", [""])[0] == "mount"]
    assert [" ".join(command[2:]) for command in ran if "--bind" in command] == bound
    directories = [step["path"] for step in plan.phases["disks"] if step["do"] == "directory"]
    assert all(set(pair.split()) <= set(directories) for pair in bound)


def test_a_compressed_btrfs_is_compressed_while_it_is_filled() -> None:
    manifest = copy.deepcopy(simple(("btrfs /", 4000, 1000)))
    manifest["mounts"][0] |= {"root": "/@", "subvolume": "/@"}
    manifest["files"] = {"fstab": "UUID=uuid-1 / btrfs noatime,compress-force=zstd:3,subvol=@ 0 0\n"}
    plan = plan_of(manifest, blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"})
    assert ["mount", "-o", "compress-force=zstd:3,subvol=/@", "/dev/vda1", "/target"] in [
        step.get("command") for step in plan.phases["disks"]
    ]


def test_an_ext4_counts_the_blocks_of_a_disk_of_20_tb() -> None:
    features = {
        "features": ["extent", "filetype"], "block_size": 4096, "inode_size": 256, "bytes_per_inode": 16384,
        "reserved_percent": 1,
    }  # fmt: skip
    disk = device("part", "/dev/sda1", GIB, "sda", "ext4", "u", features=features)
    for size, names in ((8 << 40, "none,extent,filetype"), (20 << 40, "none,64bit,extent,filetype")):
        command = steps.format_command(disk, "/dev/x", size=size)
        assert command[command.index("-O") + 1] == names


@pytest.mark.parametrize(("point", "options"), [("/boot", ["pbkdf2"]), ("/home", [])])
def test_grub_can_open_the_device_of_the_kernels(point: str, options: list[str]) -> None:
    manifest = simple(("ext4 /", 2000, 1000), ("crypto_LUKS", 3000, 0), ("ext4 /boot", 500, 100))
    if point == "/boot":
        manifest["mounts"].pop()
        manifest["devices"]["sda3"]["mountpoints"] = []
    manifest["devices"]["c"] = device("crypt", "/dev/mapper/c", 2984 << 20, "sda2", "ext4", "u-c", mountpoints=[point])
    manifest["mounts"].append({**manifest["mounts"][0], "target": point, "source": "/dev/mapper/c"})
    plan = plan_of(manifest, blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"}, passphrase=True)
    (command,) = (step["command"] for step in plan.phases["disks"] if "luksFormat" in step.get("command", ()))
    assert [word for before, word in itertools.pairwise(command) if before == "--pbkdf"] == options


def test_the_first_boot_expects_no_mounts_on_demand() -> None:
    manifest = simple(
        ("ext4 /", 2000, 1000), *((f"ext4 {point}", 500, 1) for point in ("/media/al/stick", "/old", "/x"))
    )
    manifest["files"] = {
        "fstab": "UUID=uuid-3 /old ext4 noauto 0 0\nUUID=uuid-4 /x ext4 noatime,x-systemd.automount 0 0\n"
    }
    assert steps.expectations(manifest, ["sda1", "sda2", "sda3", "sda4"], False)["mounts"] == ["/"]
    manifest["files"] = {"fstab": "UUID=uuid-2 /media/al/stick ext4\n"}
    assert steps.expectations(manifest, ["sda2"], False)["mounts"] == ["/media/al/stick"]


def test_a_whole_disk_is_known_by_its_port() -> None:
    manifest = recorded()
    manifest["disks"]["nvme0n1"]["by_path"] = ["/dev/disk/by-path/pci-0000:01:00.0-nvme-1"]
    assert "/dev/disk/by-path/pci-0000:01:00.0-nvme-1" in steps.device_references(manifest)["nvme0n1"]["names"]
