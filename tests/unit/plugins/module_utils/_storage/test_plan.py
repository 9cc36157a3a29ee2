# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of disks. The properties at the end hold for every disk that one can think of."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import fstab
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import plan as storage
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.disks import Content, Device, Disk
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.model import Facts, Mounted, Plan, Point
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.request import read_entries
from hypothesis import given
from hypothesis import strategies as st

GB = 10**9
EMPTY = Disk("/dev/sdb", 100 * GB, ids=("ata-B",), serial="B", names=frozenset(["/dev/sdb", "/dev/disk/by-id/ata-B"]))
SYSTEM = Disk(
    "/dev/sda", 500 * GB, ids=("ata-A",), serial="A", busy=True, names=frozenset(["/dev/sda", "/dev/disk/by-id/ata-A"])
)
SYSTEM = dataclasses.replace(
    SYSTEM,
    content=Content(table="gpt", signatures=("gpt",), blank=False),
    partitions=(Device("/dev/sda1", 500 * GB, Content(kind="ext4", uuid="root-uuid"), mounts=("/",)),),
)
DATA: Any = {"serial": "B", "role": "data"}
OLD = Content(kind="ext4", label="photos", uuid="old-uuid", signatures=("ext4",), blank=False)


def parted(disk: Disk = EMPTY, content: Content = OLD, table_id: str = "t", **part: Any) -> Disk:
    table = Content(table="gpt", table_id=table_id, signatures=("gpt", "PMBR"), blank=False)
    device = Device(f"{disk.path}1", disk.size, content, names=frozenset([f"{disk.path}1"]), **part)
    return dataclasses.replace(disk, content=table, partitions=(device,))


def plan(*disks: Disk, rows: list[Any] | None = None, confirm: tuple[str, ...] = (), **facts: Any) -> Plan:
    entries, refused = read_entries(rows if rows is not None else [DATA])
    assert refused == []
    return storage.plan(entries, confirm, Facts(disks=(SYSTEM, *disks), **facts), lambda: str(uuid.uuid4()))


def problems_of(result: Plan) -> str:
    return "; ".join(f"{row['variable']} {row['problem']} -> {row['remedy']}" for row in result.requirements)


def done(result: Plan, disk: Disk, size: int | None = None) -> Any:
    """Return the facts after the plan was carried out."""
    (work,) = result.works
    content = Content(
        kind=work.entry.fs, label=work.entry.label, uuid=work.given["uuid"], signatures=(work.entry.fs,), blank=False
    )
    mount = work.entry.mount
    if work.entry.partition:
        disk = parted(disk, content, work.given.get("table", "t"), mounts=(mount,))
        source = disk.partitions[0].path
    else:
        disk = dataclasses.replace(disk, content=content, mounts=(mount,))
        source = disk.path
    disk = dataclasses.replace(disk, busy=True, size=size or disk.size)
    return {
        "disks": disk,
        "mounted": {mount: Mounted(source, frozenset(work.entry.options))},
        "points": {mount: Point(exists=True, immutable=True)},
        "fstab": result.fstab,
        "record": {work.key: {**work.given, "finished": True, "mount": mount, "options": ",".join(work.entry.options)}},
    }


# --- What is made ---


@pytest.mark.parametrize("partition", [True, False])
def test_empty_disk_is_formatted_once(partition: bool) -> None:
    rows: Any = [{**DATA, "partition": partition}]
    first = plan(EMPTY, rows=rows)
    (work,) = first.works
    assert (problems_of(first), work.table, work.make, work.wipe, work.mount, work.protect) == (
        "",
        partition,
        True,
        False,
        True,
        True,
    )
    assert f"UUID={work.given['uuid']} /data ext4 noatime,nofail,nosuid,nodev 0 2\n" in first.fstab

    facts = done(first, EMPTY)
    second = plan(facts.pop("disks"), rows=rows, **facts)
    assert (problems_of(second), second.works[0].todo, second.gone, second.fstab) == ("", [], {}, first.fstab)


def test_matching_disk_is_taken_with_its_data() -> None:
    devices = parted(content=Content(kind="ext4", label="data", uuid="kept", blank=False))
    for wipe in (False, True):
        result = plan(devices, rows=[{**DATA, "wipe": wipe}], confirm=("B",))
        assert (problems_of(result), result.works[0].destroys, result.works[0].mount) == ("", False, True)
        assert "UUID=kept /data ext4" in result.fstab


