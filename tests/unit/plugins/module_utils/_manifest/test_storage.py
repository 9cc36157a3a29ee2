# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage as tools report it, recorded in a virtual machine of Debian 13 (tests/unit/support/manifest/manifests.py lists what it has)."""

from __future__ import annotations

import json

from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import storage

from tests.unit.support.manifest.manifests import GIB, MIB, fixture, groups


def test_every_device_names_its_parents() -> None:
    devices = storage.parse_lsblk(fixture("lsblk.json"))
    assert {name: device["parents"] for name, device in devices.items() if device["kind"] not in ("disk", "part")} == {
        "sys_crypt": ["vdb3"],
        "vg0-root": ["sys_crypt"],
        "vg0-swap_1": ["sys_crypt"],
        "vg0-home": ["sys_crypt"],
        "md127": ["vdc1", "vdd1"],
    }
    assert [name for name, device in devices.items() if device["kind"] == "disk"] == [
        "sda",
        "vdb",
        "vdc",
        "vdd",
        "nvme0n1",
    ]


def test_a_disk_has_its_identity() -> None:
    disk = storage.parse_lsblk(fixture("lsblk.json"))["nvme0n1"]
    assert (disk["serial"], disk["model"], disk["transport"]) == ("NVME0003", "QEMU NVMe Ctrl", "nvme")
    assert (disk["size"], disk["logical_sector"], disk["rotational"], disk["table_type"]) == (GIB, 512, False, "")
    assert disk["content"]["type"] == "xfs" and disk["mountpoints"] == ["/scratch"]


def test_a_file_system_has_uuid_label_and_every_mount_point() -> None:
    devices = storage.parse_lsblk(fixture("lsblk.json"))
    assert devices["vdb1"]["content"] == {"type": "vfat", "version": "FAT32", "uuid": "EE43-3006", "label": "EFI"}
    assert devices["sda1"]["mountpoints"] == ["/data", "/srv"]


def test_devices_without_storage_are_left_out() -> None:
    rows = [
        {"name": "loop0", "type": "loop", "size": 1, "path": "/dev/loop0"},
        {"name": "sr0", "type": "rom", "size": 1, "path": "/dev/sr0"},
        {"name": "zram0", "type": "disk", "size": 1, "path": "/dev/zram0"},
        *({"name": name, "type": "disk", "size": 1, "path": f"/dev/{name}"} for name in ("zd16", "nbd0", "rbd0")),
        {"name": "sdb", "type": "disk", "size": 0, "path": "/dev/sdb"},
        {"name": "sdc", "type": "disk", "size": 4096, "path": "/dev/sdc"},
    ]
    assert list(storage.parse_lsblk(json.dumps({"blockdevices": rows}))) == ["sdc"]


def test_stable_names_begin_with_the_readable_one() -> None:
    links = {
        "wwn-0x5000c500": "../../sda",
        "ata-RIGDISK_DATA0002": "../../sda",
        "ata-RIGDISK_DATA0002-part1": "../../sda1",
        # Of a whole disk of LVM, until that is made empty.
        "lvm-pv-uuid-D95Dnu-VRST": "../../sda",
    }
    assert storage.parse_links("by-id", links)["sda"] == [
        "/dev/disk/by-id/ata-RIGDISK_DATA0002",
        "/dev/disk/by-id/wwn-0x5000c500",
    ]


def test_a_gpt_keeps_types_uuids_names_and_attributes() -> None:
    table = storage.parse_sfdisk(fixture("sfdisk_vdb.json"))
    assert (table["type"], table["id"], table["sector"]) == ("gpt", "5312DE37-CFF3-4795-AC70-37EED572579C", 512)
    assert table["partitions"][0] == {
        "number": 1,
        "name": "vdb1",
        "start": 2048,
        "size": 131072,
        "type": "C12A7328-F81F-11D2-BA4B-00A0C93EC93B",
        "uuid": "066E07C4-3C5A-4C69-B797-95F4FBFFC9FF",
        "label": "EFI System",
        "attributes": "",
        "bootable": False,
    }
    assert table["partitions"][1]["attributes"] == "LegacyBIOSBootable"


def test_a_table_of_dos_has_numbers_that_are_not_in_a_row() -> None:
    table = storage.parse_sfdisk(fixture("sfdisk_sda.json"))
    assert [(row["number"], row["type"], row["bootable"]) for row in table["partitions"]] == [
        (1, "83", True),
        (2, "5", False),
        (5, "82", False),
        (6, "83", False),
    ]


