# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that is well learns what would keep it from being built again."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import trial

from tests.unit.support.manifest.manifests import device, recorded, simple

PLAIN = simple(("ext4 /", 4000, 1000), ("swap", 500, 0))


def test_a_plain_machine_has_no_problems() -> None:
    assert trial.problems(PLAIN) == []


def test_what_is_not_made_again_is_named_with_its_remedy() -> None:
    assert [line for line in trial.problems(recorded()) if "linux_raid_member" in line]


def test_windows_beside_the_system_is_no_problem() -> None:
    manifest = simple(("ext4 /", 4000, 1000), ("ntfs", 900, 0))
    assert trial.problems(manifest) == []
    manifest["devices"]["sda2"]["mountpoints"] = ["/mnt/windows"]
    manifest["mounts"].append(
        {**manifest["mounts"][0], "target": "/mnt/windows", "source": "/dev/sda2", "type": "ntfs"}
    )
    assert len(trial.problems(manifest)) == 1


def test_a_loader_that_is_not_set_up_is_named() -> None:
    manifest = copy.deepcopy(PLAIN)
    manifest["boot"]["loader"] = "systemd-boot"
    (line,) = trial.problems(manifest)
    assert line.startswith("bare_metal_manifest names systemd-boot")


def test_an_initramfs_that_nothing_makes_is_named() -> None:
    manifest = copy.deepcopy(PLAIN)
    manifest["packages"] = {"versions": {"grub-pc": "2.12", "dracut": "107"}}
    assert trial.problems(manifest) == []
    del manifest["packages"]["versions"]["dracut"]
    (line,) = trial.problems(manifest)
    assert line.startswith("bare_metal_manifest names no package that makes an initramfs")


def test_what_is_locked_or_holds_virtual_machines_is_no_problem() -> None:
    manifest = simple(("ext4 /", 4000, 1000), ("crypto_LUKS", 900, 0), ("LVM2_member", 900, 0))
    manifest["volume_groups"]["vms"] = {
        "extent_size": 4 << 20,
        "devices": [{"path": "/dev/sda3"}],
        "volumes": [{"name": "pool", "size": 800 << 20, "type": "thin-pool", "origin": ""}],
    }
    assert trial.problems(manifest) == []
    manifest["devices"]["vms-vm"] = device("lvm", "/dev/mapper/vms-vm", 1 << 20, "sda3", "ext4", mountpoints=["/vm"])
    (line,) = trial.problems(manifest)
    assert line.startswith("bare_metal_empty lacks sda3, with volumes of vms")


@pytest.mark.parametrize(
    ("point", "fstab", "needed"),
    [
        ("/media/alice/STICK", "", False),
        ("/media/alice/STICK", "UUID=uuid-1 / ext4\n", False),
        ("/mnt/win", "UUID=uuid-1 / ext4\nUUID=uuid-2 /mnt/win ntfs noauto,user\n", False),
        ("/mnt/win", "UUID=uuid-1 / ext4\n", False),
        ("/mnt/win", "UUID=uuid-1 / ext4\nUUID=uuid-2 /mnt/win ntfs nofail\n", True),
        ("/media/win", "UUID=uuid-1 / ext4\nUUID=uuid-2 /media/win ntfs nofail\n", True),
        ("/usr", "UUID=uuid-1 / ext4\n", True),
        ("[SWAP]", "UUID=uuid-1 / ext4\n", True),
    ],
)
def test_what_the_system_does_not_mount_by_itself_is_no_problem(point: str, fstab: str, needed: bool) -> None:
    manifest = simple(("ext4 /", 4000, 1000), ("ntfs", 900, 0))
    manifest["devices"]["sda2"]["mountpoints"] = [point]
    if point.startswith("/"):
        manifest["mounts"].append({**manifest["mounts"][0], "target": point, "source": "/dev/sda2", "type": "ntfs"})
    manifest["files"] = {"fstab": fstab}
    assert bool(trial.problems(manifest)) is needed
    assert trial.left_empty(manifest) == ([] if needed else ["sda2 (ntfs)"])