@pytest.mark.parametrize(("fs", "refused"), [("ext4", True), ("btrfs", False)])
def test_disk_with_a_copy_of_its_uuid_is_refused(fs: str, refused: bool) -> None:
    """Copy it with dd to a larger disk: fstab cannot distinguish the two. Disks of one Btrfs correctly have one id."""
    devices = parted(content=Content(kind=fs, label="data", uuid="one", blank=False))
    for copy in (
        Disk("/dev/sdc", GB, uuid="one"),
        Disk("/dev/sdc", GB, partitions=(Device("/dev/sdc1", GB, uuid="one"),)),
        Disk("/dev/sdc", GB, partitions=(Device("/dev/sdc1", GB, devices.partitions[0].content),)),
    ):
        result = plan(devices, copy, rows=[{**DATA, "fs": fs}])
        assert ("has as well: a boot may mount either" in problems_of(result)) is refused
    assert problems_of(plan(devices, Disk("/dev/sdc", GB, uuid="other"), rows=[{**DATA, "fs": fs}])) == ""


def test_the_id_may_name_the_disk() -> None:
    assert problems_of(plan(EMPTY, rows=[{"id": "/dev/disk/by-id/ata-B", "role": "data"}])) == ""


def test_vfat_has_an_id_of_its_own_form() -> None:
    result = plan(EMPTY, rows=[{**DATA, "fs": "vfat", "label": "DATA"}])
    assert len(result.works[0].given["uuid"]) == 9 and result.works[0].given["uuid"][4] == "-"


# --- What is refused ---


def test_a_disk_with_data_is_refused_with_what_is_on_it() -> None:
    assert problems_of(plan(parted())) == (
        "storage_disks asks for ext4 labelled 'data' in one partition of /dev/sdb (B), 100 GB, which is not empty: "
        "a gpt partition table, /dev/sdb1 (100 GB): ext4 labelled 'photos' -> "
        "say what is there if its data is to be used; to lose all of it, set `wipe: true` and repeat the serial: storage_confirm_wipe: [B]"
    )


@pytest.mark.parametrize(
    "kind", ["swap", "LVM2_member", "linux_raid_member", "crypto_LUKS", "zfs_member", "ntfs", "iso9660"]
)
@pytest.mark.parametrize("whole", [True, False])
def test_members_of_anything_are_data(kind: str, whole: bool) -> None:
    content = Content(kind=kind, signatures=(kind,), blank=False)
    result = plan(dataclasses.replace(EMPTY, content=content) if whole else parted(content=content))
    assert kind in problems_of(result) and "is not empty" in problems_of(result)


def test_data_without_a_signature_is_data() -> None:
    assert "data of no known kind" in problems_of(plan(dataclasses.replace(EMPTY, content=Content(blank=False))))


@pytest.mark.parametrize(
    ("wipe", "confirm", "remedy"),
    [
        (True, (), "to lose all of it, repeat the serial: storage_confirm_wipe: [B]"),
        (False, ("B",), "to lose all of it, set `wipe: true` at this disk as well"),
    ],
)
def test_a_wipe_needs_both_words(wipe: bool, confirm: tuple[str, ...], remedy: str) -> None:
    assert remedy in problems_of(plan(parted(), rows=[{**DATA, "wipe": wipe}], confirm=confirm))


def test_a_confirmed_wipe_is_done_and_not_done_again() -> None:
    rows: Any = [{**DATA, "wipe": True}]
    first = plan(parted(), rows=rows, confirm=("B",))
    assert (problems_of(first), first.works[0].wipe, first.works[0].make) == ("", True, True)
    facts = done(first, EMPTY)
    assert plan(facts.pop("disks"), rows=rows, confirm=("B",), **facts).works[0].todo == []