def test_a_volume_group_has_its_devices_and_volumes() -> None:
    (group,) = groups().values()
    assert (group["extent_size"], group["size"]) == (4 * MIB, 2864709632)
    assert [device["path"] for device in group["devices"]] == ["/dev/mapper/sys_crypt"]
    assert [(volume["name"], volume["size"], volume["type"]) for volume in group["volumes"]] == [
        ("home", 512 * MIB, "linear"),
        ("root", 1024 * MIB, "linear"),
        ("swap_1", 256 * MIB, "linear"),
    ]


def test_devices_belong_to_the_group_that_is_named() -> None:
    pvs = {
        "report": [
            {"pv": [{"pv_name": f"/dev/sd{x}1", "pv_uuid": x, "pv_size": "1", "vg_name": f"vg{x}"} for x in "ab"]}
        ]
    }
    row = {"vg_uuid": "", "vg_extent_size": "1", "vg_size": "1", "vg_free": "0"}
    vgs = {"report": [{"vg": [{**row, "vg_name": f"vg{x}"} for x in "ab"]}]}
    found = storage.volume_groups(json.dumps(pvs), json.dumps(vgs), "", {})
    assert {name: [device["path"] for device in group["devices"]] for name, group in found.items()} == {
        "vga": ["/dev/sda1"],
        "vgb": ["/dev/sdb1"],
    }


def test_a_host_without_lvm_has_no_groups() -> None:
    assert storage.volume_groups("", "", "", {}) == {}


def test_an_array_has_its_members() -> None:
    assert storage.parse_mdadm(fixture("mdadm_detail.txt")) == {
        "level": "raid1",
        "metadata": "1.2",
        "uuid": "15f84970:90a5550d:bebd5b8f:e16d9c8a",
        "name": "live:store",
        "members": ["vdc1", "vdd1"],
    }


def test_an_ext4_has_the_options_of_mke2fs() -> None:
    found = storage.parse_dumpe2fs(fixture("dumpe2fs_root.txt"))
    assert (found["block_size"], found["inode_size"], found["bytes_per_inode"], found["reserved_percent"]) == (
        4096,
        256,
        8192,
        5,
    )
    # It was mounted when this was recorded: that is a state and no feature, and mke2fs would refuse it.
    assert "needs_recovery" in fixture("dumpe2fs_root.txt") and "needs_recovery" not in found["features"]
    # grub of Debian 12 does not read these; they were left out when it was made.
    assert not {"metadata_csum_seed", "orphan_file"} & set(found["features"])
    assert {"metadata_csum_seed", "orphan_file"} <= set(
        storage.parse_dumpe2fs(fixture("dumpe2fs_vdb2.txt"))["features"]
    )
    assert storage.parse_dumpe2fs(fixture("dumpe2fs_vdb2.txt"))["reserved_percent"] == 1
    assert storage.parse_dumpe2fs("") == {}


def test_an_xfs_has_its_options_and_unnamed_ones_are_off() -> None:
    found = storage.parse_xfs_info(fixture("xfs_info_home.txt"))
    assert (found["block_size"], found["inode_size"]) == (4096, 512)
    assert found["options"]["nrext64"] == 1 and found["options"]["exchange"] == 0
    older = fixture("xfs_info_home.txt").replace(" nrext64=1", "")
    assert storage.parse_xfs_info(older)["options"]["nrext64"] == 0
    assert storage.parse_xfs_info("") == {}


def test_a_btrfs_has_its_number_of_devices() -> None:
    assert storage.parse_btrfs(fixture("btrfs_show.txt")) == {"448c53a7-4fc0-4fd6-8239-87886c467dd1": 1}


def test_files_and_partitions_that_are_swapped_to() -> None:
    assert storage.parse_swaps(fixture("swaps")) == [
        {"path": "/dev/dm-2", "type": "partition", "size": 256 * MIB, "priority": -2},
        {"path": "/dev/sda5", "type": "partition", "size": 512 * MIB, "priority": 5},
        {"path": "/swapfile", "type": "file", "size": 64 * MIB, "priority": -3},
    ]


def test_a_volume_that_has_grown_is_there_once() -> None:
    # lvs of 2.03.16, after lvextend of a volume with another one behind it.
    row = {"vg_name": "vg0", "lv_size": "314572800", "segtype": "linear", "stripes": "1", "origin": "", "pool_lv": ""}
    rows = [{**row, "lv_name": name, "segtype": kind} for name, kind in (("root", "linear"), ("root", "linear"))]
    rows += [{**row, "lv_name": "mixed"}, {**row, "lv_name": "mixed", "segtype": "raid1"}, {**row, "lv_name": "mixed"}]
    lvs = json.dumps({"report": [{"lv": rows}]})
    found = storage.volume_groups(fixture("pvs.json"), fixture("vgs.json"), lvs, {"vg0": fixture("vg0.cfg")})
    assert [(volume["name"], volume["type"]) for volume in found["vg0"]["volumes"]] == [
        ("mixed", "raid1"),
        ("root", "linear"),
    ]
