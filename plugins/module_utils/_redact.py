# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Leave secrets out of texts that others wrote: files of the host, the journal, messages of programs."""

from __future__ import annotations

import re
import typing as t

HIDDEN = "***"
_PATTERNS: tuple[tuple[str, str], ...] = (
    # User and password of an address, and conda's tokens.
    (r"(\w://)[^/@\s]+@", rf"\1{HIDDEN}@"),
    (r"(/t/)[^/\s]+(?=/)", rf"\1{HIDDEN}"),
    # Headers of HTTP.
    (r"(?i)(authorization:\s*(?:\w+\s+)?)[^\s\"']+", rf"\1{HIDDEN}"),
    # password=x, SMB_PASSWORD="x", "token": "x"
    (
        r"(?i)((?:pass(?:word|wd|phrase)?2?|secret|token|(?:api|secret|access|private)?[_-]?key)[\"']?\s?=\s?[\"']?)[^,;\s\"']+",
        rf"\1{HIDDEN}",
    ),
    (r"(?i)(?<!/)((?:password|passwd|passphrase|secret|token|api[_-]?key)[\"']?: ?[\"']?)[^,;\s\"']+", rf"\1{HIDDEN}"),
)


def without_secrets(text: str, secrets: t.Iterable[str] = ()) -> str:
    """Mask what looks like a secret, and the given *secrets*, the longest first."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    for pattern, shown in _PATTERNS:
        text = re.sub(pattern, shown, text)
    return text
