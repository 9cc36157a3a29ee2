# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the role cuda in a request. Made from its argument spec by `python -m harness pages`."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject


class CudaRepository(t.TypedDict, total=False):
    url: str | None
    keyring_sha256: JsonObject | None


class CudaOptions(t.TypedDict):
    state: str
    source: str
    toolkits: list[str]
    default: str
    driver_branch: str
    free_bytes: int
    repository: CudaRepository | None
