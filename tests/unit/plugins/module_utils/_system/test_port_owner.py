# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose program listens on a port, from tables of the kernel and from a real socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._system import port_owner

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
LINE = "   0: {address}:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000 {uid:5d}        0 7 1 0 100 0 0 10 0\n"
ADDRESSES = {"127.0.0.1": "0100007F", "0.0.0.0": "00000000", "192.0.2.2": "020200C0"}  # noqa: S104 - listened on, not bound
FOREIGN = "the user with id 64999 listens there, and not the service"


@pytest.fixture
def proc(tmp_path: Path) -> Callable[..., str]:
    """Make a /proc with these listeners: address, port and user."""

    def make(*rows: tuple[str, int, int]) -> str:
        (tmp_path / "net").mkdir(exist_ok=True)
        lines = [LINE.format(address=ADDRESSES[address], port=port, uid=uid) for address, port, uid in rows]
        (tmp_path / "net/tcp").write_text(HEAD + "".join(lines))
        return str(tmp_path)

    return make


@pytest.mark.parametrize(
    ("listeners", "problem"),
    [
        ([("127.0.0.1", 7500, 998)], ""),
        ([("0.0.0.0", 7500, 0)], ""),  # noqa: S104
        ([("127.0.0.1", 7500, 64999)], FOREIGN),
        ([("0.0.0.0", 7500, 64999)], FOREIGN),  # noqa: S104
        ([("127.0.0.1", 7500, 64999), ("192.0.2.2", 7500, 998)], FOREIGN),
        ([("127.0.0.1", 7501, 998), ("192.0.2.2", 7500, 998)], "nobody listens there"),
        ([], "nobody listens there"),
    ],
)
def test_listener_of_another_user_is_named(
    proc: Callable[..., str], listeners: list[tuple[str, int, int]], problem: str
) -> None:
    assert port_owner.foreign_owner("127.0.0.1", 7500, {0, 998}, proc(*listeners)) == problem


@pytest.mark.parametrize("address", ["", "[::1]", "a..b", "192.0.2.300", "x" * 70])
def test_what_is_no_address_is_a_reason(proc: Callable[..., str], address: str) -> None:
    assert "is no address of this machine" in port_owner.foreign_owner(address, 7500, {0}, proc())


def test_a_listener_on_an_address_of_ipv4_in_ipv6_is_found(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    row = LINE.format(address="0000000000000000FFFF00000100007F", port=7500, uid=64999)
    (tmp_path / "net/tcp6").write_text(HEAD + row)
    assert port_owner.foreign_owner("127.0.0.1", 7500, {0}, str(tmp_path)) == FOREIGN


def test_a_real_socket_is_of_its_user() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert port_owner.foreign_owner("127.0.0.1", port, {os.getuid()}) == ""
        assert port_owner.foreign_owner("localhost", port, {os.getuid() + 1}).endswith("and not the service")


@pytest.mark.parametrize(("pid", "uids"), [("41\n", {0, 998, 997}), ("42\n", {0}), ("0\n", {0}), ("", {0})])
def test_users_of_a_unit_are_root_and_its_own(tmp_path: Path, pid: str, uids: set[int]) -> None:
    (tmp_path / "41").mkdir()
    (tmp_path / "41/status").write_text("Name:\tfrps\nUid:\t998\t998\t997\t998\nGid:\t0\t0\t0\t0\n")

    def run(command: list[str]) -> tuple[int, str, str]:
        assert command == ["systemctl", "show", "--property=MainPID", "--value", "frps.service"]
        return 0, pid, ""

    assert port_owner.uids_of(run, "frps.service", str(tmp_path)) == uids


def test_first_port_of_any_user_is_read(tmp_path: Path) -> None:
    (tmp_path / "sys/net/ipv4").mkdir(parents=True)
    (tmp_path / "sys/net/ipv4/ip_unprivileged_port_start").write_text("1024\n")
    assert port_owner.first_open_port(str(tmp_path)) == 1024
