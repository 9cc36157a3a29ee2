# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes on a disk of another size: everything fits, is aligned, and data keeps its room."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import layout
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.support.manifest.manifests import GIB, MIB, recorded, simple
from tests.unit.support.manifest.rebuilds import on_lvm

KINDS = ("ext4", "xfs", "btrfs", "vfat", "swap", "none")


@st.composite
def machines(draw: st.DrawFn) -> dict[str, Any]:
    """Return a strategy for a disk with up to six partitions of any kind, filled to any degree."""
    parts = []
    for number in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(KINDS))
        size = draw(st.integers(1, 6000))
        target = f" /m{number}" if kind not in ("swap", "none") else ""
        parts.append((f"{kind}{target}", size, draw(st.integers(0, size))))
    return simple(*parts, table=draw(st.sampled_from(("gpt", "dos"))))


@settings(max_examples=300)
@given(machines(), st.integers(16, 1 << 15), st.sampled_from((512, 4096)), st.integers(0, MIB - 1))
def test_partitions_fit_are_aligned_and_do_not_overlap(
    manifest: dict[str, Any], mib: int, sector: int, more: int
) -> None:
    size = (mib * MIB + more) // sector * sector
    table = manifest["disks"]["sda"]["table"]
    try:
        partitions = layout.lay_out(manifest, "sda", size, sector, {})
    except layout.DoesNotFit:
        least = 0
        for row in table["partitions"]:
            needed = -(-layout.least(manifest, row["name"], {}) // MIB)
            least += min(max(1, row["size"] * 512 // MIB), needed)
        assert least > mib - 2
        return
    assert [partition.number for partition in partitions] == [row["number"] for row in table["partitions"]]
    end = layout.HEAD
    for partition in partitions:
        assert (
            partition.start == end and partition.start % MIB == 0 and partition.size % MIB == 0 and partition.size > 0
        )
        end = partition.start + partition.size
        if manifest["mounts"]:
            used = [mount["used"] for mount in layout.mounts_of(manifest, partition.row["name"])]
            # Down to whole MiB, which the least of a place for data has in it.
            assert partition.size >= min([partition.row["size"] * 512 // MIB * MIB, *used])
    assert end <= size - layout.tail(table, sector)


@st.composite
def disks(draw: st.DrawFn) -> tuple[dict[str, Any], int]:
    """Return a strategy for a full disk and its sectors: it begins anywhere in the first MiB, and some have an extended partition."""
    kind, count = draw(st.sampled_from(("gpt", "dos"))), draw(st.integers(1, 4))
    manifest = simple(*(("swap", 1, 0) for _number in range(count)), table=kind)
    rows = manifest["disks"]["sda"]["table"]["partitions"]
    extended = draw(st.integers(0, count)) if kind == "dos" else 0
    place, logical = draw(st.sampled_from((34, 40, 63, 64, 2048))), []
    for row in rows:
        row |= {"start": place, "size": draw(st.integers(2048, 20000))}
        if row["number"] == extended:
            row |= {"type": draw(st.sampled_from(("5", "f", "85"))), "size": draw(st.sampled_from((2, 2048, 5000)))}
            for number in range(5, 5 + draw(st.integers(0, 2))):
                inner = {"number": number, "name": f"sda{number}", "type": "83", "size": 9000}
                logical.append({**row, **inner, "start": place + row["size"]})
                row["size"] += 9063
        manifest["devices"][row["name"]]["size"] = row["size"] * 512
        place += row["size"]
    rows += logical
    return manifest, place + (33 if kind == "gpt" else 0)


@settings(max_examples=300)
@given(disks(), st.integers(-4096, 8192), st.sampled_from((512, 4096)))
def test_what_is_planned_is_on_the_disk(machine: tuple[dict[str, Any], int], more: int, sector: int) -> None:
    """What sfdisk refuses, it refuses once the disk is emptied."""
    manifest, sectors = machine
    table, size = manifest["disks"]["sda"]["table"], (sectors + more) * 512 // sector * sector
    try:
        partitions = layout.lay_out(manifest, "sda", size, sector, {})
    except layout.DoesNotFit:
        nested = [row for row in table["partitions"] if layout.is_extended(table, row)]
        assert more < 0 or nested or sector > 512
        return
    first = partitions[0].start // sector
    assert first >= (2 + 128 * 128 // sector if table["type"] == "gpt" else 1)
    assert f"first-lba: {first}" in layout.script(table, partitions, sector) or table["type"] == "dos"
    end = 0
    for partition in sorted(partitions, key=lambda found: found.start):
        assert partition.start % sector == 0 and partition.start >= end and partition.size > 0
        # What an extended one holds is within it, and has a place for its own table.
        end = partition.start + (1 if layout.is_extended(table, partition.row) else partition.size)
        assert partition.start + partition.size <= size - layout.tail(table, sector)
    assert len(partitions) == len(table["partitions"])


def test_an_empty_extended_partition_has_room() -> None:
    manifest = simple(("ext4 /", 8000, 1000), ("none", 1, 0), table="dos")
    manifest["disks"]["sda"]["table"]["partitions"][1]["type"] = "5"
    assert sizes(manifest, 8 * GIB) == {1: 8190, 2: 1}


@pytest.mark.parametrize(
    ("table", "start", "sector", "first"),
    [("gpt", 34, 512, 34), ("gpt", 40, 512, 40), ("gpt", 34, 4096, 6), ("dos", 63, 512, 63), ("dos", 63, 4096, 8)],
)
def test_a_full_disk_that_begins_early_fits_on_its_like(table: str, start: int, sector: int, first: int) -> None:
    manifest, size = simple(("crypto_LUKS", 1, 0), table=table), 8 * GIB - MIB // 2
    (row,) = manifest["disks"]["sda"]["table"]["partitions"]
    row |= {"start": start, "size": size // 512 - start - (33 if table == "gpt" else 0)}
    manifest["devices"]["sda1"]["size"] = row["size"] * 512
    (part,) = layout.lay_out(manifest, "sda", size, sector, {})
    assert (part.start, part.size) == (first * sector, 8191 * MIB)
    # A larger one has it where it is best.
    (part,) = layout.lay_out(manifest, "sda", 9 * GIB, sector, {})
    assert part.start == MIB


def sizes(manifest: dict[str, Any], size: int, disk: str = "sda", **more: Any) -> dict[int, int]:
    """MiB by the partition's number."""
    return {
        part.number: part.size // MIB
        for part in layout.lay_out(manifest, disk, size, 512, more.pop("data", {}), **more)
    }


def test_a_disk_of_the_same_size_has_the_same_layout() -> None:
    manifest = simple(("ext4 /", 6000, 2000), ("swap", 1000, 0), size=7002 * MIB)
    assert sizes(manifest, 7002 * MIB) == {1: 6000, 2: 1000}


def test_extra_space_goes_to_the_largest_data_partition() -> None:
    manifest = simple(("vfat /boot/efi", 500, 5), ("ext4 /", 2000, 900), ("xfs /home", 5000, 100), ("swap", 500, 0))
    assert sizes(manifest, 16002 * MIB) == {1: 500, 2: 2000, 3: 13000, 4: 500}
    assert sizes(manifest, 16002 * MIB, grow="sda2")[2] == 10000


def test_only_data_partitions_shrink_on_a_smaller_disk() -> None:
    manifest = simple(("vfat /boot/efi", 500, 5), ("ext4 /", 4000, 1000), ("xfs /home", 3000, 100), ("swap", 500, 0))
    found = sizes(manifest, 5002 * MIB)
    assert (found[1], found[4], sum(found.values())) == (500, 500, 5000)
    assert 1000 < found[2] < 4000 and 300 <= found[3] < 3000


def test_a_too_small_disk_is_refused_with_the_numbers() -> None:
    manifest = simple(("ext4 /", 7000, 5000))
    with pytest.raises(layout.DoesNotFit, match=r"at least 5640 MiB are needed \(sda1 5640\), and there are 3998"):
        layout.lay_out(manifest, "sda", 4000 * MIB, 512, {})
    assert sizes(manifest, 4000 * MIB, data={"/": 2 * GIB}) == {1: 3998}


def test_a_boot_partition_is_no_place_for_data() -> None:
    manifest = simple(("ext4 /boot", 3000, 100), ("ext4 /", 2000, 500))
    assert sizes(manifest, 9002 * MIB) == {1: 3000, 2: 6000}
    assert sizes(manifest, 4002 * MIB)[1] == 3000


def test_an_extended_partition_goes_around_its_logical_ones() -> None:
    parts = {part.number: part for part in layout.lay_out(recorded(), "sda", 3 * GIB, 512, {})}
    extended, first, second = parts[2], parts[5], parts[6]
    assert first.start == extended.start + MIB and second.start == first.start + first.size + MIB
    assert second.start + second.size == extended.start + extended.size <= 3 * GIB
    assert parts[1].size > GIB  # the btrfs, which is the largest


def test_a_table_of_dos_ends_where_its_numbers_do() -> None:
    manifest = simple(("ext4 /", 6000, 10), table="dos")
    (part,) = layout.lay_out(manifest, "sda", 8 << 40, 512, {})
    assert (part.start + part.size) // 512 < 1 << 32
    (part,) = layout.lay_out(manifest, "sda", 8 << 40, 4096, {})
    assert part.size > 7 << 40


def test_volumes_limit_the_size_of_an_encrypted_partition() -> None:
    manifest = recorded()
    old = manifest["devices"]["vdb3"]["size"]
    # 50 MiB are on each of / and /home, and the swap is not smaller than it was.
    least = layout.least(manifest, "vdb3", {})
    assert 256 * MIB + 100 * MIB < least < old // 2
    with pytest.raises(layout.DoesNotFit):
        layout.lay_out(manifest, "vdb", 800 * MIB, 512, {})
    assert layout.least(manifest, "vdb3", {"/": 900 * MIB}) > least


def test_a_group_on_several_devices_stays_as_large_as_it_was() -> None:
    manifest = recorded()
    manifest["volume_groups"]["vg0"]["devices"].append({"path": "/dev/sdz1", "uuid": "x", "size": GIB})
    assert layout.least(manifest, "sys_crypt", {}) == manifest["devices"]["sys_crypt"]["size"]


def test_the_mapper_doubles_hyphens_of_a_group() -> None:
    assert layout.volume_device("lab-vg", "swap_1") == "lab--vg-swap_1"


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 500)), min_size=1, max_size=6), st.integers(1, 3000))
def test_shares_stay_between_minimum_and_room(rows: list[tuple[int, int]], room: int) -> None:
    shares = [layout.Share(str(number), size, min(size, need)) for number, (size, need) in enumerate(rows)]
    try:
        found = layout.divide(shares, room, "MiB")
    except layout.DoesNotFit:
        assert sum(share.least for share in shares) > room
        return
    assert sum(found.values()) <= room
    assert all(share.least <= found[share.name] <= share.size for share in shares)


def test_the_script_has_all_that_the_table_had() -> None:
    manifest = copy.deepcopy(recorded())
    table = manifest["disks"]["vdb"]["table"]
    text = layout.script(table, layout.lay_out(manifest, "vdb", 3 * GIB, 512, {}), 512)
    assert text.splitlines()[:4] == ["label: gpt", f"label-id: {table['id']}", "unit: sectors", "first-lba: 2048"]
    assert (
        "p1 : start=2048, size=131072, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, "
        'uuid=066E07C4-3C5A-4C69-B797-95F4FBFFC9FF, name="EFI System"\n' in text
    )
    assert 'attrs="LegacyBIOSBootable"' in text
    table = manifest["disks"]["sda"]["table"]
    text = layout.script(table, layout.lay_out(manifest, "sda", 2 * GIB, 512, {}), 512)
    assert "label: dos" in text and "first-lba" not in text and "type=83, bootable\n" in text


def test_a_quote_in_a_name_is_written_as_sfdisk_reads_it() -> None:
    manifest = simple(("ext4 /", 4000, 10))
    table = manifest["disks"]["sda"]["table"]
    table["partitions"][0]["label"] = r'my "x" \ y'
    text = layout.script(table, layout.lay_out(manifest, "sda", 4002 * MIB, 512, {}), 512)
    assert r'name="my \x22x\x22 \x5c y"' in text


def test_sectors_of_4096_bytes_are_counted_as_such() -> None:
    manifest = simple(("ext4 /", 4000, 10))
    text = layout.script(manifest["disks"]["sda"]["table"], layout.lay_out(manifest, "sda", 4002 * MIB, 4096, {}), 4096)
    assert "first-lba: 256" in text and "p1 : start=256, size=1024000," in text


@pytest.mark.parametrize("sector", [512, 4096])
def test_a_full_disk_fits_on_one_of_the_same_size(sector: int) -> None:
    # 4 TB, whose last partition ends with the last MiB, or with the last sector that GPT leaves.
    size = 4000787030016
    for partition in (size // MIB * MIB - MIB, size - MIB - 128 * 128 - sector):
        manifest = simple(("swap", partition // MIB, 0), size=size)
        manifest["devices"]["sda1"]["size"] = partition
        manifest["disks"]["sda"]["table"]["partitions"][0]["size"] = partition // 512
        (part,) = layout.lay_out(manifest, "sda", size, sector, {})
        assert part.size == partition // MIB * MIB


def test_a_volume_of_several_segments_counts_once() -> None:
    manifest = on_lvm()
    group = manifest["volume_groups"]["vg"]
    once = layout.volume_shares(manifest, "vg", {})
    group["volumes"].append(group["volumes"][0])
    assert layout.volume_shares(manifest, "vg", {}) == once and len(once) == 2
