# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands for a cache of LVM, as data: the test machines have no device-mapper."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import lvm_cache as lvm
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.disks import Content, Disk

REQUEST = {"mode": "lvmcache", "vg": "data", "lv": "sets", "device": "/dev/disk/by-id/nvme-S", "size": "400G"}
SSD = Disk(
    "/dev/nvme0n1", 10**12, ids=("nvme-S",), serial="S", names=frozenset(["/dev/nvme0n1", "/dev/disk/by-id/nvme-S"])
)


def report(kind: str, *rows: dict[str, str]) -> list[dict[str, str]]:
    return lvm.rows(json.dumps({"report": [{kind: list(rows)}]}), kind)


def lv(name: str = "sets", segtype: str = "linear", pool: str = "", mode: str = "") -> dict[str, str]:
    return {"vg_name": "data", "lv_name": name, "segtype": segtype, "pool_lv": pool, "cache_mode": mode}


def pv(vg: str, name: str = "/dev/nvme0n1") -> dict[str, str]:
    return {"pv_name": name, "vg_name": vg}


def plan(
    *lvs: dict[str, str], pvs: tuple[dict[str, str], ...] = (), disk: Disk = SSD, **change: Any
) -> tuple[str, list[str]]:
    refused, commands = lvm.plan({**REQUEST, **change}, report("lv", *lvs), report("pv", *pvs), [disk])
    return "; ".join(row["problem"] for row in refused), [" ".join(command) for command in commands]


STEPS = [
    "pvcreate /dev/nvme0n1",
    "vgextend data /dev/nvme0n1",
    "lvcreate --yes --wipesignatures y --name sets_cache --size 429496729600b data /dev/nvme0n1",
    "lvconvert --yes --type cache --cachevol sets_cache --cachemode writethrough data/sets",
]


@pytest.mark.parametrize(
    ("lvs", "pvs", "done"),
    [
        ((lv(),), (), 0),
        ((lv(),), (pv(""),), 1),
        ((lv(),), (pv("data"),), 2),
        ((lv(), lv("sets_cache")), (pv("data"),), 3),
        ((lv("sets", "cache", "[sets_cache_cvol]", "writethrough"), lv("[sets_cache_cvol]")), (pv("data"),), 4),
    ],
)
def test_cache_is_created_once_and_completed_after_a_kill(lvs: Any, pvs: Any, done: int) -> None:
    assert plan(*lvs, pvs=pvs) == ("", STEPS[done:])


def test_without_a_size_the_cache_has_all_of_its_disk() -> None:
    assert "--extents 100%PVS" in plan(lv(), size="")[1][2]


def test_another_mode_is_changed_in_place() -> None:
    volumes = lv("sets", "cache", "[sets_cache_cvol]", "writeback")
    assert plan(volumes) == ("", ["lvchange --yes --cachemode writethrough data/sets"])


@pytest.mark.parametrize(
    ("disk", "expected"),
    [
        (
            dataclasses.replace(SSD, content=Content(kind="ext4", label="home", blank=False)),
            "not empty: ext4 labelled 'home'",
        ),
        (dataclasses.replace(SSD, mounts=("/home",)), "is mounted at /home"),
        (dataclasses.replace(SSD, busy=True), "not empty"),
    ],
)
def test_only_an_empty_disk_becomes_a_cache(disk: Disk, expected: str) -> None:
    problems, commands = plan(lv(), disk=disk)
    assert expected in problems and commands == []


@pytest.mark.parametrize(
    ("lvs", "change", "expected"),
    [
        ((), {}, "names the LV data/sets, which is not there"),
        ((lv("sets", "thin"),), {}, "a thin LV"),
        ((lv("sets", "cache", "[other_cvol]", "writethrough"),), {}, "has another cache already: other_cvol"),
        ((lv(),), {"device": "/dev/disk/by-id/nvme-X"}, "no disk of this host is called so"),
    ],
)
def test_a_different_existing_cache_is_refused(lvs: Any, change: dict[str, Any], expected: str) -> None:
    assert expected in plan(*lvs, **change)[0]
    assert "belongs to the VG other" in plan(lv(), pvs=(pv("other"),))[0]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"vg": ""}, "has no vg"),
        ({"lv": "-x"}, "no name for LVM"),
        ({"device": "/dev/nvme0n1"}, "no name in /dev/disk/by-id"),
        ({"size": "big"}, "has the size 'big'"),
        ({"cache_mode": "fast"}, "has the cache_mode 'fast'"),
        ({"cache_mode": "writeback"}, "loses what was written last"),
        ({"origin": "x"}, "has origin, which lvmcache does not know"),
    ],
)
def test_bad_requests_are_refused(change: dict[str, str], expected: str) -> None:
    assert expected in "; ".join(row["problem"] for row in lvm.requirements({**REQUEST, **change}))
    assert list(lvm.requirements({**REQUEST, "cache_mode": "writeback", "accept_loss": True})) == []
