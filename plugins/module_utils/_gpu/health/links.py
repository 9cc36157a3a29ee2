# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reasons from PCIe, NVLink and the NVLink fabric of a GPU. Pure."""

from __future__ import annotations

import math
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.counters import NVLINK5_FIELDS
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.reason import (
    AZURE_NVLINK,
    DCGM,
    DCGM_LIMITS,
    FABRIC,
    NVML,
    Limits,
    Reason,
    at,
    reason,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.rows import Signs

# Transfers a second and lane, in thousand millions. One bit in 10**12 may be wrong (PCI Express Base Specification), so that a lane of the
# first generation has 2.5 / 1000 errors a second (DCGM, GetExpectedPcieReplayRate).
_GIGATRANSFERS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
_UNKNOWN_LINK = 8.0
# Boards on which every NVLink of the GPU is wired. A PCIe card has a bridge, or no links. Such a GPU alone is on an adapter for a slot,
# or in a virtual machine without its board (l4rz/running-nvidia-sxm-gpus-in-consumer-pcs#2): nothing is at the other end.
_WIRED = re.compile(r"SXM|HBM3$|^NVIDIA (H20|H200|G?B200|G?B300)$")
# The fabric manager begins at boot and is done within minutes.
_FABRIC_S = 600
_STEP_SLOT = "check slot and riser, and the BIOS's setting for them"
_STEP_LINKS = (
    "end what uses the GPUs and reset them; if links stay down, power the host off and check bridge, board or NVSwitch;"
    " where nothing is at their other end, ignore `nvlinks_down` (gpu_health_ignore)"
)
_STEP_FABRIC = (
    "check `systemctl status nvidia-fabricmanager`: it has to run, in the driver's version; start it with no GPU in use, or reboot. "
    "Until then CUDA does not start"
)


def judge(card: Signs, limits: Limits) -> t.Iterator[Reason]:
    """Yield the reasons from the links of a card."""
    yield from _fabric(card)
    yield from _pcie(card, limits)
    yield from _nvlinks(card)
    yield from _errors(card, limits)


def _fabric(card: Signs) -> t.Iterator[Reason]:
    fabric = card.get("fabric")
    state, status, health = (at(fabric, name) for name in ("state", "status", "health"))
    if state is None:
        return
    if state != "completed":
        uptime = card.get("uptime_s")
        begins = state == "in_progress" and uptime is not None and uptime < _FABRIC_S
        verdict = data.MONITOR if begins else data.REBOOT
        yield reason(f"fabric_{state}", f"the fabric manager: {state.replace('_', ' ')}", DCGM, verdict, _STEP_FABRIC)
    elif status != "SUCCESS":
        yield reason("fabric_failed", f"the fabric manager failed: {status}", DCGM, data.REBOOT, _STEP_FABRIC)
    summary = at(fabric, "summary")
    found = [name for name, value in (health or {}).items() if value not in (None, False, "none")]
    if found or summary in ("unhealthy", "limited_capacity"):
        problems = ", ".join([*([summary] if summary not in (None, "healthy") else []), *found])
        evidence = f"NVML reports for the fabric: {problems.replace('_', ' ')}"
        step = "check the fabric manager's log, the NVSwitches and the links"
        yield reason("fabric_health", evidence, FABRIC, data.MONITOR, step)


def _pcie(card: Signs, limits: Limits) -> t.Iterator[Reason]:
    busy = at(card, "utilization", "gpu_percent")
    if busy is not None and busy >= limits.busy_percent:
        for name in ("generation", "width"):
            now, highest = at(card, "pcie", f"current_{name}"), at(card, "pcie", f"max_{name}")
            if now and highest and now < highest:
                evidence = f"{name} {now} of {highest}, with the GPU busy for {busy} % of the time"
                yield reason(f"pcie_{name}", evidence, DCGM, data.MONITOR, _STEP_SLOT)
    own, here = at(card, "pcie", "gpu_max_generation"), at(card, "pcie", "max_generation")
    if own and here and here < own:
        evidence = f"the card has PCIe generation {own}, with this slot {here}"
        yield reason(
            "pcie_slot", evidence, NVML, data.MONITOR, f"{_STEP_SLOT}; where it has no better one, ignore `pcie_slot`"
        )


def replay_limit(card: Signs) -> int:
    """Return the replays a minute that a PCIe link is allowed to have, by its generation and lanes."""
    generation, lanes = at(card, "pcie", "max_generation"), at(card, "pcie", "max_width")
    if not generation or not lanes:
        return int(_UNKNOWN_LINK)
    rate = _GIGATRANSFERS[min(generation, max(_GIGATRANSFERS))]
    return math.ceil(rate / 1000 * 60 * lanes)


def expected_links(card: Signs, sisters: t.Sequence[Signs]) -> int | None:
    """Return the number of NVLinks of a card that have to be active; None where it is not known.

    :param sisters: the cards of the host, this one included.
    """
    count, active = at(card, "nvlink", "count"), at(card, "nvlink", "active")
    # NVML reports the links of a GPU with MIG as down (DCGM, MonitorNVLinkStatus).
    if not count or at(card, "modes", "mig", "current"):
        return None
    peers = sum(bool(at(sister, "nvlink", "count")) for sister in sisters) > 1
    if card.get("fabric") or (_WIRED.search(card.get("name") or "") and (peers or active)):
        return int(count)
    # A card without a bridge has no active link.
    return (
        max(at(sister, "nvlink", "active") or 0 for sister in sisters if sister.get("name") == card.get("name"))
        if active
        else None
    )


def _nvlinks(card: Signs) -> t.Iterator[Reason]:
    gone = at(card, "since_last_check", "nvlinks_gone")
    expected, active = card.get("expected_nvlinks"), at(card, "nvlink", "active")
    if gone:
        evidence = f"links {', '.join(map(str, gone))} were active at the last check and are not now"
        # The same as for Xid 74, which the driver reports for such a link.
        yield reason("nvlink_gone", evidence, data.CATALOG, data.RESET_GPU)
    elif expected is not None and active is not None and active < expected:
        down = [row["link"] for row in at(card, "nvlink", "links") or [] if not row["active"]]
        evidence = f"{active} of {expected} NVLinks are active; not {', '.join(map(str, down))}"
        yield reason("nvlinks_down", evidence, AZURE_NVLINK, data.RESET_GPU, _STEP_LINKS)


def _errors(card: Signs, limits: Limits) -> t.Iterator[Reason]:
    since = card.get("since_last_check")
    seconds, replays, crc = (at(since, name) for name in ("seconds", "pcie_replays", "nvlink_crc_errors"))
    if replays is not None and seconds:
        rate, given = replays * 60 / seconds, limits.pcie_replays_per_minute
        limit = replay_limit(card) if given is None else given
        # DCGM reports a rate above its limit.
        if rate > limit or rate == given:
            evidence = f"{rate:.1f} replays on PCIe a minute (limit {limit:g})"
            yield reason("pcie_replays", evidence, DCGM, data.MONITOR)
    if crc is not None and seconds and crc / seconds >= limits.nvlink_crc_errors_per_second:
        evidence = f"{crc / seconds:.1f} CRC errors on NVLink a second (limit {limits.nvlink_crc_errors_per_second:g})"
        yield reason("nvlink_crc_errors", evidence, DCGM_LIMITS, data.MONITOR)
    for name in ("nvlink_replays", "nvlink_recoveries", *(f"nvlink_{name}" for name in NVLINK5_FIELDS)):
        more = at(since, name)
        if more:
            yield reason(name, f"{more} since the last check", DCGM, data.MONITOR)
    errors = at(card, "counters", "nvlink_5", "effective_ber")
    if errors is not None and errors > limits.nvlink_bit_error_rate:
        evidence = f"one bit in {1 / errors:.2g} on NVLink is wrong after correction ({errors:g}, limit {limits.nvlink_bit_error_rate:g})"
        yield reason(
            "nvlink_bit_error_rate",
            evidence,
            DCGM,
            data.MONITOR,
            "check the NVLinks' cables and connectors, where there are any",
        )
