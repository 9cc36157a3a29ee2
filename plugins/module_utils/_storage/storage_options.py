# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the role storage in a request. Made from its argument spec by `python -m harness pages`."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject


class StorageOptions(t.TypedDict):
    state: str
    disks: list[JsonObject]
    confirm_wipe: list[str]
    directories: list[JsonObject]
    users: list[str]
    environment: JsonObject
    cache: JsonObject
    trim: bool
    smart: bool
