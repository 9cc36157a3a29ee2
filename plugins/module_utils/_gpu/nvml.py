# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""NVML through NVIDIA's own binding: who is asked, and how a failure is told.

Nobody else imports ``pynvml``; its structures are had as ``_gpu.nvml.pynvml``, which is None where the binding is missing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import importlib.util
import os
import re
import sys
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import (
    CODES,
    NO_BINDING,
    NvmlError,
    Refusal,
    answer_of,
)

# Where the role `common` keeps what modules need.
PYTHON = "/opt/rigwright/python/bin/python3"


def load_beside(python: str) -> t.Any | None:
    """The binding of another Python's environment, None where it has none.

    It is one file of Python that needs nothing else. A module that were started again in that Python would take twice as long.
    """
    environment = os.path.dirname(os.path.dirname(python))
    for path in sorted(glob.glob(f"{glob.escape(environment)}/lib/python3*/site-packages/pynvml.py")):
        spec = importlib.util.spec_from_file_location("pynvml", path)
        if spec and spec.loader:
            module = importlib.util.module_from_spec(spec)
            # It looks itself up by its name.
            sys.modules["pynvml"] = module
            spec.loader.exec_module(module)
            return module
    return None


try:
    import pynvml
except ImportError:
    pynvml = load_beside(PYTHON)

try:
    from ansible.module_utils.common.respawn import has_respawned, respawn_module
except ImportError:
    # The check that the role gpu_health has on a host: a program without Ansible, started by the right Python.
    has_respawned = respawn_module = None

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

# nvmlValueType_t of nvml.h: the member of the union that a field's value is in.
_MEMBERS = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}

# Seconds for a driver that is being loaded, and what NVML says until then.
PATIENCE = 30
_NOT_YET = ("DRIVER_NOT_LOADED", "NOT_READY")

