# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the role xrdp in a request. Made from its argument spec by `python -m harness pages`."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject


class XrdpOptions(t.TypedDict):
    state: str
    backend: str
    desktop: str
    users: list[str]
    allowed_group: str
    networks: list[str]
    port: int
    tls_names: list[str]
    tls_cert: str
    tls_key: str
    tls_cert_content: str
    tls_key_content: str
    machine_user: str
    machine_password: str
    max_sessions: int
    max_login_retry: int
    kill_disconnected: bool
    disconnected_timeout: int
    idle_timeout: int
    clipboard_in: bool
    clipboard_out: bool
    drive_redirection: bool
    sound: bool
    session_env: JsonObject
    polkit_quiet: bool
    fail2ban: bool
    fail2ban_bantime: str
    fail2ban_findtime: str
    fail2ban_maxretry: int
    fail2ban_ignoreip: list[str]
    ini_overrides: JsonObject
    sesman_overrides: JsonObject
    allow_disruption: bool
