# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVML through NVIDIA's own binding.

No other file imports ``pynvml``. Others use ``_gpu.nvml.pynvml``, which is None where the binding is missing.
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

# The role `common` installs Python packages for modules here.
PYTHON = "/opt/rigwright/python/bin/python3"


def load_beside(python: str) -> t.Any | None:
    """Load the binding from another Python's environment; None where it has none.

    The binding is one file without dependencies. To start the module again in that Python would take twice as long.
    """
    environment = os.path.dirname(os.path.dirname(python))
    for path in sorted(glob.glob(f"{glob.escape(environment)}/lib/python3*/site-packages/pynvml.py")):
        spec = importlib.util.spec_from_file_location("pynvml", path)
        if spec and spec.loader:
            module = importlib.util.module_from_spec(spec)
            # The binding looks itself up in sys.modules.
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
    # The program of the role gpu_health runs without Ansible, and with the right Python.
    has_respawned = respawn_module = None

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

# nvmlValueType_t of nvml.h: the member of the union that has a field's value.
_MEMBERS = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}

# Seconds to wait for a driver that is being loaded, and the errors of NVML until then.
PATIENCE = 30
_NOT_YET = ("DRIVER_NOT_LOADED", "NOT_READY")

HIDDEN_DOMAIN = 0xFFFFFFFF
_PCI_ADDRESS = re.compile(r"(?:([0-9a-f]{4}|[0-9a-f]{8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Card:
    """A GPU. A lost GPU has a *problem*, and the values that were read before it."""

    handle: t.Any
    index: int
    uuid: str = ""
    pci_address: str = ""
    name: str = ""
    # NVML's PCI ids: device and subsystem, each with the vendor in its lower half.
    pci_ids: tuple[int, int] | None = None
    problem: NvmlError | None = None


class Nvml:
    """NVML, open within a ``with``. GPUs are enumerated once: close and open it again after a reset."""

    def __init__(self) -> None:
        self._cards: list[Card] | None = None
        self._driver: str | None = None

    def __enter__(self) -> Nvml:
        self.call("nvmlInit")
        self._cards = None
        return self

    def __exit__(self, *_error: object) -> None:
        # An error of the shutdown would hide the error of the block.
        with contextlib.suppress(NvmlError):
            self.call("nvmlShutdown")

    def call(self, function: str, *arguments: t.Any) -> t.Any:
        """Call a function of NVML.

        :raises NvmlError: it fails, or binding or driver do not have it.
        """
        if pynvml is None:
            raise NvmlError(NO_BINDING, function)
        implementation = getattr(pynvml, function, None)
        if implementation is None:
            raise NvmlError(CODES["FUNCTION_NOT_FOUND"], function)
        try:
            answer = implementation(*arguments)
        except pynvml.NVMLError as error:
            raise NvmlError(error.value, function) from error
        # The binding returns a few texts as bytes, such as that of nvmlDeviceGetGspFirmwareVersion.
        return answer.decode() if isinstance(answer, bytes) else answer

    def ask(self, function: str, *arguments: t.Any) -> t.Any | None:
        """Call a function of NVML; None where the card or the driver does not have the value, never 0.

        :raises NvmlError: another failure.
        """
        try:
            return self.call(function, *arguments)
        except NvmlError as error:
            if error.absent:
                return None
            raise

    def call_library(self, function: str, *arguments: t.Any) -> None:
        """Call a function of the driver's library itself, where the binding has another structure than the library.

        :raises NvmlError: it fails.
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
        """Return the version of the driver; empty where NVML does not report it. It is read once."""
        if self._driver is None:
            self._driver = self.ask("nvmlSystemGetDriverVersion") or ""
        return self._driver

    def fields(self, handle: t.Any, wanted: t.Sequence[int | tuple[int, int]]) -> list[t.Any | None]:
        """Read fields, given as ids or (id, scope), with one call; None for each that the card or the driver does not have.

        :raises NvmlError: another failure, of the call or of a field.
        """
        rows = self.ask("nvmlDeviceGetFieldValues", handle, list(wanted))
        return [None] * len(wanted) if rows is None else [_value_of(row) for row in rows]

    def field(self, handle: t.Any, field_id: int, scope: int = 0) -> t.Any | None:
        """Read one field."""
        return self.fields(handle, [(field_id, scope)])[0]

    def cards(self) -> list[Card]:
        """Return all GPUs in NVML's order, lost GPUs included."""
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
            # A GPU that does not answer must not hide the others.
            return dataclasses.replace(card, problem=error)

    def find(self, wanted: str) -> Card:
        """Find a GPU by UUID, PCI address or index.

        :raises Refusal: there is none.
        :raises NvmlError: it does not answer.
        """
        card = find_card(self.cards(), wanted)
        if card.problem:
            raise card.problem
        return card


def wait_for_driver() -> None:
    """Wait for the driver, which udev may still be loading at boot.

    :raises NvmlError: NVML still fails after PATIENCE seconds.
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
    # The collection asks for known ids only: the driver is too old for one that it calls invalid.
    if answer_of(row.nvmlReturn).absent or row.nvmlReturn == CODES["INVALID_ARGUMENT"]:
        return None
    raise NvmlError(row.nvmlReturn, f"nvmlDeviceGetFieldValues({row.fieldId})")


def pci_address(address: str | bytes) -> str:
    """Return an address as the kernel writes it, 0000:41:00.0; empty for a text that is no address.

    NVML writes the domain with eight digits, in capitals. A virtual machine sees no switches: NVML then gives only ones.
    """
    text = address.decode() if isinstance(address, bytes) else address
    match = _PCI_ADDRESS.fullmatch(text.strip())
    domain = int(match.group(1) or "0", 16) if match else HIDDEN_DOMAIN
    return f"{domain:04x}:{match.group(2).lower()}" if match and domain != HIDDEN_DOMAIN else ""


def find_card(cards: t.Sequence[Card], wanted: str) -> Card:
    """Find a card by UUID, PCI address or index.

    :raises Refusal: there is none.
    """
    text = wanted.strip()
    for card in cards:
        # A lost GPU has no UUID and no address, and an empty text must not match it.
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
        return "NVML shows no GPU at all: gpu_host_info shows what is on the PCI bus"
    # A lost GPU does not report its UUID: it may be the requested one.
    silent = [
        f"GPU {card.index} does not answer, and may be it: {card.problem.next_step}" for card in cards if card.problem
    ]
    return ". ".join([f"There are {'; '.join(rows)}", *silent])


def respawn_where_possible() -> None:
    """Start the module again in the Python that has nvidia-ml-py. Return only where there is no such Python."""
    if pynvml is None and os.path.exists(PYTHON) and not has_respawned():
        respawn_module(PYTHON)


def respawn_where_needed(module: AnsibleModule) -> None:
    """Start the module again in the Python that has nvidia-ml-py. Fail where there is none."""
    respawn_where_possible()
    if pynvml is None:
        module.fail_json(msg=f"NVML does not answer: {answer_of(NO_BINDING).next_step}.")
