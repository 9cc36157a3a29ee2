# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read files of OpenPGP public keys without gpg, which a minimal host lacks.

A repository's key file is trusted as a whole by apt, so every key in it counts. And apt reads every armor block of a ``.asc``
file, whatever its title. So a key from elsewhere is never installed as it came: `parse_keys` it, and install `armored`.
Formats: RFC 4880 (packets 4.2, ASCII armor 6.2, fingerprints 12.2) and RFC 9580 (version 6).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import typing as t

SIGNATURE = 2
PUBLIC_KEY, PUBLIC_SUBKEY = 6, 14
USER_ID, USER_ATTRIBUTE = 13, 17
# What a certificate consists of: a transferable public key, RFC 4880, 11.1.
CERTIFICATE = (PUBLIC_KEY, PUBLIC_SUBKEY, USER_ID, USER_ATTRIBUTE, SIGNATURE)
SECRET_KEY, SECRET_SUBKEY = 5, 7
# How many octets give the length of a packet, by the length type of its old-format header.
_OLD_LENGTHS = {0: 1, 1: 2, 2: 4}

BEGIN, END = b"-----BEGIN PGP PUBLIC KEY BLOCK-----", b"-----END PGP PUBLIC KEY BLOCK-----"
_HEADER = re.compile(rb"[A-Za-z][A-Za-z0-9-]*: .*")
_DATA = re.compile(rb"[A-Za-z0-9+/]+={0,2}")
_CHECKSUM = re.compile(rb"=[A-Za-z0-9+/]{4}")
_CRC24_START, _CRC24_POLYNOMIAL = 0xB704CE, 0x1864CFB


class Invalid(ValueError):
    """Raised for a text that is no file of public keys; the message says why."""


class Keys(t.NamedTuple):
    """Certificates that were read to their end."""

    fingerprints: list[str]  # of the primary keys, in upper-case hexadecimal digits
    packets: bytes


def parse_keys(content: bytes) -> Keys:
    """Read certificates and nothing else: one armor block without any text around it, or the packets themselves.

    :raises Invalid: the content has anything that is no part of a public key.
    """
    packets = content if _is_binary(content) else _block(content)
    found = []
    for tag, body in _packets(packets):
        if tag in (SECRET_KEY, SECRET_SUBKEY):
            raise Invalid("it holds a secret key")
        if tag not in CERTIFICATE:
            raise Invalid(f"it holds a packet of type {tag}, which is no part of a public key")
        if tag == PUBLIC_KEY:
            found.append(_fingerprint(body))
        elif not found:
            raise Invalid("it does not begin with a public key")
    if not found:
        raise Invalid("it holds no public key")
    return Keys(found, packets)


def armored(packets: bytes) -> str:
    """Write packets as one armor block with its checksum, as gpg does."""
    encoded = base64.b64encode(packets)
    lines = [encoded[start : start + 64] for start in range(0, len(encoded), 64)]
    return b"\n".join([BEGIN, b"", *lines, _checksum(packets), END, b""]).decode("ascii")


def fingerprints(content: bytes) -> list[str]:
    """Name the primary keys that apt reads in a file that is on a host already. For a file from elsewhere, use `parse_keys`.

    :raises Invalid: the content cannot be read to its end, has no key, or a secret one.
    """
    found = []
    for tag, body in _packets(content if _is_binary(content) else dearmored(content)):
        if tag in (SECRET_KEY, SECRET_SUBKEY):
            raise Invalid("it holds a secret key")
        if tag == PUBLIC_KEY:
            found.append(_fingerprint(body))
    if not found:
        raise Invalid("it holds no public key")
    return found


