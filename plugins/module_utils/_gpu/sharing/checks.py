# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check the request of gpu_sharing without its cards. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing.request import Entry


def problems(gpus: t.Sequence[Entry], limits: t.Sequence[t.Mapping[str, str]]) -> list[Problem]:
    """Return the problems of the list of cards, and of the limits that the kernel enforces."""
    daemons = [daemon for row in gpus for daemon in row.get("mps") or []]
    found = []
    if not gpus:
        found.append(
            problem(
                "gpu_sharing_gpus",
                "is empty",
                "name the cards, as [{device: all, users: team}], or set gpu_sharing_state to absent",
            )
        )
    if any("name" not in daemon for daemon in daemons):
        found.append(problem("gpu_sharing_gpus", "has a daemon without a name", "give each daemon under `mps` a name"))
    if any("devices" in daemon for daemon in daemons):
        found.append(
            problem(
                "gpu_sharing_gpus",
                "has a daemon with devices of its own",
                "leave `devices` out: a daemon serves the cards whose entries have it",
            )
        )
    if any(not {"slice", "device", "hard"} <= limit.keys() for limit in limits):
        found.append(
            problem(
                "gpu_sharing_limits",
                "has a limit without slice, device or hard",
                "state all three, as {slice: user-1001.slice, device: GPU-..., hard: 20G}",
            )
        )
    return found
