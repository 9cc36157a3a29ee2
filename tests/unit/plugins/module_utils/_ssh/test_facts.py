# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of the host: banners, addresses, and the environment of ancestors."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh import facts


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Return a socket that listens on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.mark.parametrize(
    ("output", "banner"),
    [(b"SSH-2.0-OpenSSH_9.2p1\r\n", "SSH-2.0-OpenSSH_9.2p1"), (b"HTTP/1.1 400 Bad Request\r\n", ""), (b"", "")],
)
def test_only_an_ssh_server_has_a_banner(server, output, banner):
    def answer() -> None:
        peer, _address = server.accept()
        with peer:
            peer.sendall(output)

    threading.Thread(target=answer, daemon=True).start()
    assert facts.banner("127.0.0.1", server.getsockname()[1], 0) == banner


@pytest.mark.parametrize(
    ("address", "can"),
    [("127.0.0.1", True), ("0.0.0.0", True), ("192.0.2.99", False), ("lab.example", False)],  # noqa: S104
)
def test_only_addresses_of_the_host_can_be_listened_on(address, can):
    assert facts.can_listen(address) is can


def test_a_closed_port_has_no_banner(server):
    port = server.getsockname()[1]
    server.close()
    assert facts.banner("127.0.0.1", port, 0) == ""


def test_ancestors_are_read_up_to_the_first_missing_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 30)
    for pid, parent, environment in ((30, 20, "HOME=/root"), (20, 10, "SSH_CONNECTION=a b c 22")):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/environ").write_text(f"{environment}\0")
        (tmp_path / f"proc/{pid}/stat").write_text(f"{pid} (a (program) x) S {parent} 1")
    uid = tmp_path.stat().st_uid
    assert list(facts.ancestors(Tree(str(tmp_path)))) == [
        (uid, {"HOME": "/root"}),
        (uid, {"SSH_CONNECTION": "a b c 22"}),
    ]


def test_a_process_of_the_service_is_not_a_foreign_listener() -> None:
    service: Any = {"process": "sshd", "pid": os.getpid(), "port": 22}
    # This process is not named `[listener]`, as a session of sshd.
    program: Any = {**service, "process": "python3"}
    assert facts.foreign_listeners([service, program], pid=1) == []
    assert facts.foreign_listeners([service], pid=os.getpid()) == []
