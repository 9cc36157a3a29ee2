# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The types of a measurement: its request, samples and figures, the reports, and the baseline."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.card_facts import Facts

# A line of the measuring program; _gpu.accept.program has the keys of each kind.
Event = dict[str, t.Any]


class Request(t.TypedDict):
    """The request of a card, as the measuring program takes it."""

    warm_up_s: float
    window_s: float
    windows: int
    burn_in_s: float
    memory_share: float
    seed: int
    dtypes: t.NotRequired[list[str]]


class Command(Request, total=False):
    """The request, with a step that the module asks for."""

    do: str
    rank: int
    world: int
    limit_s: float
    store: str


class CardFacts(Facts):
    """The facts of a card before or after its measurement."""

    driver: str


class Sample(t.TypedDict):
    """The clocks, power, temperature and link of a card at a time."""

    at: float
    clock_mhz: int | None
    memory_clock_mhz: int | None
    power_w: float | None
    temperature_c: int | None
    reasons: list[str] | None
    pcie_generation: int | None
    pcie_width: int | None


class Figures(t.TypedDict):
    """The figures of a test. With all GPUs loaded it has the rate alone, too, and its share of that."""

    unit: str
    values: list[float]
    value: float
    wrong: int
    clock_mhz: float | None
    memory_clock_mhz: float | None
    power_w: float | None
    temperature_c: float | None
    thermal_share: float | None
    power_brake_share: float | None
    hw_slowdown_share: float | None
    low_clock_share: float | None
    reasons: list[str]
    samples: int
    pcie_generation: int | None
    pcie_width: int | None
    ceiling: float | None
    efficiency: float | None
    alone: t.NotRequired[float | None]
    share: t.NotRequired[float | None]


class Problem(t.TypedDict):
    """A reason for a verdict."""

    verdict: str
    test: str
    evidence: str
    next_step: str


class FleetProblem(Problem):
    """A reason for a verdict, with the host and the card."""

    host: str
    uuid: str | None


class MemoryTest(t.TypedDict):
    """The test of a card's memory; `first` is the first wrong word."""

    free_bytes: int
    total_bytes: int
    tested_bytes: int
    patterns: list[str]
    wrong: int
    first: dict[str, object] | None
    share: float | None
    seconds: float
    gb_s: float


class Names(t.TypedDict):
    """The names of a card."""

    index: int | None
    uuid: str | None
    name: str | None
    pci_address: str | None


class Report(Names):
    """The report of a card."""

    driver: str | None
    torch: str | None
    side: int | None
    power_limit_w: float | None
    warm_up_s: float | None
    window_s: float | None
    tests: dict[str, Figures]
    checksums: dict[str, str]
    burn_in_windows: int
    memory_test: MemoryTest | None
    together: dict[str, Figures]
    problems: list[Problem]
    notes: list[str]
    verdict: str


class FleetReport(Report):
    """The report of a card, with its host."""

    host: str


class Pair(t.TypedDict):
    """A copy from one card to another."""

    gpus: list[int]
    link: str
    peer_access: bool
    gb_s: float
    latency_us: float
    ceiling: float | None
    efficiency: float | None
    wrong: int


class AllReduce(t.TypedDict):
    """NCCL's sum over all cards."""

    gb_s: float
    ceiling: float | None
    efficiency: float | None
    bytes: int
    nccl: str
    ranks: int
    wrong: int


class Links(t.TypedDict):
    """The report of the links between cards."""

    pairs: list[Pair]
    all_reduce: AllReduce | None
    problems: list[Problem]
    skipped: dict[str, str]
    verdict: str
