# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan modes of GPUs: the values of a request for a card, its problems, and the changes to write. Pure."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.files import Declared

# Settings in the order of their writes. Without persistence the driver forgets the others when the last program closes the GPU.
# So persistence is written first when it is turned on, and last when it is turned off.
SETTINGS = (
    "persistence",
    "compute_mode",
    "power_limit",
    "locked_gpu_clocks",
    "locked_memory_clocks",
    "accounting",
    "ecc",
    "time_slice",
)
COMPUTE_MODES = {"default": 0, "prohibited": 2, "exclusive_process": 3}
# nvidia-smi compute-policy --help of driver 580.
TIME_SLICES = {"default": 0, "short": 1, "medium": 2, "long": 3}
UNLOCKED = "unlocked"
# Clocks of a run that was killed while it wrote them. No request has this value, so every request is written.
UNKNOWN = "unknown"
# The driver's defaults, which need no declaration for boots. Persistence at boot depends on nvidia-persistenced, so it is
# always declared.
AT_BOOT: dict[str, object] = {
    "compute_mode": "default",
    "power_limit": "default",
    "locked_gpu_clocks": UNLOCKED,
    "locked_memory_clocks": UNLOCKED,
    "accounting": False,
    "time_slice": "default",
}
# Kept by the card itself, in the InfoROM.
KEPT_BY_CARD = frozenset({"ecc"})
# Worst last.
NEEDS = ("none", "driver_reload", "gpu_reset", "reboot")

_POWER = re.compile(r"(\d+(?:\.\d+)?)\s*(W|%|)", re.IGNORECASE)
_CLOCKS = ("locked_gpu_clocks", "locked_memory_clocks")
_WORDS = {
    "persistence": "persistence mode",
    "compute_mode": "compute modes",
    "power_limit": "power limit to set",
    "locked_gpu_clocks": "clocks of the GPU to lock, which begin with Volta",
    "locked_memory_clocks": "memory clocks to lock",
    "accounting": "accounting",
    "ecc": "ECC to switch",
    "time_slice": "time slices to set",
}

Wanted = Declared


@dataclasses.dataclass(frozen=True)
class State:
    """The state of a card. A setting that it does not support is None.

    Power is in milliwatts, as NVML has it. *ecc* is the mode after the next reset, *ecc_current* the mode until then. Locked
    clocks are those written since the driver was loaded: NVML does not report them.
    """

    uuid: str
    name: str
    index: int
    pci_address: str = ""
    persistence: bool | None = None
    compute_mode: str | None = None
    power_limit: int | None = None
    power_default: int | None = None
    power_range: tuple[int, int] | None = None
    power_enforced: int | None = None
    gpu_clocks: tuple[int, int] | None = None
    memory_clocks: tuple[int, int] | None = None
    locked_gpu_clocks: t.Any = None
    locked_memory_clocks: t.Any = None
    accounting: bool | None = None
    ecc: bool | None = None
    ecc_current: bool | None = None
    mig: bool = False
    display: bool = False
    time_slice: str | None = None

    @property
    def label(self) -> str:
        return f"{self.name} ({self.uuid})"


@dataclasses.dataclass(frozen=True)
class Change:
    setting: str
    before: t.Any
    after: t.Any


@dataclasses.dataclass
class Plan:
    """The changes of one card, or in ``problems`` the reasons against them."""

    state: State
    wanted: Wanted
    changes: list[Change] = dataclasses.field(default_factory=list)
    problems: list[str] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    needs: str = NEEDS[0]


def parse_value(value: t.Any, setting: str, state: State) -> t.Any:
    """Return a value in NVML's own terms: milliwatts, a pair of clocks.

    :raises ValueError: the value is invalid for this card; the text has the possible values.
    """
    if setting == "power_limit":
        return _power(str(value), state)
    if setting in _CLOCKS:
        return _clocks(value, state.gpu_clocks if setting == _CLOCKS[0] else state.memory_clocks)
    return value


def _power(text: str, state: State) -> int:
    low, high = state.power_range or (0, 0)
    default = state.power_default
    possible = f"{state.name} takes {_watts(low)} to {_watts(high)}" + (
        f", by default {_watts(default)}" if default else ""
    )
    match = _POWER.fullmatch(text.strip())
    if text.strip().lower() == "default" or (match and match.group(2) == "%"):
        if not default:
            raise ValueError(f"is {text!r}, but the card does not report its default: state watts; {possible}")
        # Whole watts, as nvidia-smi sets them.
        value = default if match is None else round(default * float(match.group(1)) / 100 / 1000) * 1000
    elif match:
        value = round(float(match.group(1)) * 1000)
    else:
        raise ValueError(f"is {text!r}: write `300 W`, `80 %` of the default, or `default`; {possible}")
    if not low <= value <= high:
        raise ValueError(f"is {text!r}{f' = {_watts(value)}' if '%' in text else ''}: {possible}")
    return value


def _watts(milliwatts: int) -> str:
    return f"{milliwatts / 1000:g} W"