def dearmored(content: bytes) -> bytes:
    """Decode every armor block of a text, whatever its title, as apt does (``dearmor_keyring`` of apt-key)."""
    lines, place = [], ""
    for line in content.split(b"\n"):
        if line.startswith(b"-----BEGIN"):
            place = "headers"
        if not line and place == "headers":
            place = "data"
        if place == "data" and line[:1] not in (b"", b"=", b"-"):
            lines.append(line)
        if line.startswith(b"-----END"):
            place = ""
    if not lines:
        raise Invalid("it is no OpenPGP key")
    # Each block ends with its own padding.
    parts = re.split(rb"(?<==)(?=[^=])", b"".join(lines))
    try:
        return b"".join(base64.b64decode(part, validate=True) for part in parts)
    except binascii.Error as error:
        raise Invalid(f"its armor is broken: {error}") from error


def _is_binary(content: bytes) -> bool:
    return bool(content[:1]) and bool(content[0] & 0x80)


def _block(content: bytes) -> bytes:
    """Decode the one armor block that a text is."""
    lines = [line.rstrip(b" \t\r") for line in content.strip(b" \t\r\n").split(b"\n")]
    if lines[0] != BEGIN:
        raise Invalid("it is no OpenPGP key, or has text before it")
    if lines[-1] != END:
        raise Invalid("its armor has no end, or text after it")
    inner = lines[1:-1]
    start = inner.index(b"") if b"" in inner else len(inner)
    headers, data = inner[:start], inner[start + 1 :]
    checksum = data.pop() if data and _CHECKSUM.fullmatch(data[-1]) else b""
    strange = [line for line in headers if not _HEADER.fullmatch(line)]
    strange += [line for line in data if not _DATA.fullmatch(line)]
    if strange or not data:
        raise Invalid(
            f"its armor has a line that does not belong there: {strange[0][:40]!r}" if strange else "it is empty"
        )
    try:
        packets = base64.b64decode(b"".join(data), validate=True)
    except binascii.Error as error:
        raise Invalid(f"its armor is broken: {error}") from error
    # Another reader could take what comes after the padding for more data, or leave it out.
    if base64.b64encode(packets) != b"".join(data):
        raise Invalid("its armor is broken: data after the padding")
    if checksum and checksum != _checksum(packets):
        raise Invalid("its armor has another checksum")
    return packets


def _checksum(data: bytes) -> bytes:
    crc = _CRC24_START
    for octet in data:
        crc ^= octet << 16
        for _bit in range(8):
            crc = crc << 1 ^ (_CRC24_POLYNOMIAL if crc & 0x800000 else 0)
    return b"=" + base64.b64encode((crc & 0xFFFFFF).to_bytes(3, "big"))


def _packets(data: bytes) -> t.Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(data):
        tag, start, length = _header(data, position)
        position = start + length
        if position > len(data):
            raise Invalid("it ends in the middle of a packet")
        yield tag, data[start:position]


def _header(data: bytes, position: int) -> tuple[int, int, int]:
    """Tag of a packet, where its body starts, and how long that is."""
    first, rest = data[position], data[position + 1 : position + 6]
    if not first & 0x80:
        raise Invalid("it holds something that is no packet")
    if not first & 0x40:
        octets = _OLD_LENGTHS.get(first & 3)
        if octets is None or len(rest) < octets:
            raise Invalid("a packet has no length")
        return first >> 2 & 15, position + 1 + octets, int.from_bytes(rest[:octets], "big")
    if rest and rest[0] < 192:
        return first & 63, position + 2, rest[0]
    if len(rest) > 1 and rest[0] < 224:
        return first & 63, position + 3, (rest[0] - 192 << 8) + rest[1] + 192
    if len(rest) == 5 and rest[0] == 255:
        return first & 63, position + 6, int.from_bytes(rest[1:], "big")
    raise Invalid("a packet has no length")


def _fingerprint(body: bytes) -> str:
    if body[:1] == b"\x04" and len(body) < 1 << 16:
        # What OpenPGP calls a fingerprint is a SHA-1, by definition.
        prefixed = b"\x99" + len(body).to_bytes(2, "big") + body
        return hashlib.sha1(prefixed, usedforsecurity=False).hexdigest().upper()
    if body[:1] == b"\x06":
        return hashlib.sha256(b"\x9b" + len(body).to_bytes(4, "big") + body).hexdigest().upper()
    raise Invalid("it holds a key of a version that is no longer, or not yet, in use")
