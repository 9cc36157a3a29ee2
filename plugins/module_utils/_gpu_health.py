# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""One verdict on a GPU, with every reason for it. Pure: what NVML and the kernel's log said is in, a verdict out.

The gravest reason decides, and among equals the one of the highest authority: whether NVML gets an answer at all, the driver's own recovery
action, memory, Xids, links, heat and power. More evidence of a fault never makes a verdict milder. What is not known (None) is no fault.
"""

from __future__ import annotations

import dataclasses
import time as clock
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils import _xid_data as data
from ansible_collections.rigwright.workstation.plugins.module_utils import _xid_log as log

Signs = t.Mapping[str, t.Any]

RMA = "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/rma-policy-thresholds-for-row-remapping.html"
ROWS = "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/row-remapping.html"
PAGES = "https://docs.nvidia.com/deploy/dynamic-page-retirement/visibility.html"
NVML = "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html"
DCGM = "https://github.com/NVIDIA/DCGM/blob/master/modules/health/DcgmHealthWatch.cpp"
DCGM_LIMITS = "https://github.com/NVIDIA/DCGM/blob/master/dcgmlib/dcgm_gpu_hardware_limits.h"
AZURE = "https://github.com/Azure/azurehpc-health-checks/blob/main/customTests/azure_gpu_ecc.nhc"
GPUD = "https://github.com/leptonai/gpud/tree/main/components/accelerator/nvidia"


@dataclasses.dataclass(frozen=True)
class Limits:
    """From which number on something is told. Each has its source; a host may have others."""

    # The remapper gives up after 512 rows (NVIDIA's RMA policy), and DCGM fails the GPU there.
    remapped_rows: int = 512
    # DCGM_LIMIT_MAX_RETIRED_PAGES, which follows NVIDIA's field diagnostic; Azure has 62, and the driver room for 64.
    retired_pages: int = 63
    # Azure takes hosts out there. NVIDIA's RMA policy knows no such number, so it is a reason to watch and no more. Of the SRAM, Azure does
    # not allow a single uncorrectable error in a card's life; NVIDIA has a threshold, which the card itself tells.
    ecc_errors: int = 20_000_000
    # DCGM_LIMIT_MAX_PCIREPLAY_RATE, "the maximum recommended by RM".
    pcie_replays_per_minute: float = 8
    # DCGM's limit for CRC errors; of all other errors of NVLink it tells the first.
    nvlink_crc_errors_per_second: float = 100
    # gpud looks once a minute and alarms when 6 of 10 looks saw the hardware slow down: the same share of the time, by NVML's own counters.
    slowdown_share: float = 0.6
    # A link that nobody uses saves power with a lower generation: it is judged while the GPU is at work for this part of the time.
    busy_percent: int = 50


@dataclasses.dataclass(frozen=True)
class Reason:
    what: str
    evidence: str
    source: str
    verdict: str
    next_step: str


NEXT_STEPS = {
    data.PASS: "",
    data.MONITOR: "nothing has to be done now: look whether it grows",
    data.RESTART_APP: "start the program again; where it fails on this GPU only, look at the GPU",
    data.RESET_GPU: "end what uses the GPU and reset it (nvidia-smi --gpu-reset -i <uuid>); if that fails, reboot",
    data.REBOOT: "reboot; if it comes back, power the host off, reseat the card, and have it replaced",
    data.REPLACE: "take the card out of use, run NVIDIA's field diagnostic on it, and have it replaced",
}

# NVML's failures, by their stable names. Every other one is looked at: it says nothing of the GPU by itself.
ERROR_VERDICTS = {
    "GPU_IS_LOST": data.REBOOT,
    "RESET_REQUIRED": data.RESET_GPU,
    "LIB_RM_VERSION_MISMATCH": data.REBOOT,
    "DRIVER_NOT_LOADED": data.REBOOT,
    "LIBRARY_NOT_FOUND": data.REBOOT,
    "IRQ_ISSUE": data.REBOOT,
    "INSUFFICIENT_POWER": data.REBOOT,
    "CORRUPTED_INFOROM": data.REBOOT,
}

# What the hardware itself does, by gpu_info's names. Software that keeps a limit of power or heat does what it should.
HARDWARE_SLOWDOWNS = ("hw_slowdown", "hw_thermal", "power_brake")


def at(signs: t.Any, *path: str) -> t.Any | None:
    """What lies at a path of keys. None where the card has no such thing, on whatever level."""
    for key in path:
        if signs is None:
            return None
        signs = signs.get(key)
    return signs


def rank(verdict: str) -> int:
    return data.VERDICTS.index(verdict)


def gravest(verdicts: t.Iterable[str]) -> str:
    return max(verdicts, key=rank, default=data.PASS)


def judge(card: Signs, xids: t.Sequence[log.Xid], host: Signs) -> dict[str, t.Any]:
    """The verdict on a GPU and all reasons, the one that decides first.

    :param card: as _gpu_state.read_card() has it, and ``since_last_look`` of _gpu_history.compare(). What is missing or None is unknown.
    :param xids: what the kernel's log has of this GPU and is not over (_gpu_history.split()).
    :param host: ``problem``, as NvmlError.told() has it, where NVML as a whole does not answer; ``limits``.
    """
    limits = host.get("limits") or Limits()
    reasons = [
        *_handle(card, host),
        *_recovery(card),
        *_memory(card, limits),
        *_xids(xids),
        *_returns(card),
        *_links(card, limits),
        *_slowdowns(card, limits),
    ]
    ordered = sorted(reasons, key=lambda reason: -rank(reason.verdict))
    return {
        "verdict": gravest(reason.verdict for reason in reasons),
        "reasons": [dataclasses.asdict(reason) for reason in ordered],
    }


def reason(what: str, evidence: str, source: str, verdict: str, next_step: str = "") -> Reason:
    return Reason(what, evidence, source, verdict, next_step or NEXT_STEPS[verdict])


# --- In the order of authority ---------------------------------------------------------------------------------------


def _handle(card: Signs, host: Signs) -> t.Iterator[Reason]:
    for problem in (host.get("problem"), card.get("problem")):
        if problem:
            yield of_error(problem)
    if card.get("shown_by_nvml") is False:
        words = "the driver has the card on the PCI bus, and NVML does not show it: it did not start"
        yield reason("not_shown", words, NVML, data.REBOOT)


def of_error(problem: Signs) -> Reason:
    name = problem["nvml_error"]
    verdict = ERROR_VERDICTS.get(name, data.MONITOR)
    return reason(f"nvml_{name}", f"{problem['function']} says {name}", NVML, verdict, problem["next_step"])


def _recovery(card: Signs) -> t.Iterator[Reason]:
    action = at(card, "counters", "recovery_action")
    if action not in (None, "none"):
        wanted = data.recovery(action)
        words = f"the driver asks for: {wanted.name}"
        yield reason("recovery_action", words, wanted.source, wanted.verdict, wanted.next_step)


def _memory(card: Signs, limits: Limits) -> t.Iterator[Reason]:
    counters = card.get("counters")
    rows, pages = at(counters, "remapped_rows"), at(counters, "retired_pages")
    repair, errors = at(counters, "repair_pending"), at(counters, "ecc_errors")
    flags = (
        ("unrepairable_memory", at(counters, "unrepairable_memory"), "memory cannot be repaired any more", RMA, data.REPLACE),
        ("row_remap_failure", at(rows, "failure"), "a row could not be remapped", RMA, data.REPLACE),
        ("sram_threshold", at(counters, "sram", "threshold_exceeded"), "the SRAM has more errors than NVIDIA allows", RMA, data.REPLACE),
        ("channel_repair", at(repair, "channel"), "a channel of the memory is repaired with the next reset", RMA, data.RESET_GPU),
        ("tpc_repair", at(repair, "tpc"), "a TPC is repaired with the next reset", RMA, data.RESET_GPU),
        ("row_remap_pending", at(rows, "pending"), "a row is remapped with the next reset", ROWS, data.RESET_GPU),
        ("page_retirement_pending", at(pages, "pending"), "a page is retired with the next reset", PAGES, data.RESET_GPU),
    )  # fmt: skip
    for what, is_set, words, source, verdict in flags:
        if is_set:
            yield reason(what, words, source, verdict)
    retired = None if pages is None else pages["single_bit"] + pages["double_bit"]
    counts = (
        ("remapped_rows", at(rows, "uncorrectable"), limits.remapped_rows, "rows remapped for uncorrectable errors", DCGM, data.REPLACE),
        ("retired_pages", retired, limits.retired_pages, "pages retired", DCGM_LIMITS, data.REPLACE),
        ("uncorrected_errors", at(errors, "volatile", "uncorrected"), 1, "uncorrected errors since the driver's load", RMA, data.MONITOR),
        ("lifetime_errors", at(errors, "aggregate", "corrected"), limits.ecc_errors, "corrected errors in its life", AZURE, data.MONITOR),
        ("lifetime_errors", at(errors, "aggregate", "uncorrected"), limits.ecc_errors, "uncorrected ones in its life", AZURE, data.MONITOR),
    )  # fmt: skip
    for what, found, limit, words, source, verdict in counts:
        if found is not None and found >= limit:
            yield reason(what, f"{found} {words} (told from {limit} on)", source, verdict)


def _xids(xids: t.Sequence[log.Xid]) -> t.Iterator[Reason]:
    codes = list(dict.fromkeys(xid.code for xid in xids))
    for code in codes:
        same = [xid for xid in xids if xid.code == code]
        row = data.find(code)
        # An Xid 154 says another action each time, one of NVLink 5 may be fatal or not.
        decides = max(same, key=lambda xid: rank(log.verdict_of(xid)))
        step = data.recovery(decides.action).next_step if decides.action else ""
        yield reason(f"xid_{code}", f"{row.name}; {_told(same)}", row.source, log.verdict_of(decides), step)


def _returns(card: Signs) -> t.Iterator[Reason]:
    for code in card.get("returned_xids") or []:
        words = f"Xid {code}, {data.find(code).name}, is there again after two reboots"
        yield reason(f"xid_{code}_returned", words, f"{GPUD}/xid/threshold.go", data.REPLACE)


def _told(same: t.Sequence[log.Xid]) -> str:
    last = same[-1]
    often = "once, " if len(same) == 1 else f"{len(same)} times, the last "
    when = "at an unknown time" if last.time is None else clock.strftime("%Y-%m-%dT%H:%M:%SZ", clock.gmtime(last.time))
    process = f" by {last.process or 'process'} ({last.pid})" if last.pid else ""
    words = f": {last.text[:200]}" if last.text else ""
    return f"{often}{when}{process}{words}"


def _links(card: Signs, limits: Limits) -> t.Iterator[Reason]:
    busy = at(card, "utilization", "gpu_percent")
    if busy is not None and busy >= limits.busy_percent:
        for name in ("generation", "width"):
            now, highest = at(card, "pcie", f"current_{name}"), at(card, "pcie", f"max_{name}")
            if now and highest and now < highest:
                words = f"{name} {now} of {highest}, with the GPU at work for {busy} % of the time"
                yield reason(
                    f"pcie_{name}",
                    words,
                    DCGM,
                    data.MONITOR,
                    "look at slot and riser, and at the BIOS's setting for them",
                )
    since = card.get("since_last_look")
    gone, seconds = at(since, "nvlinks_gone"), at(since, "seconds")
    if gone:
        words = f"links {', '.join(map(str, gone))} were active at the last look and are not now"
        # The same as for Xid 74, which such a link tells.
        yield reason("nvlink_gone", words, data.CATALOG, data.RESET_GPU)
    rates = (
        ("pcie_replays", "replays on PCIe a minute", 60.0, limits.pcie_replays_per_minute, DCGM_LIMITS),
        ("nvlink_crc_errors", "CRC errors on NVLink a second", 1.0, limits.nvlink_crc_errors_per_second, DCGM),
    )
    for name, words, per, limit, source in rates:
        more = at(since, name)
        if more is not None and seconds and more * per / seconds >= limit:
            yield reason(name, f"{more * per / seconds:.1f} {words} (told from {limit:g} on)", source, data.MONITOR)
    for name in ("nvlink_replays", "nvlink_recoveries"):
        more = at(since, name)
        if more:
            yield reason(name, f"{more} since the last look", DCGM, data.MONITOR)


def _slowdowns(card: Signs, limits: Limits) -> t.Iterator[Reason]:
    step = "look at fans, filters, the room and the power supply"
    found = [name for name in at(card, "clocks", "event_reasons") or [] if name in HARDWARE_SLOWDOWNS]
    if found:
        yield reason("hardware_slowdown", f"the hardware slows down now: {', '.join(found)}", GPUD, data.MONITOR, step)
    seconds, slowed = at(card, "since_last_look", "seconds"), at(card, "since_last_look", "hardware_slowdown_s")
    if slowed is not None and seconds and slowed / seconds >= limits.slowdown_share:
        words = f"{slowed / seconds:.0%} of the time since the last look (told from {limits.slowdown_share:.0%} on)"
        yield reason("slowdown_share", words, GPUD, data.MONITOR, step)
    # The margin that newer cards tell instead may be 0 or below on a card that is well (H100), and is left out.
    for what, now, limit in (("gpu", "gpu_c", "slowdown"), ("memory", "memory_c", "memory_max")):
        temperature, highest = at(card, "temperature", now), at(card, "temperature", "thresholds_c", limit)
        if temperature is not None and highest and temperature >= highest:
            words = f"{temperature} °C, from {highest} °C on it slows down"
            yield reason(f"{what}_temperature", words, NVML, data.MONITOR, step)
