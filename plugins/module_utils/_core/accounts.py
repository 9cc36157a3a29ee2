# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Look up users and groups of the host; None where there is none."""

from __future__ import annotations

import grp
import pwd
import typing as t


def user(name: str) -> pwd.struct_passwd | None:
    """Return the entry of a user."""
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def group(name: str) -> grp.struct_group | None:
    """Return the entry of a group."""
    try:
        return grp.getgrnam(name)
    except KeyError:
        return None


def uid_of(name: str) -> int | None:
    """Return the number of a user."""
    entry = user(name)
    return entry.pw_uid if entry else None


def gid_of(name: str) -> int | None:
    """Return the number of a group."""
    entry = group(name)
    return entry.gr_gid if entry else None


def uids_of(names: t.Iterable[str]) -> dict[str, int]:
    """Return the number of each user that exists."""
    return {name: uid for name in names if (uid := uid_of(name)) is not None}


def members_of(name: str) -> list[str]:
    """Return the members that a group lists, sorted; none for a group that does not exist. Primary groups do not count."""
    entry = group(name)
    return sorted(entry.gr_mem) if entry else []
