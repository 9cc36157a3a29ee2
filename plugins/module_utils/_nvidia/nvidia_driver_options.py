# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the role nvidia_driver in a request. Made from its argument spec by `python -m harness pages`."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject


class NvidiaDriverRepository(t.TypedDict, total=False):
    url: str | None
    keyring_sha256: JsonObject | None


class NvidiaDriverOptions(t.TypedDict):
    state: str
    source: str
    branch: str
    modules: str
    scope: str
    gpus: list[str]
    toolkits: list[str]
    lock: bool
    upgrade: bool
    interrupt: bool
    reboot: bool
    ignore_build_failures: bool
    free_bytes: int
    module_options: JsonObject
    mok_password: str
    repository: NvidiaDriverRepository | None
