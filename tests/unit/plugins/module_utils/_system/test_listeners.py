# SPDX-License-Identifier: GPL-3.0-or-later
"""Sockets as /proc shows them. The tables were recorded on Debian 12 (Linux 6.1, x86-64)."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._system.listeners import (
    Socket,
    parse_address,
    parse_table,
    parse_unit,
    read_listeners,
)

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1201 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1D4C 00000000:0000 0A 00000000:00000000 00:00000000 00000000   998        0 1202 1 0000000000000000 100 0 0 10 0
   2: 020200C0:0016 0A0200C0:CAFE 01 00000000:00000000 00:00000000 00000000     0        0 1203 1 0000000000000000 20 4 1 19 -1
   3: 0100007F:B2C0 0100007F:1D4C 06 00000000:00000000 03:00000B1F 00000000     0        0 0 3 0000000000000000
"""
TCP6 = """\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1204 1 0000000000000000 100 0 0 10 0
   1: B80D0120000000000000000001000000:1B58 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000   998        0 1205 1 0000000000000000 100 0 0 10 0
"""  # noqa: E501 - as it was recorded
UDP = """\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  412: 3500007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000   101        0 1206 2 0000000000000000 0
  413: 020200C0:A1B2 08080808:0035 01 00000000:00000000 00:00000000 00000000   101        0 1207 2 0000000000000000 0
"""


@pytest.mark.parametrize(
    ("text", "address", "port"),
    [
        ("00000000:0016", "0.0.0.0", 22),  # noqa: S104
        ("0100007F:1B58", "127.0.0.1", 7000),
        ("020200C0:FFFF", "192.0.2.2", 65535),
        ("00000000000000000000000000000000:0016", "::", 22),
        ("00000000000000000000000001000000:0277", "::1", 631),
        ("B80D0120000000000000000001000000:01BB", "2001:db8::1", 443),
    ],
)
def test_an_address_is_little_endian(text: str, address: str, port: int) -> None:
    assert parse_address(text) == (address, port)


def test_a_tcp_socket_waits_in_listen() -> None:
    ssh, dashboard = Socket("tcp", "0.0.0.0", 22, 1201), Socket("tcp", "127.0.0.1", 7500, 1202, 998)  # noqa: S104
    assert parse_table("tcp", TCP) == [ssh, dashboard]


def test_tcp6_address_has_four_groups_of_32_bits() -> None:
    assert parse_table("tcp", TCP6) == [Socket("tcp", "::", 22, 1204), Socket("tcp", "2001:db8::1", 7000, 1205, 998)]


def test_a_udp_socket_waits_unconnected() -> None:
    assert parse_table("udp", UDP) == [Socket("udp", "127.0.0.53", 53, 1206, 101)]


@pytest.mark.parametrize("text", ["", "  sl  local_address rem_address   st\n"])
def test_an_empty_table_has_no_sockets(text: str) -> None:
    assert parse_table("tcp", text) == []


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("0::/system.slice/ssh.service\n", "ssh.service"),
        ("0::/system.slice/system-frpc.slice/frpc@home.service\n", "frpc@home.service"),
        ("0::/system.slice/docker.service/payload\n", "docker.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service\n", "user@1000.service"),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", "session-3.scope"),
        ("0::/init.scope\n", "init.scope"),
        ("12:pids:/system.slice/ssh.service\n1:name=systemd:/system.slice/ssh.service\n0::/\n", "ssh.service"),
        ("12:pids:/docker/4f1a.service\n1:name=systemd:/docker/4f1a\n", None),
        # A user may name a group so: it is one line of one group.
        ("0::/user.slice/user-1000.slice/session-3.scope/x\x0b0::/ssh.service/y\n", "session-3.scope"),
        ("0::/user.slice/user-1000.slice/user@1000.service/ssh.service\n", "user@1000.service"),
        ("0::/system.slice/docker-4f1a.scope/system.slice/ssh.service\n", "docker-4f1a.scope"),
        ("0::/user.slice/user-1000.slice/session-3.scope/x\u2028y\n", "session-3.scope"),
        ("0::/\n", None),
        ("", None),
    ],
)
def test_the_unit_is_the_outermost_one(cgroup: str, unit: str | None) -> None:
    assert parse_unit(cgroup) == unit


@pytest.mark.parametrize(
    ("first", "group", "unit"),
    [
        ("0::/init.scope", "0::/lxc/1/system.slice/ssh.service", None),
        ("0::/", "0::/system.slice/ssh.service", "ssh.service"),
        ("0::/lxc/1/init.scope", "0::/lxc/1/system.slice/ssh.service", "ssh.service"),
        ("0::/lxc/1/init.scope", "0::/lxc/10/system.slice/ssh.service", None),
        ("1:name=systemd:/docker/a\n0::/", "1:name=systemd:/docker/a/system.slice/ssh.service\n0::/", "ssh.service"),
    ],
)
def test_a_machine_that_sees_the_groups_above_its_own(first: str, group: str, unit: str | None) -> None:
    assert parse_unit(group, first) == unit


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Return a /proc in which systemd gave its socket to sshd, which has a child, and no visible process holds the others."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text(TCP)
    (tmp_path / "net/udp").write_text(UDP)
    for pid, name, unit in (
        (1, "systemd", "init.scope"),
        (612, "sshd", "system.slice/ssh.service"),
        (700, "sshd", "x.scope"),
    ):
        fds = tmp_path / str(pid) / "fd"
        fds.mkdir(parents=True)
        (fds / "0").symlink_to("/dev/null")
        (fds / "3").symlink_to("socket:[1201]")
        (tmp_path / str(pid) / "comm").write_text(f"{name}\n")
        (tmp_path / str(pid) / "cgroup").write_text(f"0::/{unit}\n")
    return tmp_path


def test_socket_belongs_to_the_master_process_of_a_service(proc: Path) -> None:
    ssh, dashboard, dns = read_listeners(str(proc))
    assert ssh == {
        "protocol": "tcp",
        "address": "0.0.0.0",  # noqa: S104
        "port": 22,
        "process": "sshd",
        "pid": 612,
        "unit": "ssh.service",
    }
    assert (dashboard["port"], dashboard["pid"], dashboard["process"], dashboard["unit"]) == (7500, None, None, None)
    assert (dns["protocol"], dns["port"]) == ("udp", 53)


def test_a_socket_that_only_systemd_holds_belongs_to_systemd(proc: Path) -> None:
    for pid in (612, 700):
        (proc / str(pid) / "fd/3").unlink()
    assert (read_listeners(str(proc))[0]["pid"], read_listeners(str(proc))[0]["unit"]) == (1, "init.scope")
