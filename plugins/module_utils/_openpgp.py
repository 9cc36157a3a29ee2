# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Which keys a file of OpenPGP public keys holds, by their full fingerprints, without gpg, which a minimal host lacks.

A repository's key file is trusted as a whole by apt. So every key in it counts, not only the one that is looked for.
Formats: RFC 4880 (packets 4.2, ASCII armor 6.2, fingerprints 12.2) and RFC 9580 (version 6).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import typing as t

PUBLIC_KEY = 6
SECRET_KEY, SECRET_SUBKEY = 5, 7
# How many octets give the length of a packet, by the length type of its old-format header.
_OLD_LENGTHS = {0: 1, 1: 2, 2: 4}


class Invalid(ValueError):
    """This is no file of public keys; the text says why."""


def fingerprints(content: bytes) -> list[str]:
    """The fingerprints of the primary keys, in upper-case hexadecimal digits.

    :raises Invalid: the content cannot be read to its end, has no key, or a secret one.
    """
    found = []
    for tag, body in _packets(dearmored(content)):
        if tag in (SECRET_KEY, SECRET_SUBKEY):
            raise Invalid("it holds a secret key")
        if tag == PUBLIC_KEY:
            found.append(_fingerprint(body))
    if not found:
        raise Invalid("it holds no public key")
    return found


def dearmored(content: bytes) -> bytes:
    """The packets of a key file, which may be armored (a ``.asc`` file), in one block or several."""
    blocks = re.findall(
        rb"^-----BEGIN PGP PUBLIC KEY BLOCK-----[ \t]*\r?\n(.*?)^-----END PGP PUBLIC KEY BLOCK-----",
        content,
        re.DOTALL | re.MULTILINE,
    )
    if not blocks:
        if content[:1] and content[0] & 0x80:
            return content
        raise Invalid("it is no OpenPGP key")
    return b"".join(_decode(block) for block in blocks)


def _decode(block: bytes) -> bytes:
    # Headers such as `Version:` end with an empty line; the checksum is the last line, after an equals sign.
    lines = [line.strip() for line in block.splitlines()]
    start = lines.index(b"") + 1 if b"" in lines else 0
    try:
        return base64.b64decode(b"".join(line for line in lines[start:] if not line.startswith(b"=")), validate=True)
    except binascii.Error as error:
        raise Invalid(f"its armor is broken: {error}") from error


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
    if body[:1] == b"\x04":
        # What OpenPGP calls a fingerprint is a SHA-1, by definition.
        prefixed = b"\x99" + len(body).to_bytes(2, "big") + body
        return hashlib.sha1(prefixed, usedforsecurity=False).hexdigest().upper()
    if body[:1] == b"\x06":
        return hashlib.sha256(b"\x9b" + len(body).to_bytes(4, "big") + body).hexdigest().upper()
    raise Invalid("it holds a key of a version that is no longer, or not yet, in use")
