# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The types of a GPU's facts, as gpu_info returns them. None is a value that the card does not have.

Facts by a name that NVML numbers, as clocks and counters, are a plain map. The details of gpu_info are not required.
"""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import ErrorRow
    from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.processes import Process


class Identity(t.TypedDict):
    """The names and versions of a card."""

    serial: str | None
    brand: str | None
    architecture: str | None
    compute_capability: str | None
    pci_device_id: str | None
    pci_subsystem_id: str | None
    minor: int | None
    board_part: str | None
    vbios: str | None
    inforom: dict[str, str | None]
    gsp_firmware: str | None


class Place(t.TypedDict):
    """The NUMA node and the processors near a card."""

    numa_node: int | None
    cpu_affinity: str | None


class Memory(t.TypedDict):
    """The memory of a GPU or of a MIG instance."""

    total_bytes: int | None
    reserved_bytes: int | None
    used_bytes: int | None
    free_bytes: int | None
    bar1: t.NotRequired[dict[str, int] | None]


class CardMemory(Memory):
    """The memory of a card."""

    max_clock_mhz: int | None
    bus_width_bits: int | None
    bandwidth_gb_s: float | None


class Compute(t.TypedDict):
    """The processors of a card, and what they reach at most."""

    cores: int | None
    sm_count: int | None
    max_clock_mhz: int | None
    peak_tflops: dict[str, float | None]


class Link(t.TypedDict):
    """An NVLink."""

    link: int
    active: bool | None
    speed_gb_s: float | None
    remote: str | None
    remote_pci_address: str | None


class Nvlink(t.TypedDict):
    """The NVLinks of a card."""

    count: int
    active: int
    version: int | None
    links: list[Link]
    sent_kib: t.NotRequired[int | None]
    received_kib: t.NotRequired[int | None]


class Fabric(t.TypedDict):
    """The NVLink fabric of a host with NVSwitches."""

    state: str | None
    status: str
    clique: int
    health: dict[str, bool | str | None]
    summary: str | None


class Ecc(t.TypedDict):
    """The correction of memory errors."""

    current: bool
    pending: bool
    default: bool | None


class MigMode(t.TypedDict):
    """The MIG mode. `resetless`: it changes without a reset."""

    current: bool
    pending: bool
    resetless: bool | None


class Modes(t.TypedDict):
    """The modes of a card."""

    persistence: bool | None
    compute_mode: str | None
    ecc: Ecc | None
    mig: MigMode | None
    accounting: bool | None
    display_active: bool | None


class MigDevice(t.TypedDict):
    """A MIG device."""

    index: int
    uuid: str | None
    profile: str | None
    gpu_instance_id: int | None
    compute_instance_id: int | None
    placement: dict[str, int] | None
    sm_count: int | None
    memory: Memory


class Clocks(t.TypedDict):
    """The clocks of a card."""

    current_mhz: dict[str, int | None]
    max_mhz: dict[str, int | None]
    performance_state: str | None
    event_reasons: list[str] | None
    locked_mhz: dict[str, list[int] | None] | None
    application_mhz: t.NotRequired[dict[str, int | None]]
    default_application_mhz: t.NotRequired[dict[str, int | None]]


class Temperature(t.TypedDict):
    """The temperatures of a card, and their limits."""

    gpu_c: int | None
    memory_c: int | None
    margin_c: int | None
    thresholds_c: dict[str, int | None]
    margin_limits_c: dict[str, int | None]


class RemappedRows(t.TypedDict):
    """The remapped rows, and the number of banks by their spare rows."""

    correctable: int
    uncorrectable: int
    pending: bool
    failure: bool
    banks: dict[str, int] | None


class RetiredPages(t.TypedDict):
    """The retired pages by their cause."""

    single_bit: int
    double_bit: int
    pending: bool | None


class Counters(t.TypedDict):
    """The counters of errors, and what the driver asks for."""

    recovery_action: str | None
    remapped_rows: RemappedRows | None
    retired_pages: RetiredPages | None
    ecc_errors: dict[str, dict[str, int | None]]
    sram: dict[str, object] | None
    repair_pending: dict[str, bool | None] | None
    unrepairable_memory: bool | None
    pcie: dict[str, int | None]
    nvlink: dict[str, int | None]
    nvlink_5: dict[str, float | None] | None
    inforom_valid: bool | None
    throttled: dict[str, int | None]
    ecc_locations: t.NotRequired[dict[str, dict[str, dict[str, int | None] | None]]]


class Sharing(t.TypedDict):
    """How programs share a GPU."""

    mode: str | None
    mps_servers: list[int]
    slices: int


class Facts(Identity, Place):
    """The facts of a GPU."""

    index: int | None
    uuid: str | None
    name: str | None
    pci_address: str | None
    memory: CardMemory
    compute: Compute
    pcie: dict[str, int | None]
    nvlink: Nvlink | None
    fabric: Fabric | None
    modes: Modes
    mig_devices: list[MigDevice]
    power: dict[str, float | None]
    clocks: Clocks
    temperature: Temperature
    fans_percent: list[int | None] | None
    utilization: dict[str, int | None]
    counters: Counters
    processes: list[Process] | None
    sharing: Sharing
    unreadable: list[ErrorRow]
    problem: ErrorRow | None