@pytest.mark.parametrize("change", [{"mount": "/sets"}, {"label": "other"}, {"fs": "xfs"}, {"partition": False}])
def test_old_confirmation_does_not_wipe_a_disk_of_the_role(change: Any) -> None:
    """Change the mount point alone, or what the disk holds: a label or file system of the role is not wiped by an old confirmation."""
    rows: Any = [{"serial": "B", "mount": "/data", "wipe": True}]
    first = plan(parted(), rows=rows, confirm=("B",))
    facts = done(first, EMPTY)
    device = facts.pop("disks").partitions[0].content
    disk, own = parted(content=device, table_id=first.works[0].given["table"]), first.works[0].given["uuid"]
    again = {**facts, "mounted": {}}
    refused = plan(disk, rows=[{**rows[0], **change}], confirm=("B",), **again)
    assert "where a file system of this role is: ext4 labelled 'data'" in problems_of(refused)
    assert f"name this very file system: storage_confirm_wipe: [{own}]" in problems_of(refused)

    named = plan(disk, rows=[{**rows[0], **change}], confirm=(own,), **again)
    assert (problems_of(named), named.works[0].wipe, named.works[0].make) == ("", True, True)
    assert named.works[0].given["uuid"] != own
    assert "in use" in problems_of(
        plan(dataclasses.replace(disk, busy=True), rows=[{**rows[0], **change}], confirm=(own,), **again)
    )


def test_a_serial_that_is_confirmed_and_names_no_disk_is_refused() -> None:
    assert "storage_confirm_wipe has what is no serial of a disk in storage_disks: b" in problems_of(
        plan(EMPTY, confirm=("b",))
    )


def test_the_system_disk_is_never_touched() -> None:
    rows: Any = [{"id": "ata-A", "mount": "/data", "wipe": True}]
    result = plan(rows=rows, confirm=("A",))
    assert "which is in use: /dev/sda1 is mounted at /" in problems_of(result)


@pytest.mark.parametrize(
    ("disk", "use"),
    [
        (parted(held_by=("raid1 md0",)), "/dev/sdb1 holds raid1 md0"),
        (parted(mounts=("[SWAP]",)), "/dev/sdb1 is swap"),
        (dataclasses.replace(EMPTY, busy=True), "the kernel, or a program, has it for itself"),
        (dataclasses.replace(EMPTY, read_only=True), "which is read-only"),
    ],
)
def test_confirmation_does_not_allow_a_write_to_a_disk_in_use(disk: Disk, use: str) -> None:
    assert use in problems_of(plan(disk, rows=[{**DATA, "wipe": True}], confirm=("B",)))


def test_disk_named_in_fstab_is_not_written_to() -> None:
    for source in ("UUID=old-uuid", "LABEL=photos", "/dev/sdb1"):
        result = plan(
            parted(), rows=[{**DATA, "wipe": True}], confirm=("B",), fstab=f"{source} /photos ext4 noauto 0 2\n"
        )
        assert f"which /etc/fstab mounts: {source} /photos" in problems_of(result)


@pytest.mark.parametrize("change", [{"fs": "xfs"}, {"label": "other"}])
def test_other_file_system_or_label_on_a_role_disk_is_refused(change: dict[str, str]) -> None:
    facts = done(plan(EMPTY), EMPTY)
    result = plan(facts.pop("disks"), rows=[{**DATA, **change}], **facts)
    assert "where a file system of this role is: ext4 labelled 'data'" in problems_of(result)


def test_a_disk_that_shrank_is_refused() -> None:
    facts = done(plan(EMPTY), EMPTY, size=50 * GB)
    assert "of 50 GB, which had 100 GB when its file system was made" in problems_of(plan(facts.pop("disks"), **facts))


def test_a_disk_that_is_not_there_is_refused_with_those_that_are() -> None:
    assert (
        "names B, and no disk of this host is called so -> put it back, or take it out of storage_disks; there are: A (/dev/sda, 500 GB)"
        in problems_of(plan())
    )


def test_a_partition_by_id_is_refused_with_its_disk() -> None:
    disk = parted()
    part = dataclasses.replace(disk.partitions[0], names=frozenset(["/dev/disk/by-id/ata-B-part1"]))
    result = plan(dataclasses.replace(disk, partitions=(part,)), rows=[{"id": "ata-B-part1", "role": "data"}])
    assert "names ata-B-part1, a partition -> name the whole disk: ata-B or serial B" in problems_of(result)


@pytest.mark.parametrize(
    ("name", "names"),
    [("/dev/sdb", "ata-B or serial B"), ("/dev/sdb1", "ata-B or serial B"), ("/dev/sdx", "none: there is no")],
)
def test_unstable_disk_name_is_refused_with_stable_names(name: str, names: str) -> None:
    result = plan(parted(), rows=[{"id": name, "role": "data"}])
    assert (
        f"names {name}, and another disk may have this name after the next boot -> name the disk by its `id` or its `serial`: {names}"
        in problems_of(result)
    )