_PCI_ADDRESS = re.compile(r"(?:([0-9a-f]{4}|[0-9a-f]{8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Card:
    """A GPU. One that is lost has a *problem*, and of the rest what it still told."""

    handle: t.Any
    index: int
    uuid: str = ""
    pci_address: str = ""
    name: str = ""
    # NVML's PCI ids: device and subsystem, each with the vendor in its lower half.
    pci_ids: tuple[int, int] | None = None
    problem: NvmlError | None = None


class Nvml:
    """NVML, open within a ``with``. GPUs are enumerated once: for a reset it is closed, and opened anew."""

    def __init__(self) -> None:
        self._cards: list[Card] | None = None
        self._driver: str | None = None

    def __enter__(self) -> Nvml:
        self.call("nvmlInit")
        self._cards = None
        return self

    def __exit__(self, *_error: object) -> None:
        # What it says no longer matters, and would hide why the block ended.
        with contextlib.suppress(NvmlError):
            self.call("nvmlShutdown")

    def call(self, function: str, *arguments: t.Any) -> t.Any:
        """:raises NvmlError: whatever the failure, also when binding or driver do not have the function."""
        if pynvml is None:
            raise NvmlError(NO_BINDING, function)
        known = getattr(pynvml, function, None)
        if known is None:
            raise NvmlError(CODES["FUNCTION_NOT_FOUND"], function)
        try:
            answer = known(*arguments)
        except pynvml.NVMLError as error:
            raise NvmlError(error.value, function) from error
        # Most texts of the binding are str, and a few are bytes: that of nvmlDeviceGetGspFirmwareVersion.
        return answer.decode() if isinstance(answer, bytes) else answer

    def ask(self, function: str, *arguments: t.Any) -> t.Any | None:
        """None where there is nothing to tell: the card or the driver does not have it. Never 0 for that.

        :raises NvmlError: another failure.
        """
        try:
            return self.call(function, *arguments)
        except NvmlError as error:
            if error.absent:
                return None
            raise

    def call_library(self, function: str, *arguments: t.Any) -> None:
        """A function of the driver's library itself, for where the binding has another structure than the library.

        :raises NvmlError: whatever the failure.
        """
        if pynvml is None:
            raise NvmlError(NO_BINDING, function)
        try:
            code = pynvml._nvmlGetFunctionPointer(function)(*arguments)
        except pynvml.NVMLError as error:
            raise NvmlError(error.value, function) from error
        if code:
            raise NvmlError(code, function)

    def driver_version(self) -> str:
        """Empty where it is not told. It is asked for once."""
        if self._driver is None:
            self._driver = self.ask("nvmlSystemGetDriverVersion") or ""
        return self._driver

    def fields(self, handle: t.Any, wanted: t.Sequence[int | tuple[int, int]]) -> list[t.Any | None]:
        """Values of fields, given as ids or (id, scope), with one call; None for each that the card or the driver does not have.

        :raises NvmlError: another failure, of the call or of a field.
        """
        rows = self.ask("nvmlDeviceGetFieldValues", handle, list(wanted))
        return [None] * len(wanted) if rows is None else [_value_of(row) for row in rows]

    def field(self, handle: t.Any, field_id: int, scope: int = 0) -> t.Any | None:
        return self.fields(handle, [(field_id, scope)])[0]

    def cards(self) -> list[Card]:
        """All GPUs in NVML's order, also those that are lost."""
        if self._cards is None:
            self._cards = [self._card(index) for index in range(self.call("nvmlDeviceGetCount"))]
        return self._cards

    def _card(self, index: int) -> Card:
        card = Card(None, index)
        try:
            card = dataclasses.replace(card, handle=self.call("nvmlDeviceGetHandleByIndex", index))
            pci = self.call("nvmlDeviceGetPciInfo", card.handle)
            ids = (pci.pciDeviceId, pci.pciSubSystemId)
            card = dataclasses.replace(card, pci_address=pci_address(pci.busId), pci_ids=ids)
            card = dataclasses.replace(card, uuid=self.call("nvmlDeviceGetUUID", card.handle))
            return dataclasses.replace(card, name=self.call("nvmlDeviceGetName", card.handle))
        except NvmlError as error:
            # One GPU that does not answer must not hide the others.
            return dataclasses.replace(card, problem=error)

    def find(self, wanted: str) -> Card:
        """The GPU of this UUID, PCI address or index.

        :raises Refusal: there is none.
        :raises NvmlError: it does not answer.
        """
        card = find_card(self.cards(), wanted)
        if card.problem:
            raise card.problem
        return card


def wait_for_driver() -> None:
    """At boot, when udev may still be loading it.

    :raises NvmlError: NVML cannot be asked, also not later.
    """
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with Nvml():
                return
        except NvmlError as error:
            if error.name not in _NOT_YET or time.monotonic() > end:
                raise
        time.sleep(1)


def _value_of(row: t.Any) -> t.Any | None:
    if row.nvmlReturn == 0:
        return getattr(row.value, _MEMBERS[row.valueType])
    # The ids are ours: one that is not valid is one that the driver is too old for.
    if answer_of(row.nvmlReturn).absent or row.nvmlReturn == CODES["INVALID_ARGUMENT"]:
        return None
    raise NvmlError(row.nvmlReturn, f"nvmlDeviceGetFieldValues({row.fieldId})")


def pci_address(told: str | bytes) -> str:
    """As the kernel writes it, 0000:41:00.0; NVML writes eight digits of domain in capitals. Empty for what is none."""
    text = told.decode() if isinstance(told, bytes) else told
    match = _PCI_ADDRESS.fullmatch(text.strip())
    return f"{int(match.group(1) or '0', 16):04x}:{match.group(2).lower()}" if match else ""


def find_card(cards: t.Sequence[Card], wanted: str) -> Card:
    """:raises Refusal: no GPU has this UUID, PCI address or index."""
    text = wanted.strip()
    for card in cards:
        # A lost GPU has neither, and nothing may match that.
        if text and text.lower() == card.uuid.lower():
            return card
        if card.pci_address and pci_address(text) == card.pci_address:
            return card
        if text.isdecimal() and int(text) == card.index:
            return card
    if text.upper().startswith("MIG-"):
        raise Refusal(f"{wanted!r} is a MIG instance and no GPU: name the GPU that it is on. {_possible(cards)}")
    raise Refusal(f"no GPU is {wanted!r}. {_possible(cards)}")


def _possible(cards: t.Sequence[Card]) -> str:
    rows = [
        f"{card.index} = {card.uuid or 'lost'}{f' at {card.pci_address}' if card.pci_address else ''}" for card in cards
    ]
    if not rows:
        return "NVML shows no GPU at all: gpu_host_info tells what PCI shows"
    # A lost one does not tell its UUID: it may be the one that is named.
    silent = [
        f"GPU {card.index} does not answer, and may be it: {card.problem.next_step}" for card in cards if card.problem
    ]
    return ". ".join([f"There are {'; '.join(rows)}", *silent])


def respawn_where_possible() -> None:
    """Start the module again in the Python that has nvidia-ml-py. Does not return if it does; returns where no Python has it."""
    if pynvml is None and os.path.exists(PYTHON) and not has_respawned():
        respawn_module(PYTHON)


def respawn_where_needed(module: AnsibleModule) -> None:
    """The same, and the module fails where no Python has it."""
    respawn_where_possible()
    if pynvml is None:
        module.fail_json(msg=f"NVML cannot be asked: {answer_of(NO_BINDING).next_step}.")
