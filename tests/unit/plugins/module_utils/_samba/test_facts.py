# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts about disks, modules and connections of a host below a root directory, and its units."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import facts as host

PARAMS: dict[str, Any] = {"state": "present", "discovery_unit": "wsdd2.service", "allow_disruption": False}
MOUNTS = "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n26 25 8:17 / /mnt/big\\040disk rw - ext4 /dev/sdb1 rw\n"
FSTAB = "# a comment\nUUID=1 / ext4 defaults 0 1\nUUID=2 /data/ ext4 nofail 0 2\nUUID=3 none swap sw 0 0\n"
# Port 445 is 01BD: one who listens, and one who is connected from 10.0.0.7.
CONNECTIONS = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:01BD 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   1: 0100000A:01BD 0700000A:C350 01 00000000:00000000 00:00000000 00000000     0        0 2 1
   2: 0100000A:0016 0800000A:C350 01 00000000:00000000 00:00000000 00000000     0        0 3 1
"""


@pytest.fixture
def tree(tmp_path: Path) -> host.Host:
    files = {
        "proc/self/mountinfo": MOUNTS,
        "proc/net/tcp": CONNECTIONS,
        "etc/fstab": FSTAB,
        "usr/lib/x86_64-linux-gnu/samba/vfs/fruit.so": "",
    }
    for path, text in files.items():
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return host.Host(str(tmp_path))


def test_disks_that_are_mounted_and_those_that_should_be(tree: host.Host) -> None:
    assert tree.mount_points() == ["/", "/data", "/mnt/big disk"]


def test_name_with_other_line_breaks_is_one_mount(tree: host.Host, tmp_path: Path) -> None:
    name = "/home/alice/x\x0by 1 8:1 / /data2"
    row = "27 25 0:50 / {} rw - fuse.x x rw\n".format(name.replace(" ", "\\040"))
    (tmp_path / "proc/self/mountinfo").write_text(row)
    assert name in tree.mount_points() and "/data2" not in tree.mount_points()


def test_the_vfs_modules_that_samba_has(tree: host.Host) -> None:
    assert tree.vfs_modules("/usr/lib/*/samba/vfs") == {"fruit"}


def test_clients_that_are_connected_to_the_port(tree: host.Host) -> None:
    assert tree.connected(445) == ["10.0.0.7"]
    assert tree.connected(1445) == []


def test_the_interfaces_of_a_network(tree: host.Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "ipv4_addresses", lambda _names: [("eth0", "10.0.0.1"), ("docker0", "172.17.0.1")])
    assert tree.interfaces([ipaddress.ip_network("10.0.0.0/24")]) == ["eth0"]


def of(**more: Any) -> dict[str, list[Any]]:
    """Return the units of a plan by their state."""
    given = {
        "before": {"installed": False, "units": {}},
        "windows": False,
        "macos": False,
        "connected": [],
        "announces": False,
    }
    params = {**PARAMS, **{key: more.pop(key) for key in list(more) if key in PARAMS}}
    found: dict[str, list[Any]] = {"stopped": [], "started": []}
    for unit in host.units(params, **{**given, **more}):
        found[unit.get("state", "started")].append(unit)
    return found


def test_netbios_is_off_and_a_change_of_shares_is_a_reload() -> None:
    found = of()
    assert [unit["name"] for unit in found["stopped"]] == ["nmbd.service", "samba-ad-dc.service"]
    (smbd,) = found["started"]
    assert (smbd["reload_on"], smbd["restart_on"]) == (["/etc/samba/smb.conf"], ["/etc/samba/rigwright-listen.conf"])


@pytest.mark.parametrize(
    ("connected", "allowed", "may"), [([], False, True), (["10.0.0.7"], False, False), (["10.0.0.7"], True, True)]
)
def test_a_restart_waits_for_connected_clients(connected: list[str], allowed: bool, may: bool) -> None:
    assert of(connected=connected, allow_disruption=allowed)["started"][0]["may_restart"] is may


def test_windows_and_macs_are_answered_where_asked_for() -> None:
    assert [unit["name"] for unit in of(windows=True, macos=True)["started"]][1:] == [
        "wsdd2.service",
        "avahi-daemon.service",
    ]
    assert "wsdd2.service" in [unit["name"] for unit in of(announces=True)["stopped"]]


def test_absent_restores_the_units_of_the_host() -> None:
    was = {
        "smbd.service": {"enabled": True, "active": True},
        "avahi-daemon.service": {"enabled": True, "active": False},
    }
    found = of(state="absent", before={"installed": True, "units": was})
    assert [unit["name"] for unit in found["started"]] == ["smbd.service"]
    stopped = {unit["name"]: unit["enabled"] for unit in found["stopped"]}
    assert stopped["avahi-daemon.service"] is True
    assert stopped["wsdd2.service"] is False
    assert of(state="absent", before=None) == {"stopped": [], "started": []}


def test_ports_that_the_network_reaches() -> None:
    assert host.ports(445, False, False) == [{"port": 445, "protocol": "tcp"}]
    assert {(address["port"], address["protocol"]) for address in host.ports(445, True, True)} == {
        (445, "tcp"),
        (3702, "tcp"),
        (3702, "udp"),
        (5353, "udp"),
    }


def test_foreign_link_is_found_anywhere_on_a_path(tmp_path: Path) -> None:
    (tmp_path / "real" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "chain").symlink_to(tmp_path / "link" / ".." / "link")
    (tmp_path / "loop").symlink_to("loop")
    me, other = os.getuid(), os.getuid() + 1
    assert host.foreign_link(f"{tmp_path}/real/below", other) == ""
    assert host.foreign_link(f"{tmp_path}/link/below", me) == ""
    assert host.foreign_link(f"{tmp_path}/link/below", other) == f"{tmp_path}/link"
    assert host.foreign_link(f"{tmp_path}/real/../chain", other) == f"{tmp_path}/chain"
    assert host.foreign_link(f"{tmp_path}/loop", me) == ""
    assert host.foreign_link(f"{tmp_path}/nothing/link", other) == ""


def test_shares_of_users_are_read_without_links_and_pipes(tree: host.Host, tmp_path: Path) -> None:
    folder = tmp_path / host.USERSHARES.lstrip("/")
    folder.mkdir(parents=True)
    (folder / "scans").write_text("sharename=Scans\n")
    (folder / "link").symlink_to(tmp_path / "etc/fstab")
    os.mkfifo(folder / "pipe")
    assert tree.usershares() == {"scans": "sharename=Scans\n"}
