# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Text that people read and write: names, messages, sizes and lists of checksums."""

from __future__ import annotations

import contextlib
import os
import re
import sys


def shown(text: str) -> str:
    """Return a name that a terminal can show: without control characters and bytes that are not UTF-8."""
    try:
        printable = os.fsencode(text).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        printable = text  # from JSON: no name that a file can have
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in printable)


def is_name(text: str) -> bool:
    """Return whether the path of a file can contain the text."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"dataset-cache: {text}\n")
        sys.stderr.flush()


def format_size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"


def read_size(text: str | int, whole: int = 0) -> int:
    """Return the bytes of a number, ``800G`` (1024), ``800GB`` (1000) or ``80%`` of *whole*.

    :raises ValueError: it is none of these.
    """
    if isinstance(text, bool):
        raise ValueError("is not a size")
    if isinstance(text, int):
        text = str(text)
    match = re.fullmatch(r"\s*(\d{1,18}(?:\.\d{1,9})?)\s*(?:(%)|([KMGTPkmgtp]?)(iB|B)?)\s*", text, re.ASCII)
    if not match or (match[2] and float(match[1]) > 100):
        raise ValueError(f"is not a size such as 800G, 800GB or 80%: {shown(text)}")
    if match[2]:
        return int(whole * float(match[1]) / 100)
    base = 1000 if match[4] == "B" else 1024
    scale = base ** " KMGTP".index((match[3] or " ").upper())
    return int(match[1]) * scale if match[1].isdigit() else int(float(match[1]) * scale)


# The armor of a message in clear text: RFC 9580, 7. The signature is not checked here: the user has the list from somewhere they trust.
_SIGNED = re.compile(
    rb"\s*-----BEGIN PGP SIGNED MESSAGE-----\n(?:Hash: [^\n]*\n)*\n(.*\n)-----BEGIN PGP SIGNATURE-----\n.*", re.DOTALL
)


def read_sums(text: bytes) -> dict[str, str]:
    """Return SHA-256 by name, from lines of sha256sum, with or without --tag, and of ``openssl dgst``; they may be in a signed message.

    :raises ValueError: a line is none, or names what is outside.
    """
    found: dict[str, str] = {}
    signed = _SIGNED.fullmatch(text.replace(b"\r\n", b"\n"))
    for line in (signed[1] if signed else text).decode("utf-8", "surrogateescape").split("\n"):
        line = line.rstrip("\r")
        if not line.strip() or line.startswith("#"):
            continue
        # Some lists have one space only, which sha256sum takes as well.
        match = re.fullmatch(r"(\\?)([0-9a-fA-F]{64}) [ *]?(.+)", line) or re.fullmatch(
            r"(\\?)SHA256 ?\((?P<name>.+)\) ?= (?P<sum>[0-9a-fA-F]{64})", line
        )
        if not match:
            raise ValueError(f"no line of sha256sum: {shown(line[:100])}")
        tagged = match.re.groupindex
        name, digest = (match["name"], match["sum"]) if tagged else (match[3], match[2])
        if match[1]:
            name = re.sub(r"\\([\\nr])", lambda found: {"n": "\n", "r": "\r"}.get(found[1], "\\"), name)
        name = os.path.normpath(name)
        if name.startswith(("/", "../")) or name == "..":
            raise ValueError(f"names a file outside: {shown(name)}")
        if found.setdefault(name, digest.lower()) != digest.lower():
            raise ValueError(f"two sums for {shown(name)}")
    return found
