# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests for a rebuild that are refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.unit.support.manifest.manifests import GIB, MIB, blank, device, recorded, simple
from tests.unit.support.manifest.rebuilds import ROOT, on_lvm, plan_of, refusal


def test_a_disk_that_is_too_small_is_refused_with_the_numbers() -> None:
    message = refusal(plan_of(ROOT, blank(vda=600 * MIB), {"sda": "/dev/disk/by-id/vda"}))
    assert "at least 1680 MiB are needed (sda1 1180, sda2 500), and there are 598" in message


def test_a_disk_in_overwrite_is_written_to() -> None:
    here = blank(vda=8 * GIB)
    here["vda"]["table_type"] = "gpt"
    here["vda1"] = device("part", "/dev/vda1", GIB, "vda", "ext4", "other")
    plan = plan_of(ROOT, here, {"sda": "/dev/disk/by-id/vda"}, overwrite=("/dev/disk/by-id/vda",))
    assert [step["command"][-1] for step in plan.phases["disks"][:3]] == ["/dev/vda1", "/dev/vda", "/dev/vda"]


def test_a_disk_in_use_is_refused_also_in_overwrite() -> None:
    plan = plan_of(ROOT, blank(), {"sda": "/dev/disk/by-id/vdz"}, overwrite=("/dev/disk/by-id/vdz",))
    assert "in use" in refusal(plan)


def test_one_disk_cannot_replace_two() -> None:
    manifest = recorded()
    disks = {"vdb": "/dev/disk/by-id/vda", "sda": "/dev/disk/by-id/vda"}
    plan = plan_of(manifest, blank(vda=8 * GIB), disks, mode="uefi", keep=("vdc", "vdd", "nvme0n1"), passphrase=True)
    assert refusal(plan) == "bare_metal_disks names /dev/vda twice"


def test_the_disk_of_the_system_cannot_be_kept() -> None:
    plan = plan_of(ROOT, blank(vda=8 * GIB), {}, keep=("sda",))
    assert [row["variable"] for row in plan.refusals] == ["bare_metal_disks", "bare_metal_keep"]


def test_a_disk_with_the_same_uuid_is_refused() -> None:
    here = blank(vda=8 * GIB, vdb=8 * GIB)
    here["vdb1"] = device("part", "/dev/vdb1", GIB, "vdb", "ext4", "uuid-1")
    assert "with the UUID uuid-1, which vdb1 has in this machine" in refusal(
        plan_of(ROOT, here, {"sda": "/dev/disk/by-id/vda"})
    )


def test_missing_passphrase_and_thin_pools_are_refused() -> None:
    disks = {"vdb": "/dev/disk/by-id/vda"}
    more: dict[str, Any] = {"mode": "uefi", "keep": ("sda", "vdc", "vdd", "nvme0n1")}
    assert refusal(plan_of(recorded(), blank(vda=8 * GIB), disks, **more)).startswith(
        "bare_metal_passphrase is missing"
    )
    manifest = copy.deepcopy(recorded())
    manifest["volume_groups"]["vg0"]["volumes"][0]["type"] = "thin"
    plan = plan_of(manifest, blank(vda=8 * GIB), disks, passphrase=True, **more)
    assert "neither linear nor striped (home)" in refusal(plan)


SNAPSHOT = {"id": "80b7bfd310db", "host": "ws1", "time": "2026-11-22T18:00:00", "tags": [], "paths": ["/"]}


DUMP = {**SNAPSHOT, "tags": ["job:system", "part:dump:wiki"], "paths": ["/wiki.sql"]}