def test_disks_with_one_serial_need_their_id() -> None:
    twin = dataclasses.replace(EMPTY, path="/dev/sdc", ids=("usb-C",))
    assert "means 2 disks by the serial B: /dev/sdb, /dev/sdc -> name it by `id`: ata-B or usb-C" in problems_of(
        plan(EMPTY, twin)
    )


def test_one_disk_twice_is_refused() -> None:
    rows: Any = [DATA, {"id": "ata-B", "role": "scratch"}]
    assert "names one disk more than once (/dev/sdb): B, ata-B" in problems_of(plan(EMPTY, rows=rows))


# --- Mounts ---


def test_a_mount_point_with_files_or_that_is_a_link_is_refused() -> None:
    assert "has files that would be hidden: a, b" in problems_of(
        plan(EMPTY, points={"/data": Point(True, names=("a", "b"))})
    )
    assert "which is no directory" in problems_of(plan(EMPTY, points={"/data": Point(True, directory=False)}))


def test_occupied_mount_point_is_refused() -> None:
    assert "mounts B at /data, where /dev/sdz is mounted" in problems_of(
        plan(EMPTY, mounted={"/data": Mounted("/dev/sdz")})
    )


def test_only_mounts_of_the_role_move_to_another_mount_point() -> None:
    devices = parted(content=Content(kind="ext4", label="data", uuid="u"), mounts=("/old",))
    assert "which is mounted at /old -> unmount it" in problems_of(plan(devices))
    moved = plan(devices, record={"B": {"uuid": "u", "mount": "/old", "finished": True, "made": ["/old"]}})
    assert (problems_of(moved), list(moved.gone), moved.works[0].mount) == ("", ["B"], True)


@pytest.mark.parametrize(
    "line",
    ["UUID=u /x ext4 defaults 0 2", 'LABEL="data" /x ext4 defaults 0 2', "/dev/sdb1 /x ext4", "UUID=z /data xfs"],
)
def test_manual_line_in_fstab_is_refused(line: str) -> None:
    devices = parted(content=Content(kind="ext4", label="data", uuid="u"))
    assert f"/etc/fstab has a line for that: {line}" in problems_of(plan(devices, fstab=line + "\n"))


def test_markers_that_were_broken_are_refused() -> None:
    assert "one of them is gone" in problems_of(plan(EMPTY, fstab=f"{fstab.BEGIN}\n"))


def test_other_options_are_a_remount_and_quotas_a_new_mount() -> None:
    facts = done(plan(EMPTY), EMPTY)
    disk = facts.pop("disks")
    (work,) = plan(disk, rows=[{**DATA, "options": ["dev"]}], **facts).works
    assert (work.remount, work.again, work.mount) == (True, False, False)
    (work,) = plan(disk, rows=[{**DATA, "quota": True}], **facts).works
    assert (work.remount, work.again, work.mount) == (False, True, False)


def test_disk_mounted_with_suid_and_devices_is_remounted() -> None:
    facts = done(plan(EMPTY), EMPTY)
    disk, mounted = facts.pop("disks"), facts["mounted"]
    for options, due in ((["rw", "noatime"], True), (["rw", "nosuid", "nodev"], False)):
        facts["mounted"] = {m: dataclasses.replace(entry, options=frozenset(options)) for m, entry in mounted.items()}
        (work,) = plan(disk, **facts).works
        assert work.remount is due


def test_quotas_that_kernel_or_file_system_have_not_are_refused() -> None:
    rows: Any = [{**DATA, "quota": True}]
    assert "this kernel has none for ext4 (CONFIG_QFMT_V2)" in problems_of(
        plan(EMPTY, rows=rows, kernel={"CONFIG_QFMT_V2": False})
    )
    facts = done(plan(EMPTY), EMPTY)
    assert "tune2fs -O project,quota /dev/sdb1" in problems_of(
        plan(facts.pop("disks"), rows=rows, features={"/dev/sdb1": frozenset(["extent"])}, **facts)
    )


def test_removed_disk_is_unmounted_and_keeps_its_data() -> None:
    facts = done(plan(EMPTY), EMPTY)
    result = plan(facts.pop("disks"), rows=[], **facts)
    assert (result.works, list(result.gone), result.fstab) == ([], ["B"], "")


# --- Runs that were cut short ---


def begun(**more: Any) -> dict[str, Any]:
    return {"B": {"uuid": "u", "table": "t", "part": "p", "size": EMPTY.size, "finished": False, **more}}


