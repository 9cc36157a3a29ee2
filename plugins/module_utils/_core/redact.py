# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mask secrets in texts from other sources: files of the host, the journal, messages of programs."""

from __future__ import annotations

import re
import typing as t

HIDDEN = "***"
_KEY = r"(?:api|access|account|private|secret)[_-]?key"
_WORDS = rf"(?:pass(?:word|wd|phrase)|pwd|secret|token|{_KEY})"
_ASSIGNED = r"(?:pass(?:word|wd|phrase)?2?|pwd|secret|token|[_-]?key|(?<![a-z])(?:auth|pat|psk))"
# In quotes with all its blanks, or up to the next one.
_VALUE = r"""(?:(?P<quote>["'])(?:\\.|(?!(?P=quote))[^\\\n])*(?:(?P=quote)|\\?$)|[^,;\s"']+)"""
# Letters and digits, as messages about passwords do not go on.
_ODD = r"(?![\[(/<{$%-])(?=[^\s\d]*\d)(?=[^\sa-z]*[a-z])"
# A name that is no path, as in `/etc/token: no such file`.
_NAME = r"(?<![\w./-])[\w.-]*"
_UP_TO = r"(?:[^\n|;&]{0,400}?[ \t])?"


def _compiled(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.IGNORECASE | re.MULTILINE) for pattern in patterns)


# What a sentence does not have, unlike `without a password: alice`.
_CERTAIN = _compiled(
    # User and password of an address: a password may have / and @.
    r"(?P<kept>\w://)(?:[^/\s:]{,500}:\S{,4000}|[^/\s]{1,4000})(?=@)",
    # Headers of HTTP, and signed addresses.
    r"(?P<kept>authorization:\s*(?:\w+\s+)?)[^\s\"']+",
    r"(?P<kept>cookie:[ \t]*)(?=[^\s=;]{1,200}=)[^\n\"']+",
    rf"(?P<kept>\bbearer[ \t]+){_ODD}[^\s\"',;]+",
    r"(?P<kept>[?&](?:sig|[\w-]{0,40}signature|[\w-]{0,40}credential)=)[^\s&\"']+",
    # Assigned, in quotes too.
    rf"(?P<kept>{_ASSIGNED}[\"']?[ \t]*=[ \t]*){_VALUE}",
    rf"(?P<kept>[\"']_?auth[\"']:[ \t]*){_VALUE}",
    # Tokens by their beginning.
    r"(?<![\w-])(?P<kept>(?:hf|npm|gh[pousr]|github_pat|dckr_pat)_|(?:nvapi|glpat|pypi|xox[abprs]|sk(?:-proj|-ant)?)-)(?=\S*\d)\w{16,}[\w-]*",
    # Tokens of conda.
    r"(?P<kept>\w://\S{,400}/t/)[^/\s]+(?=/)",
)
_PATTERNS = _CERTAIN + _compiled(
    r"(?P<kept>-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----)[\s\S]*?(?=-----END|\Z)",
    r"(?P<kept>/t/)[^/\s]+(?=/)",
    # user:x@host, not repositories of restic, addresses of mail and digests of images.
    r"(?<![\w/:@.-])(?!(?:sftp|scp|ssh|rclone|mailto|from|to|cc):)(?P<kept>[a-z_][\w.-]{0,60}:)[^\s:@/]{3,200}(?=@(?!sha\d)[a-z0-9])",
    # password: x, "token": "x", --password x
    rf"(?P<kept>{_NAME}{_WORDS}[\"']?:[ \t]*)(?![|>][-+\d]*[ \t]*$){_VALUE}",
    rf"(?<![\w-])(?P<kept>--(?:[\w-]*{_WORDS}|(?:[\w-]*-)?pass)[ \t]+)(?!-){_VALUE}",
    # The value in the next line, further in; not a key of YAML.
    rf"(?P<kept>{_NAME}{_WORDS}[\"']?:[ \t]*(?:[|>][-+\d]*[ \t]*)?\n[ \t]+)(?![^\n]*:(?:[ \t]|$))\S[^\n]*",
    # password x, `requirepass x`
    rf"(?P<kept>(?:{_WORDS}|requirepass|masterauth)[ \t]+(?:(?:is|was)[ \t]+)?){_ODD}{_VALUE}",
    # Options of programs that take a password, of which others mean a port or a directory.
    rf"(?P<kept>\b(?:mysql|mariadb)[\w-]*[ \t]{_UP_TO}-p)(?=\S){_VALUE}",
    rf"(?P<kept>\bsshpass[ \t]+-p[ \t]*){_VALUE}",
    rf"(?P<kept>\bcurl[ \t]{_UP_TO}(?:-u|--user|--proxy-user)[ \t=]*[\"']?[^\s:\"']+:)[^\s\"']+",
    rf"(?P<kept>\bsmb\w+[ \t]{_UP_TO}-U[ \t]*[\"']?[^\s%\"']+%)[^\s\"']+",
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


def without_credentials(text: str) -> str:
    """Mask secrets in a sentence that names values of other files: only what nothing else looks like."""
    for pattern in _CERTAIN:
        text = pattern.sub(_shown, text)
    return text
