# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Disks, file systems and shared directories."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.run import (
    Storage,
    host_facts,
    outcome,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.verify import Request, findings


def plan(request: dict[str, t.Any], host: Host) -> dict[str, t.Any]:
    # storage_disks takes as there what the plan did.
    return {} if request["state"] == "absent" else {**outcome(Storage(host, request)), "planned": request["planned"]}


def verify(request: dict[str, t.Any], host: Host) -> list[Finding]:
    storage = Storage(host, {**request, "state": "planned", "health": request["smart"]})
    planned = {
        "findings": storage.findings(),
        "container": host_facts(storage.run)["container"],
        "cache_directory": storage.dataset_cache.get("cache", ""),
    }
    return findings(host.run_client, t.cast("Request", {**request, **planned}))