@pytest.mark.parametrize(
    ("disk", "table"),
    [
        # Before the table; after it, with and without a device for the partition; in the middle of mkfs, and when it had written its id.
        (EMPTY, True),
        (dataclasses.replace(EMPTY, content=Content(table="gpt", table_id="t", blank=False)), True),
        (parted(content=Content()), False),
        (parted(content=Content(blank=False)), False),
        (parted(content=Content(kind="xfs", uuid="u", blank=False)), False),
    ],
)
def test_an_interrupted_run_is_completed(disk: Disk, table: bool) -> None:
    making = bool(disk.partitions) and not disk.partitions[0].content.blank
    (work,) = plan(disk, record=begun(making=making)).works
    assert (work.make, work.table, work.wipe) == (True, table, False)


def test_unsigned_data_is_not_formatted_before_mkfs_began() -> None:
    for disk in (parted(content=Content(blank=False)), dataclasses.replace(EMPTY, content=Content(blank=False))):
        rows: Any = [{**DATA, "partition": bool(disk.partitions)}]
        table = "t" if disk.partitions else ""
        result = plan(disk, rows=rows, record=begun(table=table))
        assert "is not empty" in problems_of(result)
        assert not result.works[0].destroys
        confirmed = plan(disk, rows=[{**rows[0], "wipe": True}], confirm=("B",), record=begun(table=table))
        assert confirmed.works[0].wipe


def test_unfinished_file_system_with_files_is_kept() -> None:
    disk = parted(content=Content(kind="ext4", label="data", uuid="u", blank=False))
    result = plan(disk, rows=[{**DATA, "wipe": True}], confirm=("B",), record=begun(), filled=["/dev/sdb1"])
    assert "a run of ours did not finish, and which has files all the same" in problems_of(result)
    assert not result.works[0].destroys


def test_finished_file_system_is_never_formatted_again() -> None:
    hidden = dataclasses.replace(EMPTY, content=Content(table="gpt", table_id="t", blank=False))
    assert "is not empty" in problems_of(plan(hidden, record=begun(finished=True)))
    bare = parted(content=Content(blank=False))
    assert "is not empty" in problems_of(plan(bare, record=begun(finished=True)))


def test_foreign_content_after_an_unfinished_run_is_data() -> None:
    assert "is not empty" in problems_of(plan(parted(), record=begun()))
    over = dataclasses.replace(EMPTY, content=Content(kind="ext4", table_id="t", blank=False))
    assert "is not empty" in problems_of(plan(over, record=begun()))
    assert "is not empty" in problems_of(plan(parted(content=Content(), table_id="another"), record=begun()))


# --- Properties ---

KINDS = st.sampled_from(["", "ext4", "xfs", "swap", "zfs_member", "LVM2_member", "crypto_LUKS"])
CONTENTS = st.builds(
    Content,
    kind=KINDS,
    label=st.sampled_from(["", "data", "photos"]),
    uuid=st.sampled_from(["", "u", "v"]),
    table=st.sampled_from(["", "gpt", "dos"]),
    table_id=st.sampled_from(["", "t", "s"]),
    signatures=st.sampled_from([(), ("gpt",), ("ext4", "zfs_member")]),
    blank=st.booleans(),
)
USES: Any = {
    "mounts": st.sampled_from([(), ("/",), ("/data",), ("[SWAP]",)]),
    "held_by": st.sampled_from([(), ("lvm vg-x",)]),
}
PARTS = st.builds(Device, path=st.just("/dev/sdb1"), size=st.just(GB), content=CONTENTS, **USES)
DISKS = st.builds(
    Disk,
    path=st.just("/dev/sdb"),
    size=st.sampled_from([GB, 2 * GB]),
    content=CONTENTS,
    serial=st.just("B"),
    partitions=st.lists(PARTS, max_size=2).map(tuple),
    busy=st.booleans(),
    read_only=st.booleans(),
    **USES,
)
ROWS = st.builds(
    lambda fs, partition, wipe: {"serial": "B", "role": "data", "fs": fs, "partition": partition, "wipe": wipe},
    st.sampled_from(["ext4", "xfs"]),
    st.booleans(),
    st.booleans(),
)
RECORDS = st.one_of(
    st.just({}),
    st.builds(
        lambda table, finished, size: {"B": {"uuid": "u", "table": table, "finished": finished, "size": size}},
        st.sampled_from(["", "t"]),
        st.booleans(),
        st.sampled_from([GB, 2 * GB]),
    ),
)


