# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The types of answers: the memory of a job, a job on a card, ranks, and pairs of jobs."""

from __future__ import annotations

import typing as t


class NeedGib(t.TypedDict):
    """The memory of a job in GiB."""

    total: float
    low: float
    high: float
    tensors: float
    parts: dict[str, float]


class NeedBytes(t.TypedDict):
    """The memory of a job in bytes."""

    total: int
    low: int
    high: int
    parts: dict[str, int]


class CardRow(t.TypedDict):
    """A job on a card."""

    card: str
    fits: str
    memory_gib: float
    max_batch: int
    rate: float
    rate_low: float
    rate_high: float
    unit: str
    step_s: float
    prompt_s: float | None
    joules: float | None
    decides: str
    rates_from: str
    notes: list[str]


class Answer(t.TypedDict):
    """The answer for a job."""

    name: str
    basis: str
    need_gib: NeedGib
    need_bytes: NeedBytes
    notes: list[str]
    cards: list[CardRow]


class Rank(t.TypedDict):
    """A card among those for a mix of jobs."""

    rank: int
    card: str
    fitting: float
    speed: float
    memory_gb: int
    bandwidth_gb_s: float
    tflops: float | None
    power_w: int
    speed_per_kw: float
    price: float | None
    currency: str | None
    speed_per_price: float | None
    decides: str
    missing: list[str]
    reason: str


class Pair(t.TypedDict):
    """Jobs on one card at once."""

    jobs: list[str]
    card: str
    fits: str
    kind: str
    need_gib: dict[str, float]
    slowdown: dict[str, float] | None
    advice: str
    source: str


class Found(t.TypedDict, total=False):
    """The answer to a command line: of one job, or ranks for several."""

    by: str
    ranks: list[Rank]
    jobs: list[Answer]
    together: list[Pair]
