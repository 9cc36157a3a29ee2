# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes, lists of checksums, and names on a terminal."""

from __future__ import annotations

import pytest

from tests.unit.support.storage.dataset_cache_processes import program

# Threads of pytest-xdist wait for messages, and hold no lock that a child could miss.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_names_from_a_source_do_not_reach_the_terminal_raw(place):
    evil = place.data / "evil\x1b]0;title\x07\n"
    evil.mkdir()
    place.get(evil)
    shown = place.run("status").out
    assert "\x1b" not in shown
    assert "evil\\x1b]0;title" in shown
    assert len(shown.splitlines()) == 3


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("800G", 800 << 30),
        ("800GiB", 800 << 30),
        ("800GB", 800 * 10**9),
        ("1.5 k", 1536),
        (7, 7),
        ("0", 0),
        ("50%", 500),
        ("10B", 10),
    ],
)
def test_size_is_read(text, size):
    assert program.read_size(text, 1000) == size


@pytest.mark.parametrize("text", ["", "G", "-1", "1e9", "101%", "1 000", "12X", True, "\u0661"])
def test_invalid_size_is_refused(text):
    with pytest.raises(ValueError, match="not a size"):
        program.read_size(text)


def test_sums_are_read_as_sha256sum_writes_them():
    first, second = "1" * 64, "a" * 64
    text = f"{first}  ./plain\n{second.upper()} *binary\r\n\\{first}  new\\nline\\\\\n# words\n\nSHA256 (tag (ged)) = {second}\n"
    assert program.read_sums(text.encode()) == {
        "plain": first,
        "binary": second,
        "new\nline\\": first,
        "tag (ged)": second,
    }


@pytest.mark.parametrize(
    "line", ["1" * 63 + "  x", "1" * 64 + "  ../x", "1" * 64 + "  /x", "words", f"{'1' * 64}  x\n{'2' * 64}  x"]
)
def test_invalid_list_of_checksums_is_refused(line):
    with pytest.raises(ValueError, match="no line|outside|two sums"):
        program.read_sums(line.encode())


def test_only_a_whole_signed_message_is_taken_apart():
    line = "1" * 64 + "  x\n"
    message = f"-----BEGIN PGP SIGNED MESSAGE-----\r\nHash: SHA256\r\n\r\n{line}-----BEGIN PGP SIGNATURE-----\n\nabc\n"
    assert program.read_sums(message.encode()) == {"x": "1" * 64}
    for text in (
        message.partition("-----BEGIN PGP SIGNATURE")[0],
        f"{line}{message}",
        message.replace("Hash: ", "words "),
    ):
        with pytest.raises(ValueError, match="no line of sha256sum"):
            program.read_sums(text.encode())
