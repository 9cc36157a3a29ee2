# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read and write modes of GPUs, read them back, and restore them after a failed write."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import lines
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import locked_clocks as record
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.files import Declared
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode import plan as modes
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode.plan import Change, Plan, State
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import ErrorRow, NvmlError, Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.reader import Reader, first, flag
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import nvidia_smi

# nvml.h: NVML_DEVICE_ARCH_VOLTA; clocks are locked from Volta on.
_VOLTA = 5
_GRAPHICS, _MEMORY = 0, 2
_LOCKED = ("locked_gpu_clocks", "locked_memory_clocks")
_POLICIES = {
    "slice": r"(?i)\|\s+(?P<index>\d+)\s+Timeslice\s+(?P<value>\w+)\s*\|",
    "other policy": r"\|\s+\d+\s+(?!(?i:timeslice)\b)\S.*",
    "frame": r"[+|][-=]+[+|]|\|\s+GPU\b.*|No devices were found",
}

# The exit status of a shell for a missing program.
NOT_THERE = 127
# Runs a program: exit status, output, errors.
Run = t.Callable[[list[str]], tuple[int, str, str]]


class Failed(Exception):
    """A write failed. The settings of this run were restored, except ``left``."""

    def __init__(self, action: str, cause: ErrorRow, put_back: list[str], unrestored: list[str]) -> None:
        self.cause = cause
        self.put_back = put_back
        self.left = unrestored
        super().__init__(action)


class NotKept(Exception):
    """All cards are as requested, but the declaration for boots could not be written."""


class PolicyError(Exception):
    """nvidia-smi failed to set a time slice. NVML has no function for it."""


def parse_policies(text: str) -> dict[int, str]:
    """Parse time slices by NVML's index, from the output of ``nvidia-smi compute-policy --list`` (driver 580)."""
    rows = lines.parse("nvidia-smi compute-policy --list", text, _POLICIES)
    return {int(match["index"]): match["value"].lower() for name, match in rows if name == "slice"}