def _clocks(value: t.Any, possible: tuple[int, int] | None) -> t.Any:
    if value == UNLOCKED:
        return UNLOCKED
    low, high = possible or (0, 0)
    remedy = f"write `[lowest, highest]` in MHz, from {low} to {high}, or `{UNLOCKED}`"
    pair = value if isinstance(value, (list, tuple)) else []
    numbers = [int(word) for word in pair if str(word).isdecimal()]
    if len(pair) != 2 or len(numbers) != 2:
        raise ValueError(f"is {value!r}: {remedy}")
    if numbers[0] > numbers[1]:
        raise ValueError(f"is {value!r}, which begins above its end: {remedy}")
    if numbers[0] < low or numbers[1] > high:
        raise ValueError(f"is {value!r}, beyond what the card does: {remedy}")
    return numbers


def supports(state: State, setting: str) -> bool:
    if setting == "power_limit":
        return state.power_limit is not None and state.power_range is not None
    if setting in _CLOCKS:
        return (state.gpu_clocks if setting == _CLOCKS[0] else state.memory_clocks) is not None
    return getattr(state, setting) is not None


def plan(state: State, wanted: Wanted, where: str) -> Plan:
    """Plan the changes of one card.

    :param wanted: settings by name; one that is None is left alone.
    :param where: the place of the entry in the request, such as ``gpus[0]``.
    """
    result = Plan(state, {})
    for setting in SETTINGS:
        value = wanted.get(setting)
        if value is None:
            continue
        if not supports(state, setting):
            result.problems.append(
                f"`{where}.{setting}`: {state.label} has no {_WORDS[setting]}: leave it out for this card"
            )
            continue
        try:
            result.wanted[setting] = parse_value(value, setting, state)
        except ValueError as error:
            result.problems.append(f"`{where}.{setting}` {error}; the card is {state.label}")
    _check_together(result, where)
    if result.problems:
        return result
    result.changes = _changes(state, result.wanted)
    if state.ecc_current is not None and result.wanted.get("ecc", state.ecc) != state.ecc_current:
        # A card that drives a display cannot be reset.
        result.needs = "reboot" if state.display else "gpu_reset"
    volatile = [change.setting for change in result.changes if change.setting in AT_BOOT]
    if volatile and result.wanted.get("persistence", state.persistence) is False:
        result.warnings.append(
            f"{state.label} has no persistence: the driver forgets {', '.join(volatile)} when the last program closes the GPU."
            " Set `persistence: true`."
        )
    return result


def _check_together(result: Plan, where: str) -> None:
    """Check settings that are valid alone and not together."""
    state, wanted = result.state, result.wanted
    mode = wanted.get("compute_mode", state.compute_mode)
    if state.mig and wanted.get("compute_mode") == "exclusive_process":
        result.problems.append(
            f"`{where}.compute_mode` is exclusive_process, and {state.label} is in MIG mode (or will be after a reset), which excludes"
            " it: use `default`, or turn MIG off first"
        )
    if wanted.get("time_slice", "default") != "default" and mode != "default":
        result.problems.append(
            f"`{where}.time_slice` is for programs that share a GPU, and the compute mode of {state.label} is {mode}: set"
            " `compute_mode: default` as well"
        )


def _changes(state: State, wanted: Wanted) -> list[Change]:
    changes = [
        Change(setting, getattr(state, setting), wanted[setting])
        for setting in SETTINGS
        if setting in wanted and getattr(state, setting) != wanted[setting]
    ]
    last = [change for change in changes if change.setting == "persistence" and not change.after]
    return [change for change in changes if change not in last] + last


def worst(needs: t.Iterable[str]) -> str:
    return max(needs, key=NEEDS.index, default=NEEDS[0])


def shown(setting: str, value: t.Any) -> t.Any:
    """Return a value as a person writes it."""
    return _watts(value) if setting == "power_limit" and isinstance(value, int) else value


def to_declare(wanted: Wanted) -> Wanted:
    """Return the part of a request that a boot would undo, as the user wrote it: 80 % stays 80 % on another card."""
    return {
        setting: wanted[setting]
        for setting in SETTINGS
        if wanted.get(setting) is not None
        and setting not in KEPT_BY_CARD
        and (setting not in AT_BOOT or wanted[setting] != AT_BOOT[setting])
    }


class Entry(t.NamedTuple):
    """An entry of the user. *where*: its place in the request; *for_all*: it is for all cards."""

    where: str
    uuid: str
    wanted: Wanted
    for_all: bool = False


def merge_requests(entries: t.Iterable[Entry]) -> dict[str, Entry]:
    """Merge the entries into one for each card. An entry for one card wins over those for all.

    :raises ValueError: two entries name one card.
    """
    merged: dict[str, Entry] = {}
    for entry in sorted(entries, key=lambda entry: not entry.for_all):
        given = {setting: value for setting, value in entry.wanted.items() if value is not None}
        before = merged.get(entry.uuid)
        if before and before.for_all == entry.for_all:
            raise ValueError(f"`{before.where}` and `{entry.where}` name one card, {entry.uuid}: keep one of them")
        merged[entry.uuid] = entry._replace(wanted={**(before.wanted if before else {}), **given})
    return merged
