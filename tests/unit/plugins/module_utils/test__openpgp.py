# SPDX-License-Identifier: GPL-3.0-or-later
"""Fingerprints as gpg tells them, and files that are no keys."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._openpgp import Invalid, dearmored, fingerprints

# Made with `gpg --quick-gen-key ... ed25519 sign`; gpg tells its fingerprint.
KEY = b"""\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawJL6xYJKwYBBAHaRw8BAQdA/+ysjjMCnMergqSp62Gv1qBkkNXApjpVyBnN
crzwrEK0GVJpZ3dyaWdodCB0ZXN0IHJlcG9zaXRvcnmIkAQTFggAOBYhBJ49p7U3
rcFGI1QtKILNrA081ef8BQJrAkvrAhsDBQsJCAcCBhUKCQgLAgQWAgMBAh4BAheA
AAoJEILNrA081ef8A9gBAOmP4acrAtSqDigXwkx0uiRCgA73gOiBpcXlWofDaTaP
AQDU4wgBIaaNC7fN36u3HDkXY61LGKPINbvG5/6IUCrODA==
=WwqR
-----END PGP PUBLIC KEY BLOCK-----
"""
FINGERPRINT = "9E3DA7B537ADC14623542D2882CDAC0D3CD5E7FC"

# The primary key of Docker's repository (download.docker.com/linux/debian/gpg), whose fingerprint Docker's manual tells.
DOCKER = """\
mQINBFit2ioBEADhWpZ8/wvZ6hUTiXOwQHXMAlaFHcPH9hAtr4F1y2+OYdbtMuthlqqwp028AqyY+PRfVMtSYMbjuQuu5byyKR01BbqYhuS3jtqQ
mljZ/bJvXqnmiVXh38UuLa+z077PxyxQhu5BbqntTPQMfiyqEiU+BKbq2WmANUKQf+1AmZY/IruOXbnqL4C1+gJ8vfmXQt99npCaxEjaNRVYfOS8
QcixNzHUYnb6emjlANyEVlZzeqo7XKl7UrwV5inawTSzWNvtjEjj4nJL8NsLwscpLPQUhTQ+7BbQXAwAmeHCUTQIvvWXqw0Ncmhh4HgeQscQHYgO
JjjDVfoY5MucvglbIgCqfzAHW9jxmRL4qbMZj+b1XoePEthtku4bIQN1X5P07fNWzlgaRL5Z4POXDDZTlIQ/El58j9kp4bnWRCJW0lya+f8ocodo
vZZ+Doi+fy4D5ZGrL4XEcIQP/Lv5uFyf+kQtl/94VFYVJOleAv8W92KdgDkhTcTDG7c0tIkVEKNUq48b3aQ64NOZQW7fVjfoKwEZdOqPE72Pa45j
rZzvUFxSpdiNk2tZXYukHjlxxEgBdC/J3cMMNRE1F4NCA3ApfV1Y7/hTeOnmDuDYwr9/obA8t016Yljjq5rdkywPf4JF8mXUW5eCN1vAFHxeg9ZW
emhBtQmGxXnw9M+z6hWwc6ahmwARAQAB
"""


def test_the_fingerprint_is_the_one_that_gpg_tells() -> None:
    assert fingerprints(KEY) == [FINGERPRINT]
    assert fingerprints(dearmored(KEY)) == [FINGERPRINT]
    assert fingerprints(KEY.replace(b"\n", b"\r\n")) == [FINGERPRINT]


def test_the_fingerprint_of_an_old_packet_format() -> None:
    assert fingerprints(base64.b64decode(DOCKER)) == ["9DC858229FC7DD38854AE2D88D81803C0EBFCD88"]


def test_a_second_key_in_the_file_is_not_overlooked() -> None:
    both = [FINGERPRINT, "9DC858229FC7DD38854AE2D88D81803C0EBFCD88"]
    assert fingerprints(dearmored(KEY) + base64.b64decode(DOCKER)) == both
    assert fingerprints(KEY + KEY) == [FINGERPRINT, FINGERPRINT]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no OpenPGP key"),
        (b"<html>", "no OpenPGP key"),
        (dearmored(KEY)[:30], "middle of a packet"),
        (dearmored(KEY) + b"\0", "no packet"),
        (KEY.replace(b"mDME", b"m*ME"), "armor is broken"),
        (bytes([0x80 | 5 << 2, 1, 4]), "secret"),
        (bytes([0x80 | 6 << 2, 1, 3]), "version"),
        (bytes([0x83 | 6 << 2]), "no length"),
        (bytes([0x80 | 13 << 2, 1, 65]), "no public key"),
    ],
)
def test_what_is_no_key_file(content: bytes, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        fingerprints(content)
