# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the role nvidia_container_toolkit in a request. Made from its argument spec by `python -m harness pages`."""

from __future__ import annotations

import typing as t


class NvidiaContainerToolkitRepository(t.TypedDict, total=False):
    url: str | None
    key_url: str | None
    fingerprints: list[str] | None


class NvidiaContainerToolkitOptions(t.TypedDict):
    state: str
    version: str
    hold: bool
    repository: NvidiaContainerToolkitRepository
    mode: str
