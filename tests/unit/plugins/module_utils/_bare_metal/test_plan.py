# SPDX-License-Identifier: GPL-3.0-or-later
"""What speaks against a rebuild, and that a plan writes to the named disks and to no other."""

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
    ("change", "said"),
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
def test_what_must_not_be_is_refused(change: dict[str, Any], said: str) -> None:
    here = blank(vda=8 * GIB, vdb=8 * GIB, vdc=8 * GIB, vdd=8 * GIB, vde=8 * GIB, vdf=600 * MIB)
    here["vdb"]["table_type"] = "gpt"
    here["vdb1"] = device("part", "/dev/vdb1", GIB, "vdb")
    here["vdc"]["content"]["type"] = "xfs"
    here["vdd"]["content"]["type"] = "LVM2_member"
    here["vg-root"] = device("lvm", "/dev/mapper/vg-root", GIB, "vdd")
    here["vde"]["read_only"] = True
    said_here = refusal(plan_of(ROOT, here, **{"disks": {"sda": "/dev/disk/by-id/vda"}, **change}))
    assert said_here.startswith(said)


def test_a_disk_of_the_manifest_that_nobody_has_thought_of_is_asked_for() -> None:
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


def test_who_asks_for_nothing_is_told_the_host_its_disks_and_those_that_are_here() -> None:
    plan = plan_of(ROOT, blank(vda=8 * GIB), {}, confirm="")
    told = [f"{one['variable']} {one['problem']}; {one['remedy']}" for one in plan.refusals]
    assert told[0].startswith("bare_metal_confirm is '', and the manifest is of 'ws1'")
    assert "sda of the manifest, which has 8.0 GiB and holds /; name one of /dev/disk/by-id/vda (8.0 GiB), " in told[-1]


@pytest.mark.parametrize(
    ("content", "variable"), [("ntfs", "empty"), ("zfs_member", "empty"), ("crypto_LUKS", "empty")]
)
def test_what_is_not_made_again_has_to_be_named(content: str, variable: str) -> None:
    manifest = simple(("ext4 /", 4000, 1000), (content, 500, 0))
    disks = {"sda": "/dev/disk/by-id/vda"}
    assert refusal(plan_of(manifest, blank(vda=8 * GIB), disks, passphrase=True)).startswith(
        f"bare_metal_{variable} lacks sda2"
    )
    plan = plan_of(manifest, blank(vda=8 * GIB), disks, empty=("sda2",))
    assert plan.refusals == [] and "/dev/vda2: 500 MiB left empty" in plan.summary
    assert not [step for step in plan.phases["disks"] if step.get("writes") == ["/dev/vda2"]]


def test_a_mirror_is_not_made_again_and_its_mount_does_not_hold_up_the_boot() -> None:
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
    assert {one["problem"].split(",")[0] for one in plan.refusals} == {"lacks vdc1", "lacks vdd1"}


