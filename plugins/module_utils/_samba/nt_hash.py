# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Samba keeps of a password: MD4 of its UTF-16LE (MS-NLMP, NTOWFv1).

OpenSSL 3 has no MD4 by default, and so ``hashlib`` has none on any supported system.
"""

from __future__ import annotations

import re
import struct
import typing as t

NT_HASH = re.compile("[0-9A-Fa-f]{32}")
# Of the empty password.
EMPTY = "31D6CFE0D16AE931B73C59D7E0C089C0"

_MASK = 0xFFFFFFFF


def _choose(x: int, y: int, z: int) -> int:
    return (x & y) | (~x & z)


def _majority(x: int, y: int, z: int) -> int:
    return (x & y) | (x & z) | (y & z)


def _parity(x: int, y: int, z: int) -> int:
    return x ^ y ^ z


# RFC 1320, section 3.4: function, constant, order of the words, rotations.
_ROUNDS: tuple[tuple[t.Callable[[int, int, int], int], int, tuple[int, ...], tuple[int, ...]], ...] = (
    (_choose, 0, tuple(range(16)), (3, 7, 11, 19)),
    (_majority, 0x5A827999, (0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), (3, 5, 9, 13)),
    (_parity, 0x6ED9EBA1, (0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15), (3, 9, 11, 15)),
)


def _rotate(value: int, places: int) -> int:
    return ((value << places) | (value >> (32 - places))) & _MASK


def md4(data: bytes) -> bytes:
    """Return the digest of RFC 1320."""
    state: tuple[int, ...] = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)
    padded = data + b"\x80" + b"\0" * ((55 - len(data)) % 64) + struct.pack("<Q", len(data) * 8)
    for offset in range(0, len(padded), 64):
        block = struct.unpack("<16I", padded[offset : offset + 64])
        h = list(state)
        for function, constant, order, rotations in _ROUNDS:
            for step, word in enumerate(order):
                a, b, c, d = ((place - step) % 4 for place in range(4))
                total = (h[a] + function(h[b], h[c], h[d]) + block[word] + constant) & _MASK
                h[a] = _rotate(total, rotations[step % 4])
        state = tuple((old + new) & _MASK for old, new in zip(state, h))
    return struct.pack("<4I", *state)


def nt_hash(password: str) -> str:
    """Return the NT hash as ``pdbedit -L -w`` prints it."""
    return md4(password.encode("utf-16-le")).hex().upper()
