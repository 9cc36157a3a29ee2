# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parse the list of shared GPUs: its parts for modes, MIG and MPS, and findings about choices that do not fit the users. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, Problem
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.files import Declared
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode.plan import SETTINGS
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.request import DaemonRequest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, find_card
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

ALL = "all"
ONE, TEAM, UNTRUSTED = "one", "team", "untrusted"
SMALL, SATURATING, MIXED = "small", "saturating", "mixed"
MIG, MPS, TIME_SLICING, EXCLUSIVE = "mig", "mps", "time_slicing", "exclusive"
# MPS before Volta has no limits and no address spaces of its own (NVIDIA, Multi-Process Service, "Volta MPS").
_VOLTA = (7, 0)
_TOGETHER = ("mig", "mps", "users", "jobs", "compute_mode")

# The parameters of gpu_mig, see _gpu.mig.options.
MigEntry = dict[str, t.Any]


class Entry(t.TypedDict, total=False):
    """The settings of a card, or of all, as the user declares them. Those of gpu_mode follow `jobs`."""

    device: str
    mig: MigEntry | None
    mps: list[DaemonRequest] | None
    users: str | None
    jobs: str | None
    compute_mode: str | None


class ModesPart(t.TypedDict):
    """The rows for gpu_mode, and whether it changes something."""

    changed: bool
    gpus: list[Declared]


class MpsPart(t.TypedDict):
    """The daemons for gpu_mps, and whether it changes something."""

    changed: bool
    daemons: list[DaemonRequest]
    hard_limits: list[dict[str, str]]


class Plan(t.TypedDict):
    """The plan of the role. What ends in `_due` says which tasks would change something."""

    requirements: list[Problem]
    known: bool  # kept: a key of the plan
    apply_due: bool
    modes: ModesPart
    mig: list[MigEntry]
    mps: MpsPart
    needs: str
    pending: list[str]
    findings: list[Finding]
    directories: t.NotRequired[list[dict[str, str]]]
    environment_due: t.NotRequired[bool]
    record_due: t.NotRequired[bool]
    files_before: t.NotRequired[list[dict[str, str]]]
    files: t.NotRequired[list[dict[str, str]]]


@dataclasses.dataclass(frozen=True)
class Gpu:
    """A card, with the abilities that matter for sharing."""

    card: Card
    has_mig: bool
    capability: tuple[int, int] | None


@dataclasses.dataclass
class Request:
    """The list, split by module. ``by_card``: the settings of each card, by its UUID."""

    by_card: dict[str, Entry]
    modes: list[Declared]
    mig: list[MigEntry]
    daemons: list[DaemonRequest]


def read(rows: t.Sequence[Entry], cards: t.Sequence[Card]) -> Request:
    """Parse the rows of the user.

    :raises Refusal: a row names no card, or daemons contradict each other; the text has all reasons.
    """
    problems: list[str] = []
    by_card = _by_card(rows, cards, problems)
    for uuid, entry in by_card.items():
        if entry.get("mps") and (entry.get("mig") or {}).get("mode") == "enabled":
            problems.append(
                f"`gpu_sharing_gpus`: {uuid} is to have MIG, and daemons of MPS for the whole card: leave one of them out"
                " (for a daemon on one instance, write a task with gpu_mps that names the instance)"
            )
    request = Request(by_card, _modes(rows), _mig(by_card), _daemons(by_card, problems))
    if problems:
        raise Refusal("; ".join(problems))
    return request


def _by_card(rows: t.Sequence[Entry], cards: t.Sequence[Card], problems: list[str]) -> dict[str, Entry]:
    """Return the settings by card: those for one card win over those for all."""
    found: dict[str, Entry] = {}
    for row in sorted(rows, key=lambda row: row["device"] != ALL):
        try:
            meant = cards if row["device"] == ALL else [find_card(cards, row["device"])]
        except Refusal as refusal:
            problems.append(f"`gpu_sharing_gpus`: {refusal}")
            continue
        given = {key: row.get(key) for key in _TOGETHER if row.get(key) is not None}
        for card in meant:
            found[card.uuid] = t.cast("Entry", {**found.get(card.uuid, {}), **given})
    return found


def _modes(rows: t.Sequence[Entry]) -> list[Declared]:
    stated = [{key: row.get(key) for key in ("device", *SETTINGS) if row.get(key) is not None} for row in rows]
    return [row for row in stated if len(row) > 1]


def _mig(by_card: dict[str, Entry]) -> list[MigEntry]:
    """Return one request for all cards with the same settings."""
    requests: list[MigEntry] = []
    for uuid, entry in by_card.items():
        wanted = {key: value for key, value in (entry.get("mig") or {}).items() if value is not None}
        if not wanted:
            continue
        same = next((row for row in requests if {**row, "devices": None} == {**wanted, "devices": None}), None)
        if same:
            same["devices"].append(uuid)
        else:
            requests.append({**wanted, "devices": [uuid]})
    return requests


