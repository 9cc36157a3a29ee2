# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The types of a sample: its GPUs and their processes, as the child sends them and the snapshot has them."""

from __future__ import annotations

import typing as t


class Process(t.TypedDict):
    """A process that holds memory of a GPU. The sampler adds the last two values."""

    pid: int
    memory_mib: int
    # A desktop, a viewer, or a program that computes and draws: it waits for its user.
    graphics: bool
    user: str
    kind: str
    name: str
    uid: int
    # Messages are for the owner: root in a container with a label is not.
    owner_uid: int | None
    command: str
    ended: bool
    start: float | None
    started: float
    share_percent: int | None
    held_s: t.NotRequired[float]
    idle_s: t.NotRequired[int]


class Gpu(t.TypedDict):
    """A GPU. The sampler adds the energy of the interval."""

    index: int
    uuid: str
    name: str
    memory_total_mib: int
    memory_used_mib: int
    utilization_percent: int | None
    temperature_c: int | None
    power_w: float | None
    power_limit_w: float | None
    energy_j: float | None
    processes: list[Process]
    joules: t.NotRequired[float]


class Sample(t.TypedDict):
    """An answer of the child."""

    driver: str
    problem: str
    gpus: list[Gpu]


class Snapshot(t.TypedDict):
    """What `gpu-who` reads of a sample."""

    time: float
    problem: str
    gpus: list[Gpu]
