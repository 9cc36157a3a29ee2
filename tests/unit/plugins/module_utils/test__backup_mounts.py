# SPDX-License-Identifier: GPL-3.0-or-later
"""Which file systems a job would leave out without a word."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils import _backup_mounts as mounting
from ansible_collections.rigwright.workstation.plugins.module_utils._backup_mounts import Mount

MOUNTINFO = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:5 / /dev rw - devtmpfs udev rw
24 22 8:2 / /home rw - ext4 /dev/sda2 rw
25 24 8:17 / /home/alice/my\040data rw - xfs /dev/sdb1 rw
26 22 8:1 /srv /export rw - ext4 /dev/sda1 rw
27 22 0:40 / /mnt/nas rw - nfs4 nas:/x rw
28 24 0:41 / /home/alice/.cache/doc rw - fuse.portal portal rw
"""
MOUNTS = mounting.parse_mountinfo(MOUNTINFO)


def left_out(paths: list[str], excludes: list[str] | None = None, others: list[str] | None = None) -> list[str]:
    covered = [*paths, *(others or [])]
    return [mount.path for mount in mounting.uncovered(paths, excludes or [], covered, MOUNTS)]


def test_mountinfo_is_read_with_its_escapes() -> None:
    assert Mount("/home/alice/my data", "8:17", "xfs") in MOUNTS


def test_disks_below_a_path_are_told_but_the_kernels_own_and_bind_mounts_are_not() -> None:
    assert left_out(["/"]) == ["/home", "/home/alice/my data", "/mnt/nas"]
    assert left_out(["/home"]) == ["/home/alice/my data"]
    assert left_out(["/etc"]) == []


def test_a_disk_of_another_job_and_one_that_is_excluded_are_not_told() -> None:
    assert left_out(["/"], ["/mnt/*"], ["/home", "/home/alice/my data"]) == []
    assert left_out(["/"], ["/mnt", "/home"]) == []
    # A part of a disk is not the disk.
    assert left_out(["/"], ["/mnt"], ["/home/bob"]) == ["/home", "/home/alice/my data"]


def test_what_fstab_has_and_is_not_mounted_is_told() -> None:
    fstab = mounting.parse_fstab(
        "# <file system>\nUUID=1 / ext4 defaults 0 1\nUUID=2 none swap sw 0 0\nUUID=3 /home/ ext4 defaults 0 2\n"
        "UUID=4 /data xfs nofail 0 2\nUUID=5 /usb vfat noauto 0 0\n/x /y none bind 0 0\ntmpfs /tmp tmpfs size=1g 0 0\n"
    )
    assert fstab == ["/", "/home", "/data"]
    assert mounting.not_mounted(["/"], [], fstab, MOUNTS) == ["/data"]
    assert mounting.not_mounted(["/data/sets"], [], fstab, MOUNTS) == ["/data"]
    assert mounting.not_mounted(["/"], ["/data"], fstab, MOUNTS) == []
    assert mounting.not_mounted(["/home"], [], fstab, MOUNTS) == []


@pytest.mark.parametrize(
    ("path", "pattern", "fits"),
    [
        ("/mnt/usb", "/mnt/*", True),
        ("/mnt", "/mnt/*", False),
        ("/mnt/usb/deep", "/mnt/*", True),
        ("/home/a/.cache/pip", ".cache", True),
        ("/home/a/conda/pkgs", "conda/pkgs", True),
        ("/home/a/x/y/sets", "/home/**/sets", True),
        ("/home/a", "/home/ab", False),
        ("/home/a", "!/home/a", False),
    ],
)
def test_patterns_fit_as_restics_do(path: str, pattern: str, fits: bool) -> None:
    assert mounting.excluded(path, [pattern]) is fits
