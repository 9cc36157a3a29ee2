# SPDX-License-Identifier: GPL-3.0-or-later
"""The readers of the role samba: of what Samba's programs print, and of an smb.conf that somebody else wrote."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.rigwright.workstation.plugins.module_utils._core import lines
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import (
    checks,
    config,
    users,
)

from tests.unit.plugins.module_utils._samba.test_config import REQUEST, SHARE


def ignored(output: str) -> list[str]:
    """Return what Samba ignores of a configuration, from the output of testparm."""
    return config.unknown_parameters(output)


def accounts(output: str) -> dict[str, str]:
    """Return Samba's users and their state, from the output of `pdbedit -L -w`."""
    states = {True: "enabled", False: "disabled"}
    return {name: states[account.enabled] for name, account in users.parse_accounts(output).items()}


def given_up(
    text: str,
    wanted: list[str],
    packaged: str = "",
    usershares: Mapping[str, str] | None = None,
) -> list[str]:
    """Return the shares of an existing smb.conf, and of the desktop, that are gone once the role's own is in place."""
    return config.given_up(text, wanted, packaged, usershares)


def refused_shares(names: list[str]) -> list[str]:
    """Return the names of shares that the role refuses."""
    share = {**SHARE, "path": "/data/sets", "valid_users": ["@people"]}
    problems = {name: list(checks._share_problems(REQUEST, {**share, "name": name})) for name in names}
    return [name for name in names if problems[name]]


def unknown_lines(output: str) -> list[str]:
    """Return the lines of pdbedit of which the role warns that it does not know them."""
    return lines.match_lines(output, users._FORMS).unmatched
