# SPDX-License-Identifier: GPL-3.0-or-later
"""Mounts as the kernel reports them, and file systems that hold data of their own."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._system import mounts
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import Mount
from hypothesis import given
from hypothesis import strategies as st

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


def test_file_systems_with_data_of_their_own() -> None:
    found = [mount for mount in mounts.parse_mountinfo(MOUNTINFO) if mounts.holds_data(mount)]
    assert [mount.target for mount in found] == ["/", "/media/owner/My Disk", "/mnt/nas"]
    assert found[1] == Mount("/media/owner/My Disk", "/dev/sdc1", "exfat", "/", "8:33")
    assert mounts.holds_data(Mount("/", fstype="overlay"))


def test_a_hidden_mount_is_ignored() -> None:
    hidden = MOUNTINFO + "60 33 8:49 / /mnt/nas rw - ext4 /dev/sdd1 rw\n"
    (nas,) = [mount for mount in mounts.parse_mountinfo(hidden) if mount.target == "/mnt/nas"]
    assert nas.source == "/dev/sdd1"


def test_mounted_files_are_no_directories(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    lines = [f"28 1 8:1 / {place} rw - ext4 /dev/sda1 rw\n" for place in (tmp_path, tmp_path / "file")]
    (tmp_path / "mountinfo").write_text("".join(lines))
    assert [mount.directory for mount in mounts.read_mounts(str(tmp_path / "mountinfo"))] == [True, False]


def test_an_unreachable_server_is_not_queried(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(f"38 28 0:60 / {tmp_path}/gone rw - nfs4 nas:/export rw\n")
    assert [mount.directory for mount in mounts.read_mounts(str(tmp_path / "mountinfo"))] == [True]


def test_the_subvolume_of_a_btrfs_is_read() -> None:
    line = "28 1 0:30 /@home/www /srv rw - btrfs /dev/sda2 rw,ssd,subvolid=257,subvol=/@home\n"
    assert mounts.parse_mountinfo(line)[0].subvolume == "/@home"


def test_a_blank_that_does_not_break_is_a_part_of_a_name() -> None:
    (mount,) = mounts.parse_mountinfo("28 1 8:1 / /srv/My\u00a0Disk rw - ext4 /dev/sda1 rw\n")
    assert mount.target == "/srv/My\u00a0Disk"


FSTAB = """\
# <file system>
  # LABEL=not /at/all ext4
