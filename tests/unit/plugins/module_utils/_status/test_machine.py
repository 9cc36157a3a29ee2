# SPDX-License-Identifier: GPL-3.0-or-later
"""Processors, memory, disks and network, from files as the kernel writes them."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._status import machine, model
from ansible_collections.rigwright.workstation.plugins.module_utils._status.machine import Counters

FILES = {
    "proc/stat": "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 50 0 25 400 25 0 0 0 0 0\ncpu1 50 0 25 400 25 0 0 0 0 0\nintr 1\n",
    "proc/loadavg": "3.10 2.00 1.00 1/200 4711\n",
    "proc/meminfo": "MemTotal:  8388608 kB\nMemFree: 1 kB\nMemAvailable:  6291456 kB\nSwapTotal: 2097152 kB\nSwapFree: 1048576 kB\n",
    "proc/uptime": "7200.50 100.00\n",
    "proc/net/dev": "Inter-| Receive\n face |bytes\n"
    "  eth0: 1000 1 0 0 0 0 0 0 500 1 0 0 0 0 0 0\n  wlan0: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
    "  lo: 9 0 0 0 0 0 0 0 9 0 0 0 0 0 0 0\n  veth12ab: 9 0 0 0 0 0 0 0 9 0 0 0 0 0 0 0\n",
    "proc/net/route": "Iface\tDestination\tGateway\neth0\t00000000\t0102000A\neth0\t0002000A\t00000000\n",
    "sys/class/net/eth0/operstate": "up\n",
    "sys/class/net/wlan0/operstate": "down\n",
    "proc/self/mountinfo": (
        "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n21 20 8:2 / /data rw - xfs /dev/sdb rw\n22 20 0:5 / /dev rw - devtmpfs udev rw\n"
        "23 20 0:40 / /mnt/nas rw - nfs4 nas:/x rw\n24 20 8:1 /var/tmp/x /var/tmp rw - ext4 /dev/sda1 rw\n"
        "25 20 0:41 / /mnt/user rw - fuse.sshfs far:/ rw\n"
    ),
}
NOW = 1_764_076_800.0


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Tree(str(tmp_path))


def room(total: int, free: int) -> Any:
    return SimpleNamespace(f_blocks=total, f_bfree=free, f_bavail=free, f_frsize=1 << 30)


@pytest.fixture
def statvfs(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the rooms of file systems by path, and keep the paths that were asked for."""
    rooms = {tree.at("/"): room(100, 55), tree.at("/data"): room(100, 8)}
    monkeypatch.setattr(os.path, "isdir", lambda _path: True)
    return rooms


def test_counters_are_those_of_the_kernel(tree: Tree) -> None:
    found = machine.counters(tree, NOW)
    assert (found.busy, found.total) == (150.0, 1000.0)
    assert found.links["eth0"] == (1000.0, 500.0)


def test_processors_are_busy_between_two_readings(tree: Tree) -> None:
    after = Counters(NOW, busy=200, total=1100)
    (row,) = machine.processors(tree, Counters(NOW - 1, busy=150, total=1000), after)
    assert (row.values, row.share, row.brief) == (("50%", "load 3.10", "2 threads"), 0.5, "load 3.10")
    assert machine.processors(tree, None, after)[0].values == ("load 3.10", "2 threads")


def test_memory_is_what_is_not_available(tree: Tree) -> None:
    (row,) = machine.memory(tree)
    assert (row.values, row.level) == (("25%", "2.0/8.0 GiB", "swap 1.0 GiB"), model.OK)


def test_local_file_systems_are_measured_once(tree: Tree, statvfs: dict[str, Any]) -> None:
    rows = machine.disks(tree, "/data/cache", statvfs.__getitem__)
    assert [(row.label, row.values, row.level) for row in rows] == [
        ("/", ("45%", "55.0 GiB free"), model.OK),
        ("/data", ("92%", "8.0 GiB free", "data set cache"), model.WARN),
    ]
    assert [row.rank for row in rows] == [model.ESSENTIAL] * 2


def test_disk_that_cannot_be_measured_is_left_out(tree: Tree, statvfs: dict[str, Any]) -> None:
    def broken(path: str) -> Any:
        if path.endswith("/data"):
            raise OSError("Input/output error")
        return room(100, 2)

    assert [(row.label, row.level) for row in machine.disks(tree, "", broken)] == [("/", model.FAIL)]


def test_interfaces_have_addresses_and_rates(tree: Tree) -> None:
    after = machine.counters(tree, NOW)
    before = Counters(NOW - 2, links={"eth0": (0.0, 100.0)})
    rows = machine.network(tree, before, after, {"eth0": "10.0.2.15", "wlan0": ""}.__getitem__)
    assert [(row.label, row.values, row.level, row.rank) for row in rows] == [
        ("eth0", ("10.0.2.15", "in 500 B/s", "out 200 B/s"), model.OK, model.ESSENTIAL),
        ("wlan0", ("down",), model.DIM, model.DETAIL),
    ]


def test_loopback_has_its_address() -> None:
    assert machine.address_of("lo") in ("127.0.0.1", "")
    assert machine.address_of("nothing-of-this-name") == ""


def test_uptime_is_in_seconds(tree: Tree, tmp_path: Path) -> None:
    assert machine.uptime(tree) == 7200.5
    assert machine.uptime(Tree(str(tmp_path / "empty"))) == 0.0
