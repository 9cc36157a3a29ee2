# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of users and groups: the one pattern for those that exist, and the one for those that a role creates."""

from __future__ import annotations

import re

from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts

# What a name service may have: alice@corp.example.org and CORP\alice of SSSD and winbind, capitals of NIS, numbers of a university.
# Not what ends a field of /etc/passwd, a word of a configuration, or a path: blanks, colons, commas, slashes, a dash in front.
EXISTING = re.compile(r"\w[\w.@\\+-]*\$?")
# What Debian's useradd takes on every release, dots among it, within the 32 characters that utmp holds.
NEW = re.compile(r"[a-z_][a-z0-9_.-]{0,31}")
NAME_REMEDY = "write the name as `getent passwd` or `getent group` shows it, without blanks"


def is_name(text: str) -> bool:
    """Return whether a text can be the name of a user or group that exists."""
    return bool(EXISTING.fullmatch(text))


def is_new_name(text: str) -> bool:
    """Return whether a role can create a user or group of this name."""
    return bool(NEW.fullmatch(text))


def is_group_name(text: str) -> bool:
    """Return whether a name is that of a group which exists, or one for a group that a role can create."""
    return is_new_name(text) or (is_name(text) and accounts.group(text) is not None)
