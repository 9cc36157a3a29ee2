# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the role docker in a request. Made from its argument spec by `python -m harness pages`."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject


class DockerRepository(t.TypedDict, total=False):
    url: str | None
    key_url: str | None
    fingerprints: list[str] | None
    suite: str | None


class DockerAddressPools(t.TypedDict, total=False):
    base: str
    size: int


class DockerOptions(t.TypedDict):
    state: str
    edition: str
    version: str
    hold: bool
    repository: DockerRepository
    users: list[str]
    rootless_users: list[str]
    data_root: str
    containerd_root: str
    free_bytes: int
    log_driver: str
    log_max_size: str
    log_max_files: int
    live_restore: bool
    bind_ip: str
    address_pools: list[DockerAddressPools]
    registry_mirrors: list[str]
    shm_size: str
    daemon_options: JsonObject
    allow_disruption: bool
