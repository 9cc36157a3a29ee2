# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import disks as disk_parsing
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.disks import Content, Device, Disk

# A laptop with LUKS and LVM on its NVMe, a disk whose RAID runs, a CD drive and an empty card reader, as util-linux 2.38 prints it.
LSBLK = json.dumps(
    {
        "blockdevices": [
            {
                "name": "nvme0n1",
                "path": "/dev/nvme0n1",
                "type": "disk",
                "size": 1000204886016,
                "ro": False,
                "serial": "S7KHNJ0W ",
                "model": "Samsung SSD 990 PRO 1TB",
                "mountpoints": [None],
                "children": [
                    {
                        "name": "nvme0n1p1",
                        "path": "/dev/nvme0n1p1",
                        "type": "part",
                        "size": 536870912,
                        "mountpoints": ["/boot/efi"],
                        "uuid": "ABCD-1234",
                    },
                    {
                        "name": "nvme0n1p2",
                        "path": "/dev/nvme0n1p2",
                        "type": "part",
                        "size": 999665172480,
                        "mountpoints": [None],
                        "children": [
                            {
                                "name": "crypt",
                                "path": "/dev/mapper/crypt",
                                "type": "crypt",
                                "size": 1,
                                "mountpoints": [None],
                                "children": [
                                    {
                                        "name": "vg-root",
                                        "path": "/dev/mapper/vg-root",
                                        "type": "lvm",
                                        "size": 1,
                                        "mountpoints": ["/"],
                                    },
                                    {
                                        "name": "vg-swap",
                                        "path": "/dev/mapper/vg-swap",
                                        "type": "lvm",
                                        "size": 1,
                                        "mountpoints": ["[SWAP]"],
                                    },
                                ],
                            }
                        ],
                    },
                ],
            },
            {
                "name": "sda",
                "path": "/dev/sda",
                "type": "disk",
                "size": 12000138625024,
                "ro": "1",
                "serial": None,
                "model": None,
                "mountpoints": [],
                "children": [{"name": "md0", "path": "/dev/md0", "type": "raid1", "size": 1, "mountpoints": ["/srv"]}],
            },
            {
                "name": "sr0",
                "path": "/dev/sr0",
                "type": "rom",
                "size": 1073741312,
                "ro": False,
                "serial": "x",
                "model": "DVD",
                "mountpoints": [None],
            },
            {
                "name": "sdb",
                "path": "/dev/sdb",
                "type": "disk",
                "size": 0,
                "ro": False,
                "serial": "reader",
                "model": "",
                "mountpoints": [None],
            },
        ]
    }
)
LINKS = {
    "/dev/disk/by-id/nvme-Samsung_990": "/dev/nvme0n1",
    "/dev/disk/by-id/nvme-Samsung_990-part1": "/dev/nvme0n1p1",
    "/dev/disk/by-partuuid/aa-bb": "/dev/nvme0n1p1",
}


def test_disks_are_parsed_with_their_holders() -> None:
    first, second = disk_parsing.parse_disks(LSBLK, LINKS)
    assert (first.serial, first.ids, first.key, first.read_only) == (
        "S7KHNJ0W",
        ("nvme-Samsung_990",),
        "S7KHNJ0W",
        False,
    )
    assert first.every_use == [
        "/dev/nvme0n1p1 is mounted at /boot/efi",
        "/dev/nvme0n1p2 holds crypt crypt",
        "/dev/nvme0n1p2 holds lvm vg-root, mounted at /",
        "/dev/nvme0n1p2 holds lvm vg-swap, mounted at [SWAP]",
    ]
    assert first.partitions[0].names == {"/dev/nvme0n1p1", *list(LINKS)[1:]}
    assert [part.uuid for part in first.partitions] == ["ABCD-1234", ""]
    assert (second.key, second.read_only, second.every_use) == ("", True, ["/dev/sda holds raid1 md0, mounted at /srv"])


