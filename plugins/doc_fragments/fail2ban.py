# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options of the plan modules of roles with a jail of fail2ban; module_utils/_system/fail2ban.py has the argument spec."""

    DOCUMENTATION = r"""
options:
  fail2ban_bantime:
    description: Time of a ban, checked for the format of fail2ban.
    type: str
    default: 1h
  fail2ban_findtime:
    description: Time in which failures count together, checked for the format of fail2ban.
    type: str
    default: 10m
  fail2ban_maxretry:
    description: Number of failures before a ban, at least 1.
    type: int
    default: 5
  fail2ban_ignoreip:
    description: Addresses, networks and host names that fail2ban never bans.
    type: list
    elements: str
    default: []
"""
