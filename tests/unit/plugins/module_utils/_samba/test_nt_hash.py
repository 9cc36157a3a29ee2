# SPDX-License-Identifier: GPL-3.0-or-later
"""MD4 by the vectors of its RFC, and NT hashes as Samba itself keeps them."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.nt_hash import EMPTY, md4, nt_hash

# RFC 1320, appendix A.5.
VECTORS = {
    b"": "31d6cfe0d16ae931b73c59d7e0c089c0",
    b"a": "bde52cb31de33e46245e05fbdbd6fb24",
    b"abc": "a448017aaf21d8525fc10ae87aa6729d",
    b"message digest": "d9130a8164549fe818874806e1c7014b",
    b"abcdefghijklmnopqrstuvwxyz": "d79e1c308aa5bbcdeea8ed63df412da9",
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789": "043f8582f241db351ce627e153e7f0e4",
    b"1234567890" * 8: "e33b4ddc9c38f2199c3e7b164fcc0536",
}

# Printed by `pdbedit -L -w` of Samba 4.17 and 4.22 after `pdbedit -a -t`.
BY_SAMBA = {
    "p\"a'%s %d ü€𝄞 $`\\ end ": "B20C5F3066E09F324C81B045AA57938E",
    "x" * 120: "AF8A9C686CFAF88F25DC1645D4BCB4E5",
    "x" * 127: "25900FAB94A048BCF438615217776562",
    "x" * 254: "A2317F935FB7F5DCDBEFB2829971208A",
}


@pytest.mark.parametrize(("data", "digest"), VECTORS.items(), ids=lambda value: str(value)[:12])
def test_md4_answers_as_its_rfc(data: bytes, digest: str) -> None:
    assert md4(data).hex() == digest


@pytest.mark.parametrize(("password", "kept"), BY_SAMBA.items(), ids=range(len(BY_SAMBA)))
def test_hash_of_a_password_equals_sambas(password: str, kept: str) -> None:
    assert nt_hash(password) == kept


def test_the_empty_password_is_known() -> None:
    assert nt_hash("") == EMPTY
