# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Probe an RDP server before the login: its security protocols and its certificate.

[MS-RDPBCGR] 2.2.1.1 and 2.2.1.2: a TPKT header, an X.224 connection request, and what security the client can do.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import socket
import ssl
import struct
import typing as t
import warnings

# The protocols that a client can request: RDP's own security without a certificate, TLS, or TLS with authentication first (NLA).
PLAIN, TLS, NLA = 0, 1, 2
# The types of an answer; a failure has a reason.
RESPONSE, FAILURE = 2, 3
REASONS = {
    1: "TLS is required",
    2: "TLS is not allowed",
    3: "the server has no certificate that it can read",
    5: "network level authentication is required",
}
CLOSED = "the server closes the connection"
PATIENCE = 5.0


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answer of a server. ``security``: what it chose, -1 for a refusal or no answer. ``text``: the same as text."""

    security: int
    text: str


def request(security: int) -> bytes:
    """Return the first packet of a client."""
    negotiation = struct.pack("<BBHI", 1, 0, 8, security)
    x224 = bytes([6 + len(negotiation), 0xE0, 0, 0, 0, 0, 0]) + negotiation
    return struct.pack(">BBH", 3, 0, 4 + len(x224)) + x224


def parse(packet: bytes) -> Answer:
    """Parse the server's first packet. A server with RDP's own security alone may leave the negotiation out."""
    if len(packet) >= 7 and packet[:2] == b"\x03\x00" and packet[5] == 0xD0:
        if len(packet) < 19:
            return Answer(PLAIN, "RDP's own security")
        kind, (value,) = packet[11], struct.unpack("<I", packet[15:19])
        if kind == RESPONSE:
            return Answer(value, {PLAIN: "RDP's own security", TLS: "TLS", NLA: "NLA"}.get(value, f"security {value}"))
        if kind == FAILURE:
            return Answer(-1, REASONS.get(value, f"refused for reason {value}"))
    return Answer(-1, "no RDP server answers" if packet else CLOSED)


@contextlib.contextmanager
def negotiated(address: str, port: int, security: int) -> t.Iterator[tuple[socket.socket, Answer]]:
    """Open a connection and read the server's answer to the request of the client.

    :raises OSError: nobody listens, or nobody answers.
    """
    with socket.create_connection((address, port), PATIENCE) as peer:
        peer.sendall(request(security))
        yield peer, parse(peer.recv(64))


def negotiate(address: str, port: int, security: int) -> Answer:
    """Return the server's answer to a client."""
    try:
        with negotiated(address, port, security) as (_peer, answer):
            return answer
    except OSError as error:
        return Answer(-1, f"nobody answers: {error.strerror or error}")


def connects(address: str, port: int) -> bool:
    """Return whether a TCP connection can be opened."""
    try:
        with socket.create_connection((address, port), PATIENCE):
            return True
    except OSError:
        return False


def certificate(address: str, port: int, security: int = TLS) -> str:
    """Return the SHA-256 of the server's certificate as ``openssl`` writes it; empty without TLS."""
    context = _context()
    try:
        with negotiated(address, port, security) as (peer, answer):
            if answer.security != security:
                return ""
            with context.wrap_socket(peer) as shown:
                digest = hashlib.sha256(shown.getpeercert(binary_form=True) or b"").hexdigest().upper()
                return ":".join(digest[place : place + 2] for place in range(0, len(digest), 2))
    except OSError:
        return ""


def speaks_old_tls(address: str, port: int) -> bool | None:
    """Return whether the server accepts TLS 1.1 or older; None without TLS, or when this host's OpenSSL cannot try it."""
    context = _context()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        # Without this the client itself refuses the old version, which proves nothing about the server.
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        with negotiated(address, port, TLS) as (peer, answer):
            return _shakes_hands(context, peer) if answer.security == TLS else None
    except OSError:
        return None


def _shakes_hands(context: ssl.SSLContext, peer: socket.socket) -> bool | None:
    try:
        with context.wrap_socket(peer):
            return True
    except (ssl.SSLEOFError, ConnectionError):
        return False
    except ssl.SSLError as error:
        # An alert comes from the server; any other error is the client's own.
        return False if "ALERT" in (error.reason or "") else None


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