def test_disk_is_found_by_serial_or_id_only() -> None:
    disks = disk_parsing.parse_disks(LSBLK, LINKS)
    assert [disk.path for disk in disk_parsing.find(disks, "", "S7KHNJ0W")] == ["/dev/nvme0n1"]
    assert [disk.path for disk in disk_parsing.find(disks, "nvme-Samsung_990", "")] == ["/dev/nvme0n1"]
    assert disk_parsing.find(disks, "nvme-Samsung_990-part1", "") == []


# As blkid and wipefs of Debian 12 print it.
EXT4 = (
    "DEVNAME=/dev/loop6p1\nLABEL=my\\ photos\nUUID=4e57fb40-bc4b-409b-936e-9c2781cd8a4d\nTYPE=ext4\nUSAGE=filesystem\n"
)
GPT = "DEVNAME=/dev/loop6\nPTUUID=D55D5D54-e201-2a44-8114-2b9bde6af660\nPTTYPE=gpt\n"
SIGNED = '{"signatures": [{"device": "sda", "offset": "0x1000", "type": "%s"}, {"device": "sda", "offset": "0x2000", "type": "%s"}]}'


@pytest.mark.parametrize(
    ("blkid", "wipefs", "blank", "expected", "empty"),
    [
        ("", "", True, "nothing that is known", True),
        ("", "", False, "data of no known kind", False),
        (EXT4, SIGNED % ("ext4", "ext4"), False, "ext4 labelled 'my photos'", False),
        # Two at once: blkid says nothing at all.
        ("", SIGNED % ("zfs_member", "ext4"), True, "zfs_member and ext4", False),
        ("TYPE=crypto_LUKS\n", "", True, "crypto_LUKS without a label", False),
    ],
)
def test_content_is_described(blkid: str, wipefs: str, blank: bool, expected: str, empty: bool) -> None:
    content = disk_parsing.parse_content(blkid, wipefs, blank)
    assert (disk_parsing.describe_content(content), content.empty) == (expected, empty)


def test_a_table_is_known_by_its_id_in_small_letters() -> None:
    content = disk_parsing.parse_content(GPT, SIGNED % ("gpt", "PMBR"), False)
    assert (content.table, content.table_id, content.signatures) == (
        "gpt",
        "d55d5d54-e201-2a44-8114-2b9bde6af660",
        ("gpt", "PMBR"),
    )


def test_content_of_a_disk_is_described_by_partition() -> None:
    parts = (
        Device("/dev/sda1", 5 * 10**8, Content(kind="vfat")),
        Device("/dev/sda2", 12 * 10**12, Content(kind="ntfs", label="old")),
    )
    disk = Disk("/dev/sda", content=Content(table="gpt"), partitions=parts)
    assert disk_parsing.describe_disk(disk) == (
        "a gpt partition table, /dev/sda1 (500 MB): vfat without a label, /dev/sda2 (12 TB): ntfs labelled 'old'"
    )


@pytest.mark.parametrize(("count", "expected"), [(999, "999 B"), (12000138625024, "12 TB"), (1500 * 10**12, "1.5 PB")])
def test_sizes_are_in_powers_of_ten(count: int, expected: str) -> None:
    assert disk_parsing.format_size(count) == expected


def test_labels_of_what_is_on_a_device_are_its_own() -> None:
    rows = json.loads(LSBLK)
    volume = {"name": "vg-sets", "path": "/dev/mapper/vg-sets", "type": "lvm", "size": 1, "label": "sets"}
    part = {"name": "sdz1", "path": "/dev/sdz1", "type": "part", "size": 1, "label": "old", "children": [volume]}
    disk = {"name": "sdz", "path": "/dev/sdz", "type": "disk", "size": 2, "ro": False, "children": [part]}
    rows["blockdevices"] = [disk]
    (found,) = disk_parsing.parse_disks(json.dumps(rows), {})
    assert found.labels == frozenset()
    assert found.partitions[0].labels == frozenset(["old", "sets"])
