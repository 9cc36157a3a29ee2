# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The types of a check: the rows of its result, and the state that the next check needs."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.card_facts import Facts

# A value by the name of its counter; None is unknown. `seconds` and `nvlinks_gone` are of the time since the last check.
Rise = dict[str, t.Union[float, list[int], None]]
# The fields of an Xid or SXid that a state keeps. Later versions may have more.
KeptMessage = dict[str, t.Any]


class Absence(t.TypedDict):
    """Why a GPU is missing, in how many boots, and the BAR without addresses."""

    what: str  # kept: a key of the report
    boots: int
    bar: int | None


class Repeat(t.TypedDict):
    """How often an Xid came in a day, and the place on the chip that has most of its lines."""

    code: int
    count: int
    place: str
    at_place: int


class Signs(Facts, total=False):
    """The facts of a card, and what a check adds. A GPU that NVML does not show has no facts but its names."""

    # False where NVML should show the GPU; None where that is not known; missing where NVML shows it.
    shown_by_nvml: bool | None
    absent: str
    bar: int | None
    since_last_check: Rise | None
    returned_xids: list[int]
    absence: Absence | None
    repeated_xids: list[Repeat]
    double_bit_pages_in_a_week: int | None
    expected_nvlinks: int | None
    uptime_s: float | None


class ReasonRow(t.TypedDict):
    """A reason for a verdict."""

    what: str  # kept: a key of the report
    evidence: str
    source: str
    verdict: str
    next_step: str


class XidRow(t.TypedDict):
    """An Xid of a GPU. `over` says why it no longer counts."""

    code: int
    pci_address: str
    time: float | None
    pid: int | None
    process: str | None
    gpu_instance: int | None
    text: str
    name: str
    subsystem: str
    action: str
    verdict: str
    over: t.NotRequired[str]


class Verdict(t.TypedDict):
    """The verdict on a GPU, and its reasons."""

    verdict: str
    reasons: list[ReasonRow]


class GpuRow(Verdict):
    """A GPU. `card` has the facts of gpu_info, where NVML shows it."""

    index: int | None
    uuid: str | None
    pci_address: str | None
    name: str | None
    xids: list[XidRow]
    xids_over: list[XidRow]
    since_last_check: Rise | None
    card: t.Mapping[str, object]


class SwitchRow(Verdict):
    """An NVSwitch with SXids."""

    name: str
    pci_address: str


class Result(Verdict):
    """The result of a check."""

    gpus: list[GpuRow]
    nvswitches: list[SwitchRow]
    expected_count: int | None
    unread: list[str]
    time: float
    since: float | None


class FullReport(Result):
    """The report of the unit."""

    findings: list[dict[str, str]]


class GpuState(t.TypedDict, total=False):
    """A GPU at the last check. Earlier versions lack the last five."""

    uuid: str | None
    name: str | None
    counters: dict[str, float | None]
    links: list[int]
    recovery_action: str | None
    recovered_at: float | None
    boots: dict[str, dict[str, float]]
    seen: bool  # kept: a key of the state
    absent_in: dict[str, float]
    events: dict[str, list[list[t.Any]]]
    pages: list[list[float]]
    xids: list[KeptMessage]


class State(t.TypedDict, total=False):
    """The state of the last check; empty without one."""

    version: int
    time: float
    read_at: float | None
    boot: str
    booted: float
    gpus: dict[str, GpuState]
    sxids: list[KeptMessage]
    unsupported: list[str]
    no_room: dict[str, int]
