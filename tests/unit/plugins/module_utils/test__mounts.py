# SPDX-License-Identifier: GPL-3.0-or-later
"""What is mounted is read as the kernel tells it, and what can be lost is told from what is made up."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.rigwright.workstation.plugins.module_utils import _mounts
from ansible_collections.rigwright.workstation.plugins.module_utils._mounts import Mount

MOUNTINFO = r"""
22 28 0:20 / /sys rw,nosuid - sysfs sysfs rw
28 1 254:0 / / rw,relatime shared:1 - ext4 /dev/mapper/vg-root rw,errors=remount-ro
34 28 8:33 / /media/owner/My\040Disk rw,relatime shared:6 - exfat /dev/sdc1 rw
35 28 7:0 / /snap/core/1 ro,nodev shared:7 - squashfs /dev/loop0 ro
36 28 0:50 / /var/lib/docker/overlay2/1/merged rw - overlay overlay rw,lowerdir=/l
38 28 0:60 / /mnt/nas rw,relatime shared:8 - nfs4 nas:/export rw
39 28 0:61 / /run/user/1000/gvfs rw - fuse.gvfsd-fuse gvfsd-fuse rw
28 1 254:0 / /
1 2 - x
"""


def test_file_systems_that_can_be_lost_are_told_from_those_that_are_made_up() -> None:
    found = [mount for mount in _mounts.parse_mountinfo(MOUNTINFO) if _mounts.holds_data(mount)]
    assert [mount.target for mount in found] == ["/", "/media/owner/My Disk", "/mnt/nas"]
    assert found[1] == Mount("/media/owner/My Disk", "/dev/sdc1", "exfat", "/", "8:33")
    assert _mounts.holds_data(Mount("/", fstype="overlay"))


def test_a_mount_that_another_hides_is_not_seen() -> None:
    hidden = MOUNTINFO + "60 33 8:49 / /mnt/nas rw - ext4 /dev/sdd1 rw\n"
    (nas,) = [mount for mount in _mounts.parse_mountinfo(hidden) if mount.target == "/mnt/nas"]
    assert nas.source == "/dev/sdd1"


def test_mounted_files_are_told_from_directories(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    lines = [f"28 1 8:1 / {place} rw - ext4 /dev/sda1 rw\n" for place in (tmp_path, tmp_path / "file")]
    (tmp_path / "mountinfo").write_text("".join(lines))
    assert [mount.directory for mount in _mounts.read_mounts(str(tmp_path / "mountinfo"))] == [True, False]


def test_a_server_that_is_dead_is_not_asked_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(f"38 28 0:60 / {tmp_path}/gone rw - nfs4 nas:/export rw\n")
    assert [mount.directory for mount in _mounts.read_mounts(str(tmp_path / "mountinfo"))] == [True]


def test_of_a_btrfs_the_subvolume_is_known() -> None:
    line = "28 1 0:30 /@home/www /srv rw - btrfs /dev/sda2 rw,ssd,subvolid=257,subvol=/@home\n"
    assert _mounts.parse_mountinfo(line)[0].subvolume == "/@home"


def test_fstab_tells_what_is_mounted_at_boot() -> None:
    found = _mounts.parse_fstab(
        "# <file system>\nUUID=1 / ext4 defaults 0 1\nUUID=2 none swap sw 0 0\nUUID=3 /home/ ext4 defaults 0 2\n"
        "UUID=4 /my\\040data xfs nofail 0 2\nUUID=5 /usb vfat noauto 0 0\n/x /y none bind 0 0\ntmpfs /tmp tmpfs size=1g 0 0\n"
    )
    assert found == ["/", "/home", "/my data"]
