# SPDX-License-Identifier: GPL-3.0-or-later
"""Fingerprints as gpg and apt print them, and files that are no keys."""

from __future__ import annotations

import base64
import contextlib
import re
import subprocess
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.openpgp import (
    Invalid,
    armored,
    dearmored,
    fingerprints,
    parse_keys,
)
from hypothesis import given
from hypothesis import strategies as st

# Made with `gpg --quick-gen-key ... ed25519 sign`; the fingerprint is from gpg.
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

# The primary key of Docker's repository (download.docker.com/linux/debian/gpg), whose fingerprint is in Docker's manual.
DOCKER = """\
mQINBFit2ioBEADhWpZ8/wvZ6hUTiXOwQHXMAlaFHcPH9hAtr4F1y2+OYdbtMuthlqqwp028AqyY+PRfVMtSYMbjuQuu5byyKR01BbqYhuS3jtqQ
mljZ/bJvXqnmiVXh38UuLa+z077PxyxQhu5BbqntTPQMfiyqEiU+BKbq2WmANUKQf+1AmZY/IruOXbnqL4C1+gJ8vfmXQt99npCaxEjaNRVYfOS8
QcixNzHUYnb6emjlANyEVlZzeqo7XKl7UrwV5inawTSzWNvtjEjj4nJL8NsLwscpLPQUhTQ+7BbQXAwAmeHCUTQIvvWXqw0Ncmhh4HgeQscQHYgO
JjjDVfoY5MucvglbIgCqfzAHW9jxmRL4qbMZj+b1XoePEthtku4bIQN1X5P07fNWzlgaRL5Z4POXDDZTlIQ/El58j9kp4bnWRCJW0lya+f8ocodo
vZZ+Doi+fy4D5ZGrL4XEcIQP/Lv5uFyf+kQtl/94VFYVJOleAv8W92KdgDkhTcTDG7c0tIkVEKNUq48b3aQ64NOZQW7fVjfoKwEZdOqPE72Pa45j
rZzvUFxSpdiNk2tZXYukHjlxxEgBdC/J3cMMNRE1F4NCA3ApfV1Y7/hTeOnmDuDYwr9/obA8t016Yljjq5rdkywPf4JF8mXUW5eCN1vAFHxeg9ZW
emhBtQmGxXnw9M+z6hWwc6ahmwARAQAB
"""


OTHER = "9DC858229FC7DD38854AE2D88D81803C0EBFCD88"
PACKETS, OTHERS = dearmored(KEY), base64.b64decode(DOCKER)

# How apt 2.6.1 (Debian 12) reads a .asc file: dearmor_keyring of its apt-key.
APT_READER = r"""awk '/^-----BEGIN/{ x = 1; }
/^$/{ if (x == 1) { x = 2; }; }
/^[^=-]/{ if (x == 2) { print $0; }; }
/^-----END/{ x = 0; }' | base64 -d"""


def block(packets: bytes, title: str = "PUBLIC KEY BLOCK", header: str = "") -> bytes:
    return armored(packets).replace("PUBLIC KEY BLOCK", title).replace("-----\n\n", f"-----\n{header}\n", 1).encode()


def packet(tag: int, body: bytes = b"x") -> bytes:
    return bytes([0xC0 | tag, len(body)]) + body


INSIDE = KEY.index(b"AAoJ")
LINES = armored(OTHERS).splitlines(keepends=True)
# Where apt reads the other key as well, or only that.
SMUGGLED = {
    "a message before": block(OTHERS, "MESSAGE") + KEY,
    "a message after": KEY + block(OTHERS, "MESSAGE"),
    "a signature": block(OTHERS, "SIGNATURE") + KEY,
    "a private key": block(OTHERS, "PRIVATE KEY BLOCK") + KEY,
    "a second block": KEY + block(OTHERS),
    "another title": KEY + block(OTHERS, "public key block"),
    "a title of its own": block(OTHERS, "x").replace(b"BEGIN PGP x-----", b"BEGIN") + KEY,
    "a header": block(OTHERS, "MESSAGE", "Version: 1\n") + KEY,
    "a block that does not end": b"".join(line.encode() for line in LINES[:-2]).replace(b"PUBLIC KEY BLOCK", b"x")
    + KEY,
    "no line break before": KEY.rstrip() + b"\n-----BEGIN\n\n" + DOCKER.encode(),
    "more packets": block(PACKETS + OTHERS),
    "text with a block": b"Hash: SHA256\n\n" + block(OTHERS, "MESSAGE") + KEY,
    "blanks in the title": block(OTHERS).replace(b"-----\n", b"----- \n") + KEY,
}
# What no reader may be asked to make sense of.
ODD = {
    "text before": b"key:\n" + KEY,
    "text after": KEY + b"key\n",
    "a mark before": b"\xef\xbb\xbf" + KEY,
    "blanks before": b"  " + KEY.replace(b"\n", b"\n  "),
    "dashes escaped": KEY.replace(b"-----BEGIN", b"- -----BEGIN"),
    "other dashes": KEY.replace(b"-----BEGIN", b"----BEGIN"),
    "lower case": KEY.replace(b"PUBLIC", b"public"),
    "no empty line": KEY.replace(b"\n\n", b"\n"),
    "a block that has not ended": KEY[: KEY.index(b"-----END")],
    "another checksum": KEY.replace(b"=WwqR", b"=WwqS"),
    "two checksums": KEY.replace(b"=WwqR", b"=WwqR\n=WwqR"),
    "data after the padding": KEY.replace(b"ODA==", b"ODA==mDME"),
    "hidden bits": KEY.replace(b"ODA==", b"ODB==").replace(b"=WwqR\n", b""),
    "a dashed line": KEY[:INSIDE] + b"-\n" + KEY[INSIDE:],
    "a header without a blank": KEY.replace(b"-----\n\n", b"-----\nVersion:1\n\n"),
    "a block inside": KEY[:INSIDE] + block(OTHERS, "MESSAGE") + KEY[INSIDE:],
    "no data": armored(b"").encode(),
}