def signed(disk: Disk) -> bool:
    return any(
        entry.content.kind or entry.content.signatures or entry.content.table for entry in (disk, *disk.partitions)
    )


@given(DISKS, ROWS, RECORDS)
def test_write_needs_a_free_disk_that_is_empty_or_confirmed(disk: Disk, row: Any, record: Any) -> None:
    for confirm in ((), ("B",)):
        result = plan(disk, rows=[row], confirm=confirm, record=record)
        if result.requirements or not result.works[0].destroys:
            continue
        assert not (disk.busy or disk.read_only or disk.every_use)
        recorded = record.get("B", {})
        unfinished = recorded.get("finished") is False
        if (signed(disk) or disk.partitions) and not unfinished:
            assert row["wipe"] and confirm
            # A serial confirms the loss of what others have left there, never of what the role itself has on record.
            assert "u" not in [entry.content.uuid for entry in (disk, *disk.partitions)] or not recorded
        if unfinished and not result.works[0].wipe:
            # Only what the run itself has written: its own file system, or its own table with nothing in it.
            kept = [entry.content.uuid for entry in (disk, *disk.partitions) if entry.content.kind]
            assert set(kept) <= {"u"}


@given(DISKS, ROWS, RECORDS)
def test_a_finished_plan_leaves_nothing_to_do(disk: Disk, row: Any, record: Any) -> None:
    first = plan(disk, rows=[row], confirm=("B",), record=record)
    if first.requirements:
        return
    facts = done(first, dataclasses.replace(EMPTY, size=disk.size))
    second = plan(facts.pop("disks"), rows=[row], confirm=("B",), **facts)
    assert (problems_of(second), second.works[0].todo, second.gone, second.fstab) == ("", [], {}, first.fstab)


# --- Identity: what the role keeps or takes by disk goes by a name that no other disk has ---


def twin(name: str, path: str, **values: Any) -> Disk:
    """Return a disk of a USB dock that reports one serial for all its disks."""
    names = frozenset([path, f"/dev/disk/by-id/{name}"])
    return Disk(path, 100 * GB, ids=(name,), serial="DOCK", shared_serial=True, names=names, **values)


DOCKED = [{"id": "usb-0:0", "mount": "/a", "partition": False}, {"id": "usb-0:1", "mount": "/b", "partition": False}]


def test_disks_with_one_serial_get_ids_of_their_own() -> None:
    first = plan(twin("usb-0:0", "/dev/sdb"), twin("usb-0:1", "/dev/sdc"), rows=DOCKED)
    begun = {work.key: {**work.given, "finished": False, "making": True} for work in first.works}
    assert sorted(begun) == ["usb-0:0", "usb-0:1"]
    # Killed in the first mkfs: the next run makes each with the ids that are on record for it.
    second = plan(twin("usb-0:0", "/dev/sdb"), twin("usb-0:1", "/dev/sdc"), rows=DOCKED, record=begun)
    assert {work.key: work.given["uuid"] for work in second.works} == {key: row["uuid"] for key, row in begun.items()}
    assert len({work.given["uuid"] for work in second.works}) == 2


@pytest.mark.parametrize("shared", [True, False])
def test_record_under_another_name_of_a_disk_is_found(shared: bool) -> None:
    content = Content(kind="ext4", label="a", uuid="u-a", signatures=("ext4",), blank=False)
    disk = dataclasses.replace(twin("usb-0:0", "/dev/sdb", content=content), shared_serial=shared)
    given = {"uuid": "u-a", "size": 100 * GB, "finished": True, "mount": "/a", "made": ["/a"]}
    result = plan(disk, rows=DOCKED[:1], record={"DOCK" if shared else "usb-0:0": given})
    (work,) = result.works
    assert (problems_of(result), work.key, work.given["made"], result.gone) == (
        "",
        "usb-0:0" if shared else "DOCK",
        ["/a"],
        {},
    )


def test_record_of_the_twin_is_not_taken() -> None:
    content = Content(kind="ext4", label="a", uuid="u-a", signatures=("ext4",), blank=False)
    given = {"uuid": "u-b", "size": 100 * GB, "finished": True, "mount": "/b"}
    result = plan(twin("usb-0:0", "/dev/sdb", content=content), rows=DOCKED[:1], record={"DOCK": given})
    assert result.works[0].given["uuid"] == "u-a"
    assert result.gone == {"DOCK": given}


