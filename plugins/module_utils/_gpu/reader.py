# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A reader of one GPU: a value that cannot be read is None, and the error is listed once in ``unreadable``."""

from __future__ import annotations

import ctypes
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import ErrorRow, NvmlError

# After these errors every further call would wait and fail too.
_FINAL = frozenset({"GPU_IS_LOST", "UNINITIALIZED", "DRIVER_NOT_LOADED", "LIB_RM_VERSION_MISMATCH", "RESET_REQUIRED"})


class Reader:
    """Reads one GPU. A GPU that is missing, or is lost meanwhile, has None for every value, so that its facts have the same keys."""

    def __init__(self, nvml: Nvml | None, card: Card) -> None:
        self.nvml = nvml
        self.card = card
        self.problem: NvmlError | None = card.problem
        self.unreadable: list[ErrorRow] = []
        self._fields: dict[int, t.Any | None] = {}

    def ask(self, function: str, *arguments: t.Any) -> t.Any | None:
        """Call a function of NVML for the GPU; None where it has no value."""
        return self.ask_of(self.card.handle, function, *arguments)

    def ask_of(self, handle: t.Any, function: str, *arguments: t.Any) -> t.Any | None:
        """Call a function of NVML for a part of the GPU, such as a MIG instance."""
        return None if handle is None else self._guarded(lambda nvml: nvml.ask(function, handle, *arguments))

    def call(self, function: str, *arguments: t.Any) -> bool:
        """Call a function of the driver's library itself. False where it fails."""

        def ask(nvml: Nvml) -> bool:
            nvml.call_library(function, self.card.handle, *arguments)
            return True

        return bool(self._guarded(ask))

    def fill(self, function: str, structure: ctypes.Structure) -> bool:
        """Fill a structure by a function of the driver's library. False where it fails."""
        return self.call(function, ctypes.byref(structure))

    def check(self, function: str, failure: str) -> bool | None:
        """Run a check of the GPU itself. False where it fails with *failure*, None where the card has no such check."""

        def run(nvml: Nvml) -> bool:
            try:
                nvml.call(function, self.card.handle)
            except NvmlError as error:
                if error.name != failure:
                    raise
                return False
            return True

        return t.cast("bool | None", self._guarded(run))

    def fields(self, wanted: t.Sequence[int | tuple[int, int]]) -> list[t.Any | None]:
        """Read fields by their ids, or (id, scope), with one call."""
        values = self._guarded(lambda nvml: nvml.fields(self.card.handle, wanted)) if wanted else []
        return [None] * len(wanted) if values is None else values

    def load(self, wanted: t.Sequence[int]) -> None:
        """Read fields with one call, for :meth:`field`."""
        self._fields.update(zip(wanted, self.fields(wanted)))

    def field(self, number: int) -> t.Any | None:
        """Return the value of a loaded field."""
        return self._fields[number]

    def _guarded(self, question: t.Callable[[Nvml], t.Any]) -> t.Any | None:
        if self.nvml is None or self.problem or self.card.handle is None:
            return None
        try:
            return question(self.nvml)
        except NvmlError as error:
            if error.name in _FINAL:
                self.problem = error
            elif not error.absent:
                self.unreadable.append(error.as_result())
            return None


def first(answer: t.Sequence[t.Any] | None, position: int = 0) -> t.Any | None:
    """Return one of the values of an answer; None where there is no answer."""
    return None if answer is None else answer[position]


def scaled(value: float | None, divisor: float) -> float | None:
    """Convert a value to another unit, as milliwatts / 1000. None stays None."""
    return None if value is None else value / divisor


def flag(value: int | None) -> bool | None:
    """Return a flag of NVML as a boolean. None stays None."""
    return None if value is None else bool(value)


def named(value: int | None, names: t.Mapping[int, str]) -> str | None:
    """Return the name of a number of NVML; an unknown number, as of a later driver, has no other name."""
    return None if value is None else names.get(value, f"unknown ({value})")


def bits(value: int | None, names: t.Mapping[int, str]) -> list[str] | None:
    """Return the names of the bits that are set, in the order of *names*."""
    if value is None:
        return None
    unknown = value & ~sum(names)
    return [name for bit, name in names.items() if value & bit] + ([f"unknown ({unknown:#x})"] if unknown else [])