def _daemons(by_card: dict[str, Entry], problems: list[str]) -> list[DaemonRequest]:
    """Merge a daemon that several cards name into one."""
    daemons: dict[str, DaemonRequest] = {}
    for uuid, entry in by_card.items():
        for daemon in entry.get("mps") or []:
            merged = daemons.setdefault(daemon["name"], {**daemon, "devices": []})
            merged["devices"] = [*(merged["devices"] or []), uuid]
            if {**merged, "devices": None} != {**daemon, "devices": None}:
                problems.append(
                    f"`gpu_sharing_gpus`: the daemon {daemon['name']} is declared in two ways: give all cards of a daemon the same"
                )
    return list(daemons.values())


# Advice


def mode_of(entry: Entry) -> str:
    if (entry.get("mig") or {}).get("mode") == "enabled":
        return MIG
    if entry.get("mps"):
        return MPS
    return EXCLUSIVE if entry.get("compute_mode") == "exclusive_process" else TIME_SLICING


# Measured on an H200 (driver 580.159.04) with two ResNet-50 of batch 32 at once: each takes 2.19 times its time with time slices, and
# 1.60 times with MPS. One after the other would be 2.
def advise(gpu: Gpu, entry: Entry) -> list[tuple[str, str]]:
    """Return the problems of the choice for the users of the card, each with an alternative; none if `users` and `jobs` are unknown."""
    mode, users, jobs = mode_of(entry), entry.get("users"), entry.get("jobs")
    found = []
    if users == UNTRUSTED and mode == MPS:
        found.append(
            (
                "MPS does not isolate users: a fault of one ends the jobs of all on the card, and memory limits are soft",
                _for_untrusted(gpu),
            )
        )
    if users == UNTRUSTED and mode == TIME_SLICING:
        fitting = (
            "divide it with `mig`"
            if gpu.has_mig
            else "limit processors and memory of each user by control groups, and watch its memory"
        )
        found.append(("time slices limit no memory: one user can take all of it", fitting))
    if users in (ONE, TEAM) and jobs == SMALL and mode == TIME_SLICING and _has_mps(gpu):
        found.append(
            (
                "time slices run one small job at a time (measured on an H200: 2.19 times the time of each, with MPS 1.60)",
                "give the team a daemon under `mps`",
            )
        )
    if jobs == SATURATING and mode in (MPS, TIME_SLICING):
        found.append(
            (
                "jobs that each fill the card gain nothing from sharing it",
                "queue them, with `compute_mode: exclusive_process`",
            )
        )
    if jobs == MIXED and mode == MPS and any(not _is_limited(daemon) for daemon in entry["mps"] or []):
        found.append(
            (
                "a large job crowds small ones out of an MPS daemon without limits",
                "set `active_thread_percentage` and `memory_limits`, and give each team a daemon of its own",
            )
        )
    if mode == MPS and not _has_mps(gpu):
        found.append(("MPS before Volta has neither limits nor protection of memory", "leave `mps` out for this card"))
    if mode == MPS and users == UNTRUSTED and any(daemon.get("multiuser") for daemon in entry["mps"] or []):
        found.append(
            (
                "`multiuser` puts all users into one server, which does not isolate them",
                "give each team a daemon of its own",
            )
        )
    return found


def _for_untrusted(gpu: Gpu) -> str:
    return (
        "divide the card with `mig`"
        if gpu.has_mig
        else "share it by time slices, and limit each user by control groups"
    )


def _has_mps(gpu: Gpu) -> bool:
    return gpu.capability is None or gpu.capability >= _VOLTA


def _is_limited(daemon: DaemonRequest) -> bool:
    return bool(daemon.get("active_thread_percentage") or daemon.get("partitions")) and bool(
        daemon.get("memory_limits")
    )


def findings(gpus: t.Sequence[Gpu], by_card: t.Mapping[str, Entry]) -> list[Finding]:
    """Return a finding for each card of the list."""
    found: list[Finding] = []
    for gpu in gpus:
        entry = by_card.get(gpu.card.uuid)
        if entry is None:
            continue
        problems = advise(gpu, entry)
        who = " and ".join(filter(None, [entry.get("users"), entry.get("jobs") and f"{entry['jobs']} jobs"]))
        found.append(
            {
                "id": f"gpu_sharing.gpu{gpu.card.index}",
                "status": "warn" if problems else "pass",
                "evidence": f"{gpu.card.name} at {gpu.card.pci_address}: {mode_of(entry).replace('_', ' ')}"
                + (f" for {who}" if who else "")
                + "".join(f"; {problem}" for problem, _fitting in problems),
                "remedy": "; ".join(fitting for _problem, fitting in problems),
            }
        )
    return found
