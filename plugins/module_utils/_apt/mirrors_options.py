# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the role mirrors in a request. Made from its argument spec by `python -m harness pages`."""

from __future__ import annotations

import typing as t


class MirrorsOptions(t.TypedDict):
    state: str
    profile: str
    apt_urls: list[str]
    security: bool
    pip_url: str
    uv_url: str
    conda_url: str
    hf_endpoint: str
    docker_registries: list[str]
    check: bool
    recheck: bool
    max_age_days: int
    timeout: int
