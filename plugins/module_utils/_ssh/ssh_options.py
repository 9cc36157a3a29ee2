# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the role ssh in a request. Made from its argument spec by `python -m harness pages`."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject


class SshAuthorizedKeys(t.TypedDict, total=False):
    user: str
    keys: list[str]


class SshAllowGroups(t.TypedDict, total=False):
    name: str
    members: list[str]


class SshOptions(t.TypedDict):
    state: str
    ports: list[int]
    listen_addresses: list[str]
    passwords: str
    permit_root_login: str
    authorized_keys: list[SshAuthorizedKeys]
    allow_groups: list[SshAllowGroups]
    allow_tcp_forwarding: str
    allow_agent_forwarding: bool
    x11_forwarding: bool
    max_auth_tries: int
    client_alive_interval: int
    client_alive_count_max: int
    log_level: str
    extra_options: JsonObject
    fail2ban: bool
    fail2ban_bantime: str
    fail2ban_findtime: str
    fail2ban_maxretry: int
    fail2ban_ignoreip: list[str]