@pytest.mark.parametrize(
    ("snapshots", "messages"),
    [
        ([SNAPSHOT], []),
        ([{**SNAPSHOT, "tags": ["job:system", "part:files"], "paths": ["/boot", "/etc", "/usr", "/var"]}], []),
        (
            [{**SNAPSHOT, "paths": ["/etc", "/boot/efi"]}, {**SNAPSHOT, "paths": ["/usr", "/var"]}],
            ["nothing back to /boot"],
        ),
        ([SNAPSHOT, DUMP], ["has 80b7bfd3 of 2026-11-22T18:00:00, which is the dump wiki and no files"]),
        ([DUMP], ["the dump wiki", "to /boot", "to /etc", "to /usr", "to /var"]),
        ([SNAPSHOT, {**SNAPSHOT, "host": "ws2", "paths": ["/home"]}], ["snapshots of several hosts (ws1, ws2)"]),
    ],
)
def test_snapshots_without_a_whole_system_are_refused(snapshots: list[dict[str, Any]], messages: list[str]) -> None:
    plan = plan_of(ROOT, blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"}, snapshots=snapshots)
    assert len(plan.refusals) == len(messages) and bool(plan.phases) != bool(messages)
    for row, text in zip(plan.refusals, messages, strict=True):
        assert row["variable"] == "bare_metal_snapshots" and text in row["problem"] and "part:files" in row["remedy"]


def test_a_volume_group_with_the_same_name_is_refused() -> None:
    here, disks = blank(vda=9 * GIB, vdb=4 * GIB), {"sda": "/dev/disk/by-id/vda"}
    message = refusal(plan_of(on_lvm(), here, disks, groups={"vg": ["/dev/vdb"]}))
    assert (
        message == "bare_metal_disks would make the volume group vg, and /dev/vdb of this machine has one of that name"
    )
    assert plan_of(on_lvm(), here, disks, groups={"other": ["/dev/vdb"]}).refusals == []
    # What is on the disk itself is gone by then.
    assert plan_of(on_lvm(), here, disks, groups={"vg": ["/dev/vda"]}).refusals == []


def over_two_disks() -> dict[str, Any]:
    """Return a machine whose root is a volume on a partition of sda and on all of sdb."""
    manifest = on_lvm()
    manifest["devices"]["sdb"] = device("disk", "/dev/sdb", 4 * GIB, content="LVM2_member", uuid="pv-2")
    manifest["disks"]["sdb"] = {"by_id": [], "table": {}}
    manifest["volume_groups"]["vg"]["devices"].append({"path": "/dev/sdb"})
    manifest["devices"]["vg-root"]["parents"] = ["sda1", "sdb"]
    return manifest


BOTH = {"sda": "/dev/disk/by-id/vda", "sdb": "/dev/disk/by-id/vdb"}


def test_grub_goes_to_a_disk_of_a_volume_on_two() -> None:
    plan = plan_of(over_two_disks(), blank(vda=9 * GIB, vdb=4 * GIB), BOTH)
    grub = [step["command"] for step in plan.phases["system"] if "grub-install" in step.get("command", ())]
    assert [command[-1] for command in grub] == ["/dev/vda"]


def test_a_group_is_made_once_all_its_devices_are_open() -> None:
    manifest = over_two_disks()
    manifest["devices"]["sdb"]["content"]["type"] = "crypto_LUKS"
    manifest["devices"]["sdb_crypt"] = device(
        "crypt", "/dev/mapper/sdb_crypt", 4 * GIB - 16 * MIB, "sdb", "LVM2_member"
    )
    manifest["volume_groups"]["vg"]["devices"][1]["path"] = "/dev/mapper/sdb_crypt"
    manifest["devices"]["vg-root"]["parents"] = ["sda1", "sdb_crypt"]
    plan = plan_of(manifest, blank(vda=9 * GIB, vdb=4 * GIB), BOTH, passphrase=True)
    created = [step["command"] for step in plan.phases["disks"] if step.get("command", [""])[0] == "vgcreate"]
    assert [command[-2:] for command in created] == [["/dev/vda1", "/dev/mapper/sdb_crypt"]]


def test_a_group_of_thin_pools_is_left_empty_on_request() -> None:
    manifest = copy.deepcopy(ROOT)
    manifest["devices"]["sdb"] = device("disk", "/dev/sdb", 4 * GIB, content="LVM2_member", uuid="pv-2")
    manifest["disks"]["sdb"] = {"by_id": [], "table": {}}
    facts = {"size": GIB, "origin": "", "stripes": 1, "pool": ""}
    manifest["volume_groups"]["vms"] = {
        "extent_size": 4 * MIB,
        "devices": [{"path": "/dev/sdb"}],
        "volumes": [{**facts, "name": "pool", "type": "thin-pool"}, {**facts, "name": "vm", "type": "thin"}],
    }
    here = blank(vda=8 * GIB, vdb=4 * GIB)
    assert refusal(plan_of(manifest, here, BOTH)) == (
        "bare_metal_empty lacks sdb, with volumes of vms that are neither linear nor striped (pool, vm)"
    )
    plan = plan_of(manifest, here, BOTH, empty=("sdb",))
    assert plan.refusals == [] and "/dev/vdb: 4.0 GiB left empty" in plan.summary


def test_uefi_without_its_mounted_partition_is_refused() -> None:
    manifest = simple(("vfat /boot/efi", 500, 5), ("ext4 /", 4000, 1000), mode="uefi")
    more: dict[str, Any] = {"here": blank(vda=8 * GIB), "disks": {"sda": "/dev/disk/by-id/vda"}, "mode": "uefi"}
    assert plan_of(manifest, **more).refusals == []
    manifest["mounts"].pop(0)
    assert refusal(plan_of(manifest, **more)).startswith("bare_metal_manifest names no EFI partition that was mounted")


def test_content_of_a_volume_of_veracrypt_is_left_out() -> None:
    manifest = simple(("ext4 /", 4000, 1000), ("none", 500, 0))
    device_of_it = device("crypt", "/dev/mapper/veracrypt1", 499 * MIB, "sda2", "ext4", "u-v", mountpoints=["/secret"])
    manifest["devices"]["veracrypt1"] = device_of_it
    manifest["mounts"].append({**manifest["mounts"][0], "target": "/secret", "source": "/dev/mapper/veracrypt1"})
    plan = plan_of(manifest, blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"})
    assert plan.phases["files"][-1]["exclude"] == ["/secret"]
    # Swap with a random key is made by each boot.
    device_of_it["content"]["type"], device_of_it["mountpoints"] = "swap", ["[SWAP]"]
    plan = plan_of(manifest, blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"})
    assert [step["expected"]["swap"] for step in plan.phases["system"] if step["do"] == "first_boot"] == [True]


@pytest.mark.parametrize("content", ["linux_raid_member", "zfs_member"])
def test_a_rebuild_without_a_root_is_refused(content: str) -> None:
    manifest = simple((content, 4000, 0), ("ext4 /data", 500, 100))
    manifest["mounts"].append({**manifest["mounts"][0], "target": "/", "source": "/dev/md0"})
    manifest["devices"]["sdb"] = device("disk", "/dev/sdb", 4 * GIB, content=content, uuid="other")
    manifest["disks"]["sdb"] = {"by_id": [], "table": {}}
    if content == "linux_raid_member":
        manifest["devices"]["md0"] = device("md", "/dev/md0", 4 * GIB, "sda1", "ext4", "u-md", mountpoints=["/"])
        manifest["devices"]["md0"]["parents"].append("sdb")
    plan = plan_of(manifest, blank(vda=8 * GIB, vdb=4 * GIB), BOTH, empty=("sda1", "sdb"))
    assert refusal(plan) == "bare_metal_disks has no place for /, which was on /dev/md0: that is not made again"