UUID=1 / ext4 defaults 0 1
UUID=2\tnone\tswap\tsw\t0\t0
UUID=3 /home/ ext4 defaults 0 2
UUID=4 /my\\040data xfs nofail 0 2
/dev/sdb1 /three ext4
/dev/sdb2 /srv/a#b ext4 defaults 0 0
LABEL=a#1 /labelled ext4 defaults 0 2
/mnt/d/www /srv/www none bind 0 0
/mnt/d/ftp /srv/ftp none defaults,rbind 0 0
nas:/export /nas nfs _netdev
"""


def test_fstab_lists_targets_mounted_at_boot() -> None:
    found = mounts.parse_fstab(FSTAB)
    storage = ["/", "/home", "/my data", "/three", "/srv/a#b", "/labelled"]
    assert found == [*storage, "/srv/www", "/srv/ftp", "/nas"]
    assert [place for place in found if place not in mounts.parse_fstab(FSTAB, binds=False)] == [
        "/srv/www",
        "/srv/ftp",
    ]


def test_fstab_is_read_as_mount_reads_it(tmp_path: Path) -> None:
    (tmp_path / "fstab").write_text(FSTAB)
    command = ["findmnt", "--fstab", "--tab-file", str(tmp_path / "fstab"), "-rno", "TARGET"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    targets = [place.replace("\\x20", " ").rstrip("/") or "/" for place in listed if place.startswith("/")]
    assert targets == mounts.parse_fstab(FSTAB)


@pytest.mark.parametrize(
    ("line", "devices"),
    [
        ("/dev/sda1:/dev/disk/by-id/usb-Dock_1-0:0 /x bcachefs", {"/dev/sda1", "/dev/disk/by-id/usb-Dock_1-0:0"}),
        ("LABEL=a /x btrfs device=/dev/sdb,device=/dev/sdc", {"/dev/disk/by-label/a", "/dev/sdb", "/dev/sdc"}),
        ("UUID=AB12-CD34 /x ext4 journal_path=/dev/my\\040log", {"/dev/disk/by-uuid/ab12-cd34", "/dev/my log"}),
        ("nas:/dev/x:/dev/y /x nfs defaults", {"nas:/dev/x:/dev/y"}),
    ],
)
def test_all_devices_of_a_line_are_named_in_one_form(line: str, devices: set[str]) -> None:
    assert [each.devices for each in mounts.fstab_lines(line)] == [devices]


def test_fstab_without_noauto_and_made_up_file_systems() -> None:
    left_out = [
        "UUID=5 /usb vfat noauto 0 0",
        "UUID=6 /later ext4 x-systemd.automount 0 0",
        "tmpfs /tmp tmpfs size=1g 0 0",
        "/mnt/d/x /x none bind,noauto 0 0",
        "/srv/same /srv/same none bind,ro 0 0",
        "/dev/sdc1 /two",
        "",
    ]
    assert mounts.parse_fstab("\n".join(left_out)) == []


@pytest.mark.parametrize(
    "kind", [*sorted(mounts.NETWORK), "fuse.mergerfs", "fuse.ceph-fuse", "fuseblk", "fuse", "vfat", "ecryptfs"]
)
def test_no_layers_on_file_systems_of_servers_and_of_fuse(kind: str) -> None:
    assert not mounts.can_hold_layers(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "tmpfs"])
def test_layers_on_file_systems_of_linux(kind: str) -> None:
    assert mounts.can_hold_layers(kind)


@given(st.binary(min_size=1).filter(lambda raw: b"\0" not in raw))
def test_escapes_of_the_kernel_are_bytes(raw: bytes) -> None:
    """The kernel escapes blanks and the backslash, and a user any byte of a name: each name is read as it is."""
    name = "/" + raw.decode("utf-8", "surrogateescape")
    every = "/" + "".join(f"\\{byte:03o}" for byte in raw)
    kernel = re.sub(r"[ \t\n\\#]", lambda found: f"\\{ord(found[0]):03o}", name)
    assert mounts.unescape(every) == mounts.unescape(kernel) == name
    (line,) = mounts.fstab_lines(f"LABEL=x {every} ext4 defaults 0 0")
    assert line.target == (name.rstrip("/") or "/")


def test_octal_escapes_are_read_in_one_place() -> None:
    """Elsewhere they became letters of Latin-1."""
    sources = Path(mounts.__file__).parents[1].rglob("*.py")
    assert [path.name for path in sources if re.search(r"\\\\\(\[0-[37]\]", path.read_text())] == ["mounts.py"]


def test_mount_of_a_user_holds_no_data_of_the_machine() -> None:
    text = (
        "90 24 0:60 / /home/a/far rw,nosuid,nodev - fuse.sshfs a@far:/ rw,user_id=1001,group_id=1001\n"
        "91 24 0:61 / /srv/pool rw - fuse.mergerfs a:b rw,user_id=0,group_id=0,allow_other\n"
        "92 24 0:62 / /srv/x rw - ext4 /dev/sdb1 rw,user_id=1001\n"
    )
    found = mounts.parse_mountinfo(text)
    assert {mount.target: mount.user for mount in found} == {"/home/a/far": 1001, "/srv/pool": 0, "/srv/x": 0}
    assert [mount.target for mount in found if mounts.holds_data(mount)] == ["/srv/pool", "/srv/x"]


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("My Disk", r"My\x20Disk"),
        ("a/b\\c", r"a\x2fb\x5cc"),
        ("Daten…Übung 漢", r"Daten…Übung\x20漢"),
        ("x_#+-.:=@", "x_#+-.:=@"),
        ("latin\udce9", r"latin\xe9"),
    ],
)
def test_a_label_has_the_name_that_udev_gives_it(label: str, name: str) -> None:
    assert mounts.escape_udev(label) == name
    assert mounts.unescape_udev(name) == label