class Host:
    """The GPUs of this host; NVML is open."""

    def __init__(self, nvml: Nvml, tree: Tree, run: Run) -> None:
        self.nvml = nvml
        self.tree = tree
        self.run = run
        self.locked = record.read_locked(tree)
        self._policies: dict[int, str] | None = None

    def read(self, card: Card, time_slice: bool) -> State:
        """Read a card. nvidia-smi runs only where the request has time slices.

        :raises Refusal: nvidia-smi is missing.
        :raises NvmlError: the card does not answer.
        """
        reader = Reader(self.nvml, card)
        ecc = reader.ask("nvmlDeviceGetEccMode")
        mig = reader.ask("nvmlDeviceGetMigMode")
        limits = reader.ask("nvmlDeviceGetPowerManagementLimitConstraints")
        compute = reader.ask("nvmlDeviceGetComputeMode")
        locked = self.locked.get(card.uuid, {})
        gpu_clocks, memory_clocks = self._clocks(reader)
        state = State(
            uuid=card.uuid,
            name=card.name,
            index=card.index,
            pci_address=card.pci_address,
            persistence=flag(reader.ask("nvmlDeviceGetPersistenceMode")),
            compute_mode=_name_of(compute),
            power_limit=reader.ask("nvmlDeviceGetPowerManagementLimit"),
            power_default=reader.ask("nvmlDeviceGetPowerManagementDefaultLimit"),
            power_range=limits and (limits[0], limits[1]),
            power_enforced=reader.ask("nvmlDeviceGetEnforcedPowerLimit"),
            gpu_clocks=gpu_clocks,
            memory_clocks=memory_clocks,
            locked_gpu_clocks=gpu_clocks and locked.get(_LOCKED[0], modes.UNLOCKED),
            locked_memory_clocks=memory_clocks and locked.get(_LOCKED[1], modes.UNLOCKED),
            accounting=flag(reader.ask("nvmlDeviceGetAccountingMode")),
            ecc=flag(first(ecc, 1)),
            ecc_current=flag(first(ecc, 0)),
            mig=bool(mig and any(mig)),
            display=bool(reader.ask("nvmlDeviceGetDisplayActive")),
            time_slice=self.policies().get(card.index) if time_slice else None,
        )
        if reader.problem:
            raise reader.problem
        return state

    def _clocks(self, reader: Reader) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        """Return the lockable ranges of the clocks of GPU and memory; None for clocks that cannot be locked."""
        architecture = reader.ask("nvmlDeviceGetArchitecture")
        highest = reader.ask("nvmlDeviceGetMaxClockInfo", _GRAPHICS)
        if architecture is None or architecture < _VOLTA or highest is None:
            return None, None
        memory = reader.ask("nvmlDeviceGetSupportedMemoryClocks")
        if not memory:
            return (0, highest), None
        graphics = reader.ask("nvmlDeviceGetSupportedGraphicsClocks", max(memory)) or [0]
        return (min(graphics), max(highest, *graphics)), (min(memory), max(memory))

    def policies(self) -> dict[int, str]:
        """Return time slices by index; none if nvidia-smi does not support them. nvidia-smi runs once.

        :raises Refusal: nvidia-smi is missing.
        """
        if self._policies is None:
            code, out, err = self.run(["nvidia-smi", "compute-policy", "-l"])
            if code == NOT_THERE:
                raise Refusal(f"`time_slice`: only nvidia-smi sets time slices, and it cannot be run ({err.strip()})")
            self._policies = parse_policies(out) if code in nvidia_smi.DONE else {}
        return self._policies

    # Writing

    def carry_out(self, plans: t.Sequence[Plan], cards: t.Mapping[str, Card]) -> None:
        """Write the changes of the plans, and read them back.

        :raises Failed: a write failed, also one of the record, or the card reports another value afterwards.
        """
        done: list[tuple[State, Change]] = []
        try:
            for plan in plans:
                for change in plan.changes:
                    # Before the write: a failed write may have had its effect.
                    done.append((plan.state, change))
                    self._write(cards[plan.state.uuid], change.setting, change.after)
                self._read_back(cards[plan.state.uuid], plan)
        except (NvmlError, PolicyError, OSError, _Mismatch) as error:
            state, change = done[-1]
            cause = error.as_result() if isinstance(error, NvmlError) else {}
            put_back, unrestored = self._put_back(done, cards)
            action = (
                f"{change.setting} of {state.label} could not be set to {modes.shown(change.setting, change.after)}"
            )
            text = str(error) if isinstance(error, _Mismatch) else f"{action}: {error}"
            raise Failed(text, cause, put_back, unrestored) from error

    def _write(self, card: Card, setting: str, value: t.Any) -> None:
        if setting in _LOCKED:
            self._lock(card, setting, value)
        elif setting == "time_slice":
            self._policies = None
            number = modes.TIME_SLICES[value]
            code, out, err = self.run(["nvidia-smi", "compute-policy", "-i", card.uuid, f"--set-timeslice={number}"])
            if code not in nvidia_smi.DONE:
                raise PolicyError(f"nvidia-smi: {(err or out).strip()}")
        else:
            function, to_number = _WRITES[setting]
            self.nvml.call(function, card.handle, to_number(value))

    def _lock(self, card: Card, setting: str, value: t.Any) -> None:
        domain = "Gpu" if setting == _LOCKED[0] else "Memory"
        locked = self.locked.get(card.uuid, {})
        others = {name: clocks for name, clocks in locked.items() if name != setting}
        # A run that is interrupted between the two writes leaves UNKNOWN.
        self._remember(card.uuid, {**others, setting: modes.UNKNOWN})
        try:
            if value == modes.UNLOCKED:
                self.nvml.call(f"nvmlDeviceReset{domain}LockedClocks", card.handle)
            else:
                self.nvml.call(f"nvmlDeviceSet{domain}LockedClocks", card.handle, *value)
        except NvmlError as error:
            if error.absent:
                self._remember(card.uuid, locked)
            raise
        self._remember(card.uuid, others if value == modes.UNLOCKED else {**others, setting: value})

    def _remember(self, uuid: str, locked: Declared) -> None:
        if locked != self.locked.get(uuid, {}):
            self.locked[uuid] = locked
            record.write_locked(self.tree, self.locked)

    def _read_back(self, card: Card, plan: Plan) -> None:
        if not plan.changes:
            return
        now = self.read(card, any(change.setting == "time_slice" for change in plan.changes))
        for change in plan.changes:
            found = getattr(now, change.setting)
            if found != change.after:
                raise _Mismatch(
                    f"{change.setting} of {plan.state.label} was set to {modes.shown(change.setting, change.after)},"
                    f" and the card reports {modes.shown(change.setting, found)}"
                )

    def _put_back(
        self, done: t.Sequence[tuple[State, Change]], cards: t.Mapping[str, Card]
    ) -> tuple[list[str], list[str]]:
        put_back: list[str] = []
        unrestored: list[str] = []
        for state, change in reversed(done):
            card, asks_smi = cards[state.uuid], change.setting == "time_slice"
            label = f"{state.label}: {change.setting} {modes.shown(change.setting, change.before)}"
            if change.before == modes.UNKNOWN:
                unrestored.append(label)
                continue
            try:
                # NVML does not report locked clocks, so they are always restored.
                if change.setting not in _LOCKED and self._is_as_before(card, change, asks_smi):
                    continue
                self._write(card, change.setting, change.before)
                is_back = self._is_as_before(card, change, asks_smi)
            except (NvmlError, PolicyError, OSError) as error:
                # A card without lockable clocks has none to restore.
                if not (change.setting in _LOCKED and isinstance(error, NvmlError) and error.absent):
                    unrestored.append(f"{label} ({error})")
            else:
                (put_back if is_back else unrestored).append(label)
        return put_back, unrestored

    def _is_as_before(self, card: Card, change: Change, asks_smi: bool) -> bool:
        return bool(getattr(self.read(card, asks_smi), change.setting) == change.before)


class _Mismatch(Exception):
    """A card reports another value than the one written."""


def _name_of(number: int | None) -> str | None:
    """Return the name of a compute mode; a mode that can no longer be requested has its number as its name."""
    names = {value: name for name, value in modes.COMPUTE_MODES.items()}
    return None if number is None else names.get(number, str(number))


def _number_of(name: str) -> int:
    return int(name) if name.isdecimal() else modes.COMPUTE_MODES[name]


_WRITES: dict[str, tuple[str, t.Callable[[t.Any], int]]] = {
    "persistence": ("nvmlDeviceSetPersistenceMode", int),
    "compute_mode": ("nvmlDeviceSetComputeMode", _number_of),
    "power_limit": ("nvmlDeviceSetPowerManagementLimit", int),
    "accounting": ("nvmlDeviceSetAccountingMode", int),
    "ecc": ("nvmlDeviceSetEccMode", int),
}
