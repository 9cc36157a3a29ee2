# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mask secrets in texts from other sources: files of the host, the journal, messages of programs."""

from __future__ import annotations

import re
import typing as t

HIDDEN = "***"
_WORDS = r"(?:pass(?:word|wd|phrase)|pwd|secret|token|api[_-]?key)"
_ASSIGNED = r"(?:pass(?:word|wd|phrase)?2?|pwd|secret|token|(?:api|secret|access|private)?[_-]?key)"
# In quotes with all its blanks, or up to the next one.
_VALUE = r"""(?:(?P<quote>["'])(?:\\.|(?!(?P=quote))[^\\\n])*(?:(?P=quote)|\\?$)|[^,;\s"']+)"""
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        # User and password of an address: a password may have / and @. And conda's tokens.
        r"(?P<kept>\w://)(?:[^/\s:]{,500}:\S{,4000}|[^/\s]{1,4000})(?=@)",
        r"(?P<kept>/t/)[^/\s]+(?=/)",
        # Headers of HTTP.
        r"(?P<kept>authorization:\s*(?:\w+\s+)?)[^\s\"']+",
        # password=x, SMB_PASSWORD="x y", "token": "x", --password x
        rf"(?P<kept>{_ASSIGNED}[\"']?[ \t]*=[ \t]*){_VALUE}",
        rf"(?<!/)(?P<kept>{_WORDS}[\"']?:[ \t]*){_VALUE}",
        rf"(?<![\w-])(?P<kept>--[\w-]*{_WORDS}[ \t]+)(?!-){_VALUE}",
    )
)


def _shown(found: re.Match[str]) -> str:
    quote = found.groupdict().get("quote") or ""
    return f"{found['kept']}{quote}{HIDDEN}{quote}"


def without_secrets(text: str, secrets: t.Iterable[str] = ()) -> str:
    """Mask what looks like a secret, and the given *secrets*, the longest first."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    for pattern in _PATTERNS:
        text = pattern.sub(_shown, text)
    return text
