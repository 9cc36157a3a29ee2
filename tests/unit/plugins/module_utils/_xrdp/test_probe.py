# SPDX-License-Identifier: GPL-3.0-or-later
"""The first packet of a client, and the answers of a server."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.probe import (
    NLA,
    PLAIN,
    TLS,
    Answer,
    certificate,
    connects,
    negotiate,
    parse,
    request,
    speaks_old_tls,
)


@pytest.mark.parametrize("security", [PLAIN, TLS, NLA])
def test_the_first_packet_follows_the_protocol(security):
    assert request(security).hex() == "03000013" + "0ee00000000000" + "01000800" + f"{security:02x}000000"


@pytest.mark.parametrize(
    ("packet", "expected"),
    [
        ("03000013" + "0ed00000123400" + "02000800" + "01000000", Answer(TLS, "TLS")),
        ("03000013" + "0ed00000123400" + "02000800" + "02000000", Answer(NLA, "NLA")),
        ("03000013" + "0ed00000123400" + "02000800" + "00000000", Answer(PLAIN, "RDP's own security")),
        ("03000013" + "0ed00000123400" + "03000800" + "01000000", Answer(-1, "TLS is required")),
        (
            "03000013" + "0ed00000123400" + "03000800" + "03000000",
            Answer(-1, "the server has no certificate that it can read"),
        ),
        # A server without the negotiation.
        ("0300000b" + "06d00000123400", Answer(PLAIN, "RDP's own security")),
        ("", Answer(-1, "the server closes the connection")),
        ("5353482d322e302d", Answer(-1, "no RDP server answers")),
    ],
)
def test_answers_are_parsed(packet, expected):
    assert parse(bytes.fromhex(packet)) == expected


@pytest.fixture
def ssh_server() -> Iterator[int]:
    """Run a server that does not speak RDP."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    peer, _address = server.accept()
                except OSError:
                    return
                # Some clients send nothing.
                with peer, contextlib.suppress(OSError):
                    peer.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")
                    peer.recv(64)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def test_another_server_or_none_proves_nothing(ssh_server):
    assert negotiate("127.0.0.1", ssh_server, TLS) == Answer(-1, "no RDP server answers")
    assert certificate("127.0.0.1", ssh_server) == ""
    assert speaks_old_tls("127.0.0.1", ssh_server) is None
    assert connects("127.0.0.1", ssh_server)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert negotiate("127.0.0.1", port, TLS).text == "nobody answers: Connection refused"
    assert not connects("127.0.0.1", port)