@pytest.mark.parametrize(
    ("mode", "loader"), [("bios", ""), ("bios", "systemd-boot"), ("uefi", "systemd-boot"), ("uefi", "grub-pc")]
)
def test_a_loader_that_is_not_set_up_is_refused(mode: str, loader: str) -> None:
    manifest = copy.deepcopy(ROOT)
    manifest["boot"] |= {"mode": mode, "loader": loader}
    assert "set up for" in refusal(plan_of(manifest, blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"}, mode=mode))


def test_a_name_that_the_manifest_has_not_is_told() -> None:
    here, disks = blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"}
    assert (
        refusal(plan_of(ROOT, here, disks, empty=("sda9",)))
        == "bare_metal_empty names sda9, which the manifest has not"
    )
    assert refusal(plan_of(ROOT, here, disks, grow={"sda": "sdb1"})).startswith("bare_metal_grow names sdb1")
    assert refusal(plan_of(ROOT, here, disks, keep=("sdx",))).startswith(
        "bare_metal_disks names sdx, and the manifest has sda"
    )


def test_a_disk_whose_table_the_manifest_lacks_is_not_taken_for_an_empty_one() -> None:
    manifest = copy.deepcopy(ROOT)
    manifest["disks"]["sda"]["table"] = {}
    manifest["devices"]["sda"]["table_type"] = "gpt"
    assert (
        refusal(plan_of(manifest, blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"}))
        == "bare_metal_manifest lacks the partition table of sda"
    )
    assert "has no disk for sda" in plan_of(manifest, blank(vda=8 * GIB), {}).refusals[-1]["problem"]


def written(step: dict[str, Any]) -> set[str]:
    """Every device that a command names."""
    return set(re.findall(r"/dev/(?!disk/)[\w./-]+", " ".join(step["command"])))


def check_steps(plan: Plan, allowed: set[str]) -> None:
    """Devices come into being before they are used, and stand on the named disks alone."""
    made = set(allowed)
    for step in steps_of(plan):
        if (
            step["do"] != "run"
            or step["command"][0] in ("chroot", "umount", "udevadm", "sync")
            or "--rbind" in step["command"]
        ):
            continue
        program, *words = step["command"]
        if program == "sfdisk":
            between = "p" if words[-1][-1].isdigit() else ""
            made |= {
                f"{words[-1]}{between}{number}" for number in re.findall(r"^p(\d+) :", step["input"], re.MULTILINE)
            }
        elif program == "cryptsetup" and words[0] == "open":
            made.add(f"/dev/mapper/{words[-1]}")
        elif program == "lvcreate":
            made.add(
                f"/dev/mapper/{words[-1].replace('-', '--')}-{words[words.index('--name') + 1].replace('-', '--')}"
            )
        if program in ("lvcreate", "btrfs"):
            assert set(step["writes"]) <= made
        else:
            assert written(step) <= made and set(step["writes"]) <= made, step
        for other in step["writes"]:
            assert any(other == path or path.startswith("/dev/mapper/") or other.startswith(path) for path in made)


def test_a_plan_names_no_other_device_and_none_before_it_is_made() -> None:
    plan = whole()
    assert plan.refusals == []
    check_steps(plan, {"/dev/vda", "/dev/nvme0n1", "/dev/vdc"})


@settings(max_examples=150, deadline=None)
@given(machines(), st.integers(64, 1 << 14))
def test_no_plan_writes_to_a_disk_that_is_not_named(manifest: dict[str, Any], mib: int) -> None:
    plan = plan_of(manifest, blank(vda=mib * MIB, vdb=8 * GIB), {"sda": "/dev/disk/by-id/vda"})
    assert bool(plan.refusals) != bool(plan.phases)
    check_steps(plan, {"/dev/vda"})


def test_file_systems_are_mounted_from_the_root_down_and_before_anything_is_restored() -> None:
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


def test_what_is_on_no_disk_here_does_not_hold_up_the_boot_and_what_is_kept_does_its_work() -> None:
    def absent(plan: Plan) -> set[str]:
        return {name for step in plan.phases["system"] if step.get("kind") == "fstab" for name in step["absent"]}

    assert absent(whole()) == {"vdc1", "vdd1", "md127"}
    here = blank(vda=8 * GIB, nvme0n1=4 * GIB, vdc=2 * GIB)
    here["md0"] = device("md", "/dev/md0", GIB, content="ext4", uuid=recorded()["devices"]["md127"]["content"]["uuid"])
    disks = {"vdb": "/dev/disk/by-id/vda", "sda": "/dev/disk/by-id/nvme0n1", "nvme0n1": "/dev/disk/by-id/vdc"}
    plan = plan_of(recorded(), here, disks, mode="uefi", keep=("vdc", "vdd"), passphrase=True)
    assert absent(plan) == {"vdc1", "vdd1"}


def test_what_is_left_empty_holds_up_no_boot_and_the_system_itself_is_not_left_empty() -> None:
    manifest = simple(("ext4 /", 4000, 1000), ("ntfs /windows", 500, 0))
    plan = plan_of(manifest, blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"}, empty=("sda2",))
    system = {step.get("kind", step["do"]): step for step in plan.phases["system"]}
    assert all(system[kind]["absent"] == ["sda2"] for kind in ("fstab", "crypttab", "resume", "grub"))
    assert system["first_boot"]["expected"]["mounts"] == ["/"]
    assert (
        refusal(plan_of(manifest, blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"}, empty=("sda1", "sda2")))
        == "bare_metal_empty has sda1, which holds /"
    )


def test_what_lies_in_something_that_is_not_made_is_not_left_out_in_silence() -> None:
    manifest = simple(("ext4 /", 4000, 1000), ("ntfs /data", 500, 0), ("ext4 /data/sets", 500, 0))
    more: dict[str, Any] = {"here": blank(vda=8 * GIB), "disks": {"sda": "/dev/disk/by-id/vda"}}
    assert "what holds /data/sets, which lies in /data" in refusal(plan_of(manifest, **more, empty=("sda2",)))
    assert plan_of(manifest, **more, empty=("sda2", "sda3")).refusals == []


def test_what_becomes_of_snapshots_and_stripes_of_lvm_is_told() -> None:
    plan = plan_of(on_lvm(), blank(vda=9 * GIB), {"sda": "/dev/disk/by-id/vda"})
    assert plan.refusals == [] and plan.notes == [
        "the volume vg/snap was a snapshot of root: it is not made again",
        "the volume vg/fast was striped over 2 disks: it becomes linear",
    ]


@pytest.mark.parametrize("table", ["gpt", "dos"])
def test_a_run_that_was_cut_short_goes_on_where_it_had_made_its_table(table: str) -> None:
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


def test_a_person_is_told_what_is_left_to_do() -> None:
    manifest = copy.deepcopy(recorded())
    manifest["boot"]["secure_boot"] = "enabled"
    manifest["kernels"]["installed"]["6.1"] = False
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
        "the kernel 6.1 had no modules on the machine",
    ]