@pytest.fixture(scope="session")
def gpg_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("gpg")
    home.chmod(0o700)
    return home


def keys_by_gpg(packets: bytes, home: Path) -> list[str]:
    """Return the primary keys that gpg reads."""
    command = ["gpg", "--batch", "--homedir", str(home), "--show-keys", "--with-colons"]
    listing = subprocess.run(command, input=packets, capture_output=True, check=False).stdout.decode()
    return re.findall(r"^pub:.*\nfpr:+(\w+):", listing, re.MULTILINE)


def keys_by_apt(content: bytes, home: Path) -> list[str]:
    """Return the primary keys in a .asc file that apt reads."""
    return keys_by_gpg(
        subprocess.run(["sh", "-c", APT_READER], input=content, capture_output=True, check=False).stdout, home
    )


def test_fingerprint_is_that_of_gpg(gpg_home: Path) -> None:
    assert keys_by_gpg(PACKETS, gpg_home) == fingerprints(KEY) == fingerprints(PACKETS) == [FINGERPRINT]


def test_the_fingerprint_of_an_old_packet_format() -> None:
    assert fingerprints(OTHERS) == parse_keys(OTHERS).fingerprints == [OTHER]


def test_a_second_key_in_the_file_is_not_overlooked() -> None:
    assert fingerprints(PACKETS + OTHERS) == parse_keys(PACKETS + OTHERS).fingerprints == [FINGERPRINT, OTHER]
    assert fingerprints(KEY + KEY) == [FINGERPRINT, FINGERPRINT]


def test_keys_are_written_as_gpg_writes_them(gpg_home: Path) -> None:
    assert armored(PACKETS) == KEY.decode()
    both = armored(PACKETS + OTHERS).encode()
    assert parse_keys(both).packets == PACKETS + OTHERS
    assert keys_by_apt(both, gpg_home) == [FINGERPRINT, OTHER]


@pytest.mark.parametrize(
    "content",
    [
        KEY,
        PACKETS,
        KEY.replace(b"\n", b"\r\n"),
        KEY.replace(b"\n", b" \n") + b"\n\n",
        KEY.replace(b"=WwqR\n", b""),
        block(PACKETS, header="Version: GnuPG v2\nComment: -----BEGIN\n"),
    ],
    ids=["as gpg writes it", "binary", "CRLF", "blanks", "no checksum", "headers"],
)
def test_valid_key_files_are_accepted(content: bytes) -> None:
    assert parse_keys(content) == ([FINGERPRINT], PACKETS)


@pytest.mark.parametrize("content", SMUGGLED.values(), ids=SMUGGLED)
def test_additional_key_that_apt_would_accept_is_found(content: bytes, gpg_home: Path) -> None:
    assert OTHER in keys_by_apt(content, gpg_home)
    assert fingerprints(content) == keys_by_apt(content, gpg_home)
    with contextlib.suppress(Invalid):
        assert OTHER in parse_keys(content).fingerprints


@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
def test_a_file_with_more_than_one_block_is_refused(content: bytes) -> None:
    with pytest.raises(Invalid):
        parse_keys(content)


@given(
    st.lists(st.sampled_from([*SMUGGLED.values(), *ODD.values(), KEY, b"\n", b"\r", b"=", b"-----END\n"]), max_size=3)
)
def test_apt_reads_nothing_else_in_accepted_keys(parts: list[bytes]) -> None:
    content = b"".join(parts)
    try:
        keys = parse_keys(content)
    except Invalid:
        return
    assert dearmored(armored(keys.packets).encode()) == keys.packets
    try:
        assert dearmored(content) == keys.packets
    except Invalid:
        assert b"\r" in content  # where apt finds no empty line


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (packet(1), "packet of type 1"),
        (packet(12), "packet of type 12"),
        (packet(5, b"\x04"), "secret"),
        (packet(7, b"\x04"), "secret"),
        (bytes([0xC0 | 13, 0xE1, 65, 65, 1, 65]), "no length"),
        (bytes([0x83 | 13 << 2, 65]), "no length"),
    ],
    ids=["session key", "trust", "secret key", "secret subkey", "partial", "indeterminate"],
)
def test_packets_that_are_no_part_of_a_key_are_refused(content: bytes, problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        parse_keys(PACKETS + content)


def test_a_key_file_begins_with_a_key() -> None:
    with pytest.raises(Invalid, match="does not begin"):
        parse_keys(packet(13) + PACKETS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no OpenPGP key"),
        (b"<html>", "no OpenPGP key"),
        (dearmored(KEY)[:30], "middle of a packet"),
        (dearmored(KEY) + b"\0", "no packet"),
        (KEY.replace(b"mDME", b"m*ME"), "armor is broken"),
        (bytes([0x80 | 5 << 2, 1, 4]), "secret"),
        (bytes([0x80 | 6 << 2, 1, 3]), "version"),
        (bytes([0x83 | 6 << 2]), "no length"),
        (bytes([0x82 | 6 << 2, 0, 1, 0, 1, 4]) + bytes(1 << 16), "version"),
        (bytes([0x80 | 13 << 2, 1, 65]), "no public key"),
    ],
)
def test_invalid_key_files_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        fingerprints(content)
    with pytest.raises(Invalid):
        parse_keys(content)
