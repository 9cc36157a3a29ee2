# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the role cudnn in a request. Made from its argument spec by `python -m harness pages`."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject


class CudnnRepository(t.TypedDict, total=False):
    url: str | None
    keyring_sha256: JsonObject | None


class CudnnOptions(t.TypedDict):
    state: str
    source: str
    cuda_majors: list[int]
    version: str
    wheels: JsonObject
    index_url: str
    repository: CudnnRepository | None
