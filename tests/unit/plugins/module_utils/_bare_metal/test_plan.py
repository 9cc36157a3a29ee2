# SPDX-License-Identifier: GPL-3.0-or-later
"""Problems of a rebuild, and the disks that a plan writes to: the named ones and no other."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.model import (
    Plan,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.plugins.module_utils._bare_metal.test_layout import machines
from tests.unit.support.manifest.manifests import GIB, MIB, blank, device, recorded, simple
from tests.unit.support.manifest.rebuilds import ROOT, on_lvm, plan_of, refusal, steps_of, whole


def test_a_machine_of_one_disk_is_built_on_an_empty_one() -> None:
    plan = plan_of(ROOT, blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"})
    assert plan.refusals == []
    assert plan.summary[:3] == [
        "/dev/vda: a new gpt table, as sda had",
        "/dev/vda1: 7.5 GiB ext4",
        "/dev/vda2: 500 MiB swap",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"confirm": "ws2"}, "bare_metal_confirm is 'ws2', and the manifest is of 'ws1'"),
        (
            {"mode": "uefi"},
            "bare_metal_manifest is of a machine that boots by BIOS, and this live system was booted by UEFI",
        ),
        ({"disks": {"sda": "/dev/nvme9n1"}}, "bare_metal_disks has /dev/nvme9n1 for sda, which is not there"),
        (
            {"disks": {"sda": "/dev/disk/by-id/vdz"}},
            "bare_metal_disks has /dev/disk/by-id/vdz for sda, which is in use (vdz /)",
        ),
        ({"disks": {"sda": "/dev/vdb1"}}, "bare_metal_disks has /dev/vdb1 for sda, which is a part"),
        (
            {"disks": {"sda": "/dev/disk/by-id/vdb"}},
            "bare_metal_disks has /dev/disk/by-id/vdb for sda, which is not empty (gpt: vdb1)",
        ),
        (
            {"disks": {"sda": "/dev/disk/by-id/vdc"}},
            "bare_metal_disks has /dev/disk/by-id/vdc for sda, which is not empty (xfs: no partitions)",
        ),
        (
            {"disks": {"sda": "/dev/disk/by-id/vdd"}},
            "bare_metal_disks has /dev/disk/by-id/vdd for sda, which is in use (vg-root)",
        ),
        (
            {"disks": {"sda": "/dev/disk/by-id/vde"}},
            "bare_metal_disks has /dev/disk/by-id/vde for sda, which is read-only",
        ),
        (
            {"disks": {"sda": "/dev/disk/by-id/vdf"}},
            "bare_metal_disks sda does not fit on /dev/disk/by-id/vdf (600 MiB)",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_request_is_refused(change: dict[str, Any], message: str) -> None:
    here = blank(vda=8 * GIB, vdb=8 * GIB, vdc=8 * GIB, vdd=8 * GIB, vde=8 * GIB, vdf=600 * MIB)
    here["vdb"]["table_type"] = "gpt"
    here["vdb1"] = device("part", "/dev/vdb1", GIB, "vdb")
    here["vdc"]["content"]["type"] = "xfs"
    here["vdd"]["content"]["type"] = "LVM2_member"
    here["vg-root"] = device("lvm", "/dev/mapper/vg-root", GIB, "vdd")
    here["vde"]["read_only"] = True
    text = refusal(plan_of(ROOT, here, **{"disks": {"sda": "/dev/disk/by-id/vda"}, **change}))
    assert text.startswith(message)


def test_an_unassigned_disk_of_the_manifest_is_refused() -> None:
    plan = plan_of(
        recorded(),
        blank(vda=8 * GIB),
        {"vdb": "/dev/disk/by-id/vda"},
        mode="uefi",
        keep=("vdc", "vdd", "nvme0n1"),
        passphrase=True,
    )
    assert refusal(plan) == (
        "bare_metal_disks has no disk for sda of the manifest, which has 2.0 GiB and holds /data, /log, /srv"
    )


def test_an_empty_request_lists_host_and_disks() -> None:
    plan = plan_of(ROOT, blank(vda=8 * GIB), {}, confirm="")
    messages = [f"{row['variable']} {row['problem']}; {row['remedy']}" for row in plan.refusals]
    assert messages[0].startswith("bare_metal_confirm is '', and the manifest is of 'ws1'")
    assert (
        "sda of the manifest, which has 8.0 GiB and holds /; name one of /dev/disk/by-id/vda (8.0 GiB), "
        in messages[-1]
    )


@pytest.mark.parametrize(
    ("content", "variable"), [("ntfs", "empty"), ("zfs_member", "empty"), ("crypto_LUKS", "empty")]
)
def test_a_device_that_cannot_be_made_is_refused(content: str, variable: str) -> None:
    manifest = simple(("ext4 /", 4000, 1000), (content, 500, 0))
    disks = {"sda": "/dev/disk/by-id/vda"}
    assert refusal(plan_of(manifest, blank(vda=8 * GIB), disks, passphrase=True)).startswith(
        f"bare_metal_{variable} lacks sda2"
    )
    plan = plan_of(manifest, blank(vda=8 * GIB), disks, empty=("sda2",))
    assert plan.refusals == [] and "/dev/vda2: 500 MiB left empty" in plan.summary
    assert not [step for step in plan.phases["disks"] if step.get("writes") == ["/dev/vda2"]]


def test_a_mirror_is_refused_unless_left_empty() -> None:
    plan = plan_of(
        recorded(),
        blank(vda=8 * GIB, vdb=4 * GIB, vdc=2 * GIB, vdd=2 * GIB, vde=2 * GIB),
        {
            "vdb": "/dev/disk/by-id/vda",
            "sda": "/dev/disk/by-id/vdb",
            "nvme0n1": "/dev/disk/by-id/vdc",
            "vdc": "/dev/disk/by-id/vdd",
            "vdd": "/dev/disk/by-id/vde",
        },
        mode="uefi",
        passphrase=True,
    )
    assert {row["problem"].split(",")[0] for row in plan.refusals} == {"lacks vdc1", "lacks vdd1"}


@pytest.mark.parametrize(
    ("mode", "loader"), [("bios", ""), ("bios", "systemd-boot"), ("uefi", "systemd-boot"), ("uefi", "grub-pc")]
)
def test_an_unsupported_boot_loader_is_refused(mode: str, loader: str) -> None:
    manifest = copy.deepcopy(ROOT)
    manifest["boot"] |= {"mode": mode, "loader": loader}
    assert "set up for" in refusal(plan_of(manifest, blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"}, mode=mode))


def test_a_name_that_is_not_in_the_manifest_is_refused() -> None:
    here, disks = blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"}
    assert (
        refusal(plan_of(ROOT, here, disks, empty=("sda9",)))
        == "bare_metal_empty names sda9, which is not in the manifest"
    )
    assert refusal(plan_of(ROOT, here, disks, grow={"sda": "sdb1"})).startswith("bare_metal_grow names sdb1")
    assert refusal(plan_of(ROOT, here, disks, keep=("sdx",))).startswith(
        "bare_metal_disks names sdx, and the manifest has sda"
    )


def test_a_missing_partition_table_is_refused() -> None:
    manifest = copy.deepcopy(ROOT)
    manifest["disks"]["sda"]["table"] = {}
    manifest["devices"]["sda"]["table_type"] = "gpt"
    assert (
        refusal(plan_of(manifest, blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"}))
        == "bare_metal_manifest lacks the partition table of sda"
    )
    assert "has no disk for sda" in plan_of(manifest, blank(vda=8 * GIB), {}).refusals[-1]["problem"]


def written(step: dict[str, Any]) -> set[str]:
    """Return every device that a command names."""
    return set(re.findall(r"/dev/(?!disk/)[\w./-]+", " ".join(step["command"])))


def check_steps(plan: Plan, allowed: set[str]) -> None:
    """Check that devices are created before they are used, on the named disks only."""
    devices = set(allowed)
    for step in steps_of(plan):
        if (
            step["do"] != "run"
            or step["command"][0] in ("chroot", "umount", "udevadm", "sync")
            or "--rbind" in step["command"]
        ):
            continue
        program, *arguments = step["command"]
        if program == "sfdisk":
            between = "p" if arguments[-1][-1].isdigit() else ""
            devices |= {
                f"{arguments[-1]}{between}{number}" for number in re.findall(r"^p(\d+) :", step["input"], re.MULTILINE)
            }
        elif program == "cryptsetup" and arguments[0] == "open":
            devices.add(f"/dev/mapper/{arguments[-1]}")
        elif program == "lvcreate":
            group, volume = arguments[-1], arguments[arguments.index("--name") + 1]
            devices.add(f"/dev/mapper/{group.replace('-', '--')}-{volume.replace('-', '--')}")
        if program in ("lvcreate", "btrfs"):
            assert set(step["writes"]) <= devices
        else:
            assert written(step) <= devices and set(step["writes"]) <= devices, step
        for other in step["writes"]:
            assert any(other == path or path.startswith("/dev/mapper/") or other.startswith(path) for path in devices)


def test_a_plan_names_no_other_device_and_none_before_it_is_made() -> None:
    plan = whole()
    assert plan.refusals == []
    check_steps(plan, {"/dev/vda", "/dev/nvme0n1", "/dev/vdc"})


@settings(max_examples=150)
@given(machines(), st.integers(64, 1 << 14))
def test_no_plan_writes_to_a_disk_that_is_not_named(manifest: dict[str, Any], mib: int) -> None:
    plan = plan_of(manifest, blank(vda=mib * MIB, vdb=8 * GIB), {"sda": "/dev/disk/by-id/vda"})
    assert bool(plan.refusals) != bool(plan.phases)
    check_steps(plan, {"/dev/vda"})


def test_file_systems_are_mounted_from_the_root_down() -> None:
    plan = whole()
    mounted = [step["command"][-1] for step in plan.phases["disks"] if step.get("command", [""])[0] == "mount"]
    places = [place for place in mounted if place.startswith("/target")]
    assert places[0] == "/target" and set(places) == {
        f"/target{point}" for point in ("", "/boot", "/boot/efi", "/data", "/srv", "/home", "/scratch", "/log")
    }
    for number, place in enumerate(places):
        assert not any(later != place and place.startswith(f"{later}/") for later in places[number:])
    # What is not made would land on the file system around it.
    assert plan.phases["files"][1:] == [{"do": "restore", "target": "/target", "exclude": ["/store"]}]


def test_only_absent_devices_are_optional_at_boot() -> None:
    def absent(plan: Plan) -> set[str]:
        return {name for step in plan.phases["system"] if step.get("kind") == "fstab" for name in step["absent"]}

    assert absent(whole()) == {"vdc1", "vdd1", "md127"}
    here = blank(vda=8 * GIB, nvme0n1=4 * GIB, vdc=2 * GIB)
    here["md0"] = device("md", "/dev/md0", GIB, content="ext4", uuid=recorded()["devices"]["md127"]["content"]["uuid"])
    disks = {"vdb": "/dev/disk/by-id/vda", "sda": "/dev/disk/by-id/nvme0n1", "nvme0n1": "/dev/disk/by-id/vdc"}
    plan = plan_of(recorded(), here, disks, mode="uefi", keep=("vdc", "vdd"), passphrase=True)
    assert absent(plan) == {"vdc1", "vdd1"}


def test_an_empty_device_is_optional_and_never_the_system() -> None:
    manifest = simple(("ext4 /", 4000, 1000), ("ntfs /windows", 500, 0))
    plan = plan_of(manifest, blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"}, empty=("sda2",))
    system = {step.get("kind", step["do"]): step for step in plan.phases["system"]}
    assert all(system[kind]["absent"] == ["sda2"] for kind in ("fstab", "crypttab", "resume", "grub"))
    assert system["first_boot"]["expected"]["mounts"] == ["/"]
    assert (
        refusal(plan_of(manifest, blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"}, empty=("sda1", "sda2")))
        == "bare_metal_empty has sda1, which holds /"
    )


def test_a_mount_below_one_that_is_not_made_is_refused() -> None:
    manifest = simple(("ext4 /", 4000, 1000), ("ntfs /data", 500, 0), ("ext4 /data/sets", 500, 0))
    more: dict[str, Any] = {"here": blank(vda=8 * GIB), "disks": {"sda": "/dev/disk/by-id/vda"}}
    assert "what holds /data/sets, which is in /data" in refusal(plan_of(manifest, **more, empty=("sda2",)))
    assert plan_of(manifest, **more, empty=("sda2", "sda3")).refusals == []


def test_lvm_snapshots_and_stripes_are_noted() -> None:
    plan = plan_of(on_lvm(), blank(vda=9 * GIB), {"sda": "/dev/disk/by-id/vda"})
    assert plan.refusals == [] and plan.notes == [
        "the volume vg/snap was a snapshot of root: it is not made again",
        "the volume vg/fast was striped over 2 disks: it becomes linear",
    ]


@pytest.mark.parametrize("table", ["gpt", "dos"])
def test_a_begun_disk_is_accepted_with_its_own_table(table: str) -> None:
    manifest, path = copy.deepcopy(ROOT), "/dev/disk/by-id/vda"
    ours = manifest["disks"]["sda"]["table"]["id"] if table == "gpt" else "0xCAFE0001"
    manifest["disks"]["sda"]["table"]["id"] = ours
    here = blank(vda=8 * GIB)
    here["vda"].update(table_type=table, serial="S1", wwn="")
    here["vda1"] = device("part", "/dev/vda1", GIB, "vda", "ext4", "uuid-1", mountpoints=["/target"])
    identity = {"serial": "S1", "wwn": "", "size": 8 * GIB}

    def found(begun: dict[str, Any], tables: dict[str, str]) -> list[str]:
        return [row["problem"] for row in plan_of(manifest, here, {"sda": path}, tables=tables, begun=begun).refusals]

    mine = {"vda": ours.lower().removeprefix("0x")}
    assert found({path: identity}, mine) == []
    assert "is in use" in found({}, mine)[0]
    assert "is in use" in found({path: identity}, {"vda": "another"})[0]
    assert "is in use" in found({path: identity}, {})[0]
    assert "that is another disk than" in found({path: {**identity, "serial": "S2"}}, mine)[0]


def test_remaining_work_is_noted() -> None:
    manifest = copy.deepcopy(recorded())
    manifest["boot"]["secure_boot"] = "enabled"
    manifest["kernels"]["installed"]["6.1"] = False
    manifest["packages"] = {"versions": {"cloud-init": "22.4", "grub-efi-amd64": "2.12", "initramfs-tools": "0.142"}}
    manifest["boot"]["command_line"] = "root=UUID=x ro resume=UUID=x resume_offset=34816"
    plan = plan_of(
        manifest,
        blank(vda=8 * GIB),
        {"vdb": "/dev/disk/by-id/vda"},
        mode="uefi",
        keep=("sda", "vdc", "vdd", "nvme0n1"),
        passphrase=True,
    )
    assert [note.split(":")[0] for note in plan.notes] == [
        "Secure Boot",
        "LUKS",
        "cloud-init may take this for a new instance, which gets new host keys and network settings",
        "the swap file is in another place of its disk",
        "the kernel 6.1 had no modules on the machine",
    ]


def test_network_cards_that_are_not_here_are_named() -> None:
    card = {"name": "enp3s0", "mac": "02:00:00:00:00:01", "addresses": ["192.0.2.20/24"]}
    manifest = {**copy.deepcopy(ROOT), "network": [card]}
    (note,) = plan_of(manifest, blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"}).notes
    assert "enp3s0 (02:00:00:00:00:01, 192.0.2.20/24) is not in this machine, which has none" in note
    assert "/target/etc/NetworkManager/system-connections" in note


def test_a_line_of_crypttab_that_is_switched_off_is_named() -> None:
    manifest = {**copy.deepcopy(ROOT), "files": {"fstab": "", "crypttab": "swap /dev/sdz /dev/urandom swap\n"}}
    (note,) = plan_of(manifest, blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"}).notes
    assert note.startswith("/etc/crypttab: a name of the old machine, and another disk's here: swap /dev/sdz")


def on_two_disks(boots: str, table: str = "gpt") -> dict[str, Any]:
    """Return a machine by BIOS whose / is a volume on sda2 and sdb1; grub has its partition on one of sda and sdb."""
    manifest = on_lvm()
    first = manifest["disks"]["sda"]["table"]["partitions"][0]
    manifest["devices"]["sdb"] = device("disk", "/dev/sdb", 9 * GIB)
    manifest["devices"]["sdb1"] = device("part", "/dev/sdb1", 7000 * MIB, "sdb", "LVM2_member", "u-sdb1")
    other = copy.deepcopy(manifest["disks"]["sda"])
    other["table"]["type"] = table
    other["table"]["partitions"] = [{**first, "name": "sdb1"}]
    manifest["disks"]["sdb"] = other
    manifest["volume_groups"]["vg"]["devices"].append({"path": "/dev/sdb1"})
    manifest["devices"]["vg-root"]["parents"] = ["sda1", "sdb1"]
    rows = manifest["disks"][boots]["table"]["partitions"]
    grub = {"number": 2, "name": f"{boots}2", "type": "21686148-6449-6e6f-744e-656564454649", "size": 2048}
    rows.append({**first, **grub, "start": first["start"] + first["size"]})
    manifest["devices"][f"{boots}2"] = device("part", f"/dev/{boots}2", MIB, boots)
    return manifest


@pytest.mark.parametrize(
    ("boots", "table", "path"), [("sda", "gpt", "/dev/vda"), ("sdb", "gpt", "/dev/vdb"), ("sda", "dos", "/dev/vda")]
)
def test_grub_is_installed_where_it_has_its_partition(boots: str, table: str, path: str) -> None:
    disks = {"sda": "/dev/disk/by-id/vda", "sdb": "/dev/disk/by-id/vdb"}
    for order in (["sda", "sdb"], ["sdb", "sda"]):
        plan = plan_of(
            on_two_disks(boots, table), blank(vda=9 * GIB, vdb=9 * GIB), {disk: disks[disk] for disk in order}
        )
        assert plan.refusals == []
        (command,) = (step["command"] for step in steps_of(plan) if "grub-install" in step.get("command", ()))
        assert command[-1] == path


def test_grub_goes_to_another_disk_where_the_first_has_no_room() -> None:
    manifest = copy.deepcopy(ROOT)
    manifest["devices"]["sdb"] = device("disk", "/dev/sdb", GIB)
    manifest["devices"]["sdb1"] = device("part", "/dev/sdb1", MIB, "sdb")
    manifest["disks"]["sdb"] = copy.deepcopy(manifest["disks"]["sda"])
    row = manifest["disks"]["sdb"]["table"]["partitions"][0]
    row |= {"name": "sdb1", "type": "21686148-6449-6E6F-744E-656564454649", "size": 2048}
    manifest["disks"]["sdb"]["table"]["partitions"] = [row]
    disks = {"sda": "/dev/disk/by-id/vda", "sdb": "/dev/disk/by-id/vdb"}
    for table, path in (("gpt", "/dev/vdb"), ("dos", "/dev/vda")):
        manifest["disks"]["sda"]["table"]["type"] = table
        plan = plan_of(manifest, blank(vda=8 * GIB, vdb=GIB), disks)
        (command,) = (step["command"] for step in steps_of(plan) if "grub-install" in step.get("command", ()))
        assert command[-1] == path
