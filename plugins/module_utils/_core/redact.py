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
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        r"(?P<kept>-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----)[\s\S]*?(?=-----END|\Z)",
        # User and password of an address: a password may have / and @. And conda's tokens.
        r"(?P<kept>\w://)(?:[^/\s:]{,500}:\S{,4000}|[^/\s]{1,4000})(?=@)",
        r"(?P<kept>/t/)[^/\s]+(?=/)",
        # user:x@host, not repositories of restic, addresses of mail and digests of images.
        r"(?<![\w/:@.-])(?!(?:sftp|scp|ssh|rclone|mailto|from|to|cc):)(?P<kept>[a-z_][\w.-]{0,60}:)[^\s:@/]{3,200}(?=@(?!sha\d)[a-z0-9])",
        # Headers of HTTP, and signed addresses.
        r"(?P<kept>authorization:\s*(?:\w+\s+)?)[^\s\"']+",
        r"(?P<kept>cookie:[ \t]*)(?=[^\s=;]{1,200}=)[^\n\"']+",
        rf"(?P<kept>\bbearer[ \t]+){_ODD}[^\s\"',;]+",
        r"(?P<kept>[?&](?:sig|[\w-]{0,40}signature|[\w-]{0,40}credential)=)[^\s&\"']+",
        # password=x, SMB_PASSWORD="x y", "token": "x", --password x
        rf"(?P<kept>{_ASSIGNED}[\"']?[ \t]*=[ \t]*){_VALUE}",
        rf"(?P<kept>{_NAME}{_WORDS}[\"']?:[ \t]*)(?![|>][-+\d]*[ \t]*$){_VALUE}",
        rf"(?P<kept>[\"']_?auth[\"']:[ \t]*){_VALUE}",
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
        # Tokens by their beginning.
        r"(?<![\w-])(?P<kept>(?:hf|npm|gh[pousr]|github_pat|dckr_pat)_|(?:nvapi|glpat|pypi|xox[abprs]|sk(?:-proj|-ant)?)-)(?=\S*\d)\w{16,}[\w-]*",
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
