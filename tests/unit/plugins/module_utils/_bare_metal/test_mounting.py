# SPDX-License-Identifier: GPL-3.0-or-later
"""File systems are mounted before the restore so that each file comes back to its disk."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import mounting
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.model import Plan
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import is_within
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.support.manifest.manifests import GIB, blank, simple
from tests.unit.support.manifest.rebuilds import plan_of


def machine(*disks: str, binds: tuple[tuple[str, str, str], ...] = ()) -> dict[str, Any]:
    """Return a machine with partitions at these mount points; a bind is (partition, its directory, mount point)."""
    manifest = simple(*((f"ext4 {point}", 1000, 10) for point in disks))
    for name, root, target in binds:
        manifest["devices"][name]["mountpoints"].append(target)
        row = {"source": f"/dev/{name}", "type": "ext4", "size": 1, "used": 1}
        manifest["mounts"].append({**row, "target": target, "root": root})
    return manifest


def mounted(manifest: dict[str, Any]) -> tuple[list[str], Plan]:
    plan = plan_of(manifest, blank(vda=8 * GIB), {"sda": "/dev/disk/by-id/vda"})
    commands = [step["command"] for step in plan.phases["disks"] if step.get("command", [""])[0] == "mount"]
    return [" ".join(word for word in command[1:] if word != "--bind") for command in commands], plan


SCRATCH = ("/", "/data", "/home/alice/scratch")


def test_a_bind_hides_no_disk_that_is_mounted_below_it() -> None:
    found, plan = mounted(machine(*SCRATCH, binds=(("sda2", "/home", "/home"),)))
    assert found == [
        "/dev/vda1 /target",
        "/dev/vda2 /target/data",
        "/target/data/home /target/home",
        "/dev/vda3 /target/home/alice/scratch",
    ]
    assert plan.notes == []


def test_a_disk_in_a_shared_mount_is_seen_in_both_places() -> None:
    """A mount inside a bind appears in the directory that the bind shows as well."""
    binds = (("sda2", "/home", "/home"), ("sda3", "/", "/data/home/alice/scratch"))
    found, plan = mounted(machine(*SCRATCH, binds=binds))
    assert found[2:] == [
        "/target/data/home /target/home",
        "/dev/vda3 /target/home/alice/scratch",
        "/target/home/alice/scratch /target/data/home/alice/scratch",
    ]
    assert plan.notes == []


def test_a_bind_comes_after_the_disk_that_it_shows() -> None:
    manifest = machine("/", "/mnt/very/deep", binds=(("sda2", "/www", "/srv"),))
    assert mounted(manifest)[0][1:] == ["/dev/vda2 /target/mnt/very/deep", "/target/mnt/very/deep/www /target/srv"]


@pytest.mark.parametrize(
    ("manifest", "missing"),
    [
        # Each would have to be there before the other.
        (machine("/", "/x/y", binds=(("sda2", "/z", "/x"),)), "/z of /dev/sda2, which was mounted at /x,"),
        # What is shown is below another disk.
        (machine("/", "/data", "/data/x", binds=(("sda2", "/x/y", "/srv"),)), "/x/y of /dev/sda2, which was mounted at /srv,"),
    ],
)  # fmt: skip
def test_a_bind_that_cannot_be_made_is_named(manifest: dict[str, Any], missing: str) -> None:
    found, plan = mounted(manifest)
    assert len(found) == len(manifest["devices"]) - 1
    (note,) = plan.notes
    assert note.startswith(missing) and "come back to the file system around it" in note


POINTS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))


@given(
    st.lists(POINTS, max_size=3, unique=True), st.lists(st.tuples(st.integers(1, 4), POINTS, POINTS), max_size=4)
)  # fmt: skip
def test_nothing_is_mounted_over_what_is_there(disks: list[str], rows: list[tuple[int, str, str]]) -> None:
    taken = {"/", *disks}
    binds = []
    for number, root, target in rows:
        if target not in taken and number <= len(disks) + 1:
            taken.add(target)
            binds.append((f"sda{number}", root, target))
    manifest = machine("/", *disks, binds=tuple(binds))
    places, left_out = mounting.in_order(manifest, manifest["devices"])
    targets = [place.target for place in places]
    shown = {row["target"] for name in manifest["devices"] for row in mounting.own_mounts(manifest, name)}
    assert shown <= {*targets} and len(targets) == len({*targets})
    assert not {*targets} & {row["target"] for row in left_out}
    for number, place in enumerate(places):
        for later in targets[number + 1 :]:
            assert not is_within(place.target, later)
            assert not place.shows or not is_within(place.shows, later)