def test_shared_serial_confirms_no_wipe() -> None:
    disks = twin("usb-0:0", "/dev/sdb", content=OLD), twin("usb-0:1", "/dev/sdc", content=OLD)
    rows: Any = [{**DOCKED[0], "wipe": True}]
    assert "repeat the id: storage_confirm_wipe: [usb-0:0]" in problems_of(plan(*disks, rows=rows, confirm=("DOCK",)))
    assert problems_of(plan(*disks, rows=rows, confirm=("usb-0:0",))) == ""


@pytest.mark.parametrize("serial", ["", "B"])
def test_each_name_of_a_disk_confirms_its_wipe(serial: str) -> None:
    """Earlier versions confirmed a disk without serial by its first id, whatever the entry names."""
    names = frozenset(["/dev/sdb", "/dev/disk/by-id/ata-B", "/dev/disk/by-id/wwn-B"])
    # Another disk without serial "has the same".
    disk = Disk("/dev/sdb", 100 * GB, ids=("ata-B", "wwn-B"), serial=serial, names=names, content=OLD)
    disk = dataclasses.replace(disk, shared_serial=not serial)
    rows: Any = [{"id": "wwn-B", "role": "data", "wipe": True}]
    for name in ("wwn-B", serial or "ata-B"):
        result = plan(disk, rows=rows, confirm=(name,))
        assert problems_of(result) == "" and result.works[0].wipe
    assert "ata-X" in problems_of(plan(disk, rows=rows, confirm=("ata-X",)))


def test_id_of_a_disk_with_a_shared_serial_is_not_its_name() -> None:
    disk = dataclasses.replace(twin("usb-0:0", "/dev/sdb", content=OLD), ids=("ata-DOCK", "usb-0:0"))
    rows: Any = [{**DOCKED[0], "wipe": True}]
    assert "[usb-0:0]" in problems_of(plan(disk, rows=rows, confirm=("ata-DOCK",)))


names = st.sampled_from(["S1", "S2", ""])


@given(st.lists(names, min_size=1, max_size=5))
def test_key_is_unique_or_the_disk_is_refused(serials: list[str]) -> None:
    """No two disks of a plan have one key, whatever serials and ids they have."""
    disks = [
        Disk(
            f"/dev/sd{number}",
            100 * GB,
            ids=(f"usb-{number}",),
            serial=serial,
            shared_serial=serials.count(serial) > 1,
            names=frozenset([f"/dev/sd{number}", f"/dev/disk/by-id/usb-{number}"]),
        )
        for number, serial in enumerate(serials)
    ]
    rows: Any = [{"id": f"usb-{number}", "mount": f"/m{number}"} for number in range(len(serials))]
    keys = [work.key for work in plan(*disks, rows=rows).works]
    assert len(keys) == len(set(keys)) == len(serials)
    by_serial = plan(*disks, rows=[{"serial": serial, "mount": f"/{serial}"} for serial in {*serials} - {""}])
    assert all(serials.count(work.entry.serial) == 1 for work in by_serial.works)


# --- Labels ---

OTHER = Disk("/dev/sdc", 100 * GB, ids=("ata-C",), serial="C", names=frozenset(["/dev/sdc"]))


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (dataclasses.replace(OTHER, labels=frozenset(["data"])), ""),
        (dataclasses.replace(OTHER, partitions=(Device("/dev/sdc1", 9, labels=frozenset(["data"])),)), ""),
        (OTHER, "LABEL=data /srv/old ext4 defaults,nofail 0 2\n"),
        (OTHER, 'LABEL="data" /srv/old ext4 defaults,nofail 0 2\n'),
        (OTHER, "/dev/disk/by-label/data /srv/old ext4 defaults,nofail 0 2\n"),
    ],
)
def test_label_in_use_is_refused_for_a_new_file_system(other: Disk, text: str) -> None:
    refused = problems_of(plan(EMPTY, other, fstab=text))
    assert "gives /dev/sdb (B) the label 'data'" in refused
    assert "set another `label`" in refused
    assert problems_of(plan(EMPTY, other, rows=[{**DATA, "label": "sets"}], fstab=text)) == ""


def test_label_in_use_stays_on_a_disk_that_is_taken() -> None:
    content = Content(kind="ext4", label="data", uuid="u-b", signatures=("ext4",), blank=False)
    assert problems_of(plan(parted(content=content), dataclasses.replace(OTHER, labels=frozenset(["data"])))) == ""
