# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdict on a GPU, with every reason for it, from the facts of NVML and the kernel's log. Pure.

The gravest reason decides, and among equals the one of the highest authority: NVML's answer, the driver's own recovery action, memory,
Xids, links, heat and power. More evidence of a fault never makes a verdict milder. An unknown value (None) is no reason.
"""

from __future__ import annotations

import dataclasses
import time as clock
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import links
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_log as log
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.reason import (
    AZURE,
    DCGM,
    DCGM_LIMITS,
    GPUD,
    IMBUE,
    NVML,
    NVSENTINEL,
    PAGES,
    PROBE,
    RMA,
    ROWS,
    Limits,
    Reason,
    at,
    gravest,
    rank,
    reason,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.rows import ReasonRow, Signs, Verdict
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import ErrorRow

# NVML's errors, by their stable names. Every other error is MONITOR: it says nothing about the GPU by itself.
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
__all__ = ["GPUD", "Limits", "Reason", "at", "gravest", "judge", "of_error", "rank", "reason", "row_of"]

# Slow-downs by the hardware itself, by gpu_info's names. Software that keeps a limit of power or heat works as designed.
HARDWARE_SLOWDOWNS = ("hw_slowdown", "hw_thermal", "power_brake")


class OfHost(t.TypedDict, total=False):
    """What counts for all GPUs: the error where NVML as a whole does not answer, and the reasons that are reported and do not count."""

    problem: ErrorRow | None
    limits: Limits | None
    ignored: t.Collection[str]


def judge(card: Signs, xids: t.Sequence[log.Xid], host: OfHost) -> Verdict:
    """Return the verdict on a GPU and all reasons, the deciding one first.

    :param card: the facts of _gpu.state.read_card(), with those that _gpu.health.run adds. A missing value or None is unknown.
    :param xids: the Xids of this GPU that are not over (_gpu.health.history.split()).
    """
    limits = host.get("limits") or Limits()
    reasons = [
        *_handle(card, host),
        *_absence(card),
        *_recovery(card),
        *_memory(card, limits),
        *_xids(xids),
        *_returns(card),
        *_repeats(card, limits),
        *links.judge(card, limits),
        *_settings(card),
        *_slowdowns(card, limits),
    ]
    reasons = [ignored(reason) if reason.what in host.get("ignored", ()) else reason for reason in reasons]
    ordered = sorted(reasons, key=lambda reason: -rank(reason.verdict))
    return {
        "verdict": gravest(reason.verdict for reason in reasons),
        "reasons": [row_of(reason) for reason in ordered],
    }


def row_of(row: Reason) -> ReasonRow:
    """Return a reason in a result."""
    return t.cast("ReasonRow", dataclasses.asdict(row))


def ignored(row: Reason) -> Reason:
    """Return a reason that does not count."""
    return dataclasses.replace(row, evidence=f"{row.evidence} (ignored)", verdict=data.PASS, next_step="")


# --- In the order of authority ---------------------------------------------------------------------------------------


def _handle(card: Signs, host: OfHost) -> t.Iterator[Reason]:
    for problem in (host.get("problem"), card.get("problem")):
        if problem:
            yield of_error(problem)
    if card.get("shown_by_nvml") is False:
        evidence = "the driver has the card on the PCI bus, and NVML does not show it: it did not start"
        yield reason("not_shown", evidence, NVML, data.REBOOT)


def of_error(problem: ErrorRow) -> Reason:
    """Return the reason for an error of NVML."""
    name = problem["nvml_error"]
    verdict = ERROR_VERDICTS.get(name, data.MONITOR)
    return reason(f"nvml_{name}", f"{problem['function']} says {name}", NVML, verdict, problem["next_step"])


def _absence(card: Signs) -> t.Iterator[Reason]:
    absence = card.get("absence")
    if not absence:
        return
    kind, again = absence["what"], absence["boots"] > 1
    bar = "" if absence.get("bar") is None else f" (BAR{absence['bar']} is 0M)"
    if kind == "unsupported":
        evidence = "the driver does not support this card, and does not use it"
        yield reason(
            "unsupported",
            evidence,
            PROBE,
            data.MONITOR,
            "choose a driver, and modules, that support it, or ignore `unsupported`",
        )
        return
    if kind == "no_room":
        step = "switch on Above 4G Decoding in the firmware; in a virtual machine, give it a larger window for MMIO in the hypervisor"
        yield reason("no_room", f"the firmware gave it no addresses{bar}", PROBE, data.MONITOR, step)
        return
    evidence = {
        "missing": "the last check found it, and it is neither on the PCI bus nor shown by NVML",
        "no_driver": "it is on the PCI bus without a driver, and nvidia is loaded: it did not start" + bar,
    }[kind]
    verdict = data.REPLACE if again else data.REBOOT
    step = "reboot; if it is still missing, power the host off and reseat the card; then have it replaced"
    if again:
        evidence += ", also after a reboot"
        step = "power the host off and reseat the card; if that does not help, have it replaced"
    if kind == "missing":
        step += ". If it was taken out, name it in gpu_health_acknowledged"
    yield reason(kind, evidence, GPUD if kind == "missing" else PROBE, verdict, step)


def _recovery(card: Signs) -> t.Iterator[Reason]:
    action = at(card, "counters", "recovery_action")
    if action not in (None, "none"):
        wanted = data.recovery(action)
        evidence = f"the driver asks for: {wanted.name}"
        yield reason("recovery_action", evidence, wanted.source, wanted.verdict, wanted.next_step)


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
        ("inforom_corrupted", at(counters, "inforom_valid") is False, "a checksum of the InfoROM is wrong", DCGM, data.REBOOT),
    )  # fmt: skip
    for name, is_set, evidence, source, verdict in flags:
        if is_set:
            yield reason(name, evidence, source, verdict)
    double, week = at(pages, "double_bit"), card.get("double_bit_pages_in_a_week")
    retired = None if pages is None else pages["single_bit"] + pages["double_bit"]
    counts = (
        ("remapped_rows", at(rows, "uncorrectable"), limits.remapped_rows, "rows remapped for uncorrectable errors", DCGM, data.REPLACE),
        ("retired_pages", retired, limits.retired_pages, "pages retired", DCGM_LIMITS, data.REPLACE),
        ("banks_without_spare_rows", at(rows, "banks", "none"), 1, "banks of the memory have no spare row left", ROWS, data.MONITOR),
        ("uncorrected_errors", at(errors, "volatile", "uncorrected"), 1, "uncorrected errors since the driver's load", RMA, data.MONITOR),
        ("lifetime_errors", at(errors, "aggregate", "corrected"), limits.ecc_errors, "corrected errors in its life", AZURE, data.MONITOR),
        ("lifetime_errors", at(errors, "aggregate", "uncorrected"), limits.ecc_errors, "uncorrected ones in its life", AZURE, data.MONITOR),
    )  # fmt: skip
    for name, found, limit, evidence, source, verdict in counts:
        if found is not None and found >= limit:
            yield reason(name, f"{found} {evidence} (limit {limit})", source, verdict)
    if double is not None and double >= limits.double_bit_pages and (retired or 0) < limits.retired_pages:
        growth = "it is not known how many of them within a week" if week is None else f"{week} of them within a week"
        evidence = f"{double} pages retired for double-bit errors (limit {limits.double_bit_pages}), {growth}"
        # DCGM: "accumulating more than 1 per week after the limit has been met".
        yield reason("double_bit_pages", evidence, DCGM, data.REPLACE if week and week > 1 else data.MONITOR)


def _xids(xids: t.Sequence[log.Xid]) -> t.Iterator[Reason]:
    codes = list(dict.fromkeys(xid.code for xid in xids))
    for code in codes:
        same = [xid for xid in xids if xid.code == code]
        row = data.find(code)
        # Each Xid 154 names its own action, and an Xid of NVLink 5 may be fatal or not.
        decides = max(same, key=lambda xid: rank(log.verdict_of(xid)))
        step = data.recovery(decides.action).next_step if decides.action else ""
        if row.subsystem == data.DISPLAY:
            step = (
                "check monitor, cable and adapter; if the picture is gone, log in again, or restart the display manager"
            )
        yield reason(f"xid_{code}", f"{row.name}; {_occurrences(same)}", row.source, log.verdict_of(decides), step)


def _returns(card: Signs) -> t.Iterator[Reason]:
    for code in card.get("returned_xids") or []:
        evidence = f"Xid {code}, {data.find(code).name}, is back after two reboots"
        yield reason(f"xid_{code}_returned", evidence, f"{GPUD}/xid/threshold.go", data.REPLACE)


def _repeats(card: Signs, limits: Limits) -> t.Iterator[Reason]:
    for row in card.get("repeated_xids") or []:
        if max(row["count"], row["at_place"]) < limits.repeated_xids:
            continue
        where = f", {row['at_place']} lines at {row['place']}" if row["place"] else ""
        evidence = (
            f"{data.find(row['code']).name}: {row['count']} times within a day{where} (limit {limits.repeated_xids})"
        )
        step = "run NVIDIA's diagnostic (dcgmi diag) where correct programs fail as well"
        yield reason(f"xid_{row['code']}_repeated", evidence, NVSENTINEL, data.MONITOR, step)


def _settings(card: Signs) -> t.Iterator[Reason]:
    ecc = at(card, "modes", "ecc")
    # Cards for workstations have a mode that is off by default.
    if at(ecc, "current") is False and at(ecc, "default"):
        evidence = "ECC is off, and on by default on this card: errors of the memory are neither corrected nor reported"
        yield reason("ecc_off", evidence, IMBUE, data.MONITOR, "switch it on (gpu_mode: ecc), or ignore `ecc_off`")


def _occurrences(same: t.Sequence[log.Xid]) -> str:
    last = same[-1]
    often = "once, " if len(same) == 1 else f"{len(same)} times, the last "
    when = "at an unknown time" if last.time is None else clock.strftime("%Y-%m-%dT%H:%M:%SZ", clock.gmtime(last.time))
    process = f" by {last.process or 'process'} ({last.pid})" if last.pid else ""
    evidence = f": {last.text[:200]}" if last.text else ""
    return f"{often}{when}{process}{evidence}"


def _slowdowns(card: Signs, limits: Limits) -> t.Iterator[Reason]:
    step = "check fans, filters, the room and the power supply"
    found = [name for name in at(card, "clocks", "event_reasons") or [] if name in HARDWARE_SLOWDOWNS]
    if found:
        yield reason("hardware_slowdown", f"the hardware slows down now: {', '.join(found)}", GPUD, data.MONITOR, step)
    seconds, slowed = at(card, "since_last_check", "seconds"), at(card, "since_last_check", "hardware_slowdown_s")
    if slowed is not None and seconds and slowed / seconds >= limits.slowdown_share:
        evidence = f"{slowed / seconds:.0%} of the time since the last check (limit {limits.slowdown_share:.0%})"
        yield reason("slowdown_share", evidence, GPUD, data.MONITOR, step)
    # Newer cards report a margin instead. It is left out: it may be 0 or below on a healthy card (H100).
    for part, now, limit in (("gpu", "gpu_c", "slowdown"), ("memory", "memory_c", "memory_max")):
        temperature, highest = at(card, "temperature", now), at(card, "temperature", "thresholds_c", limit)
        if temperature is not None and highest and temperature >= highest:
            evidence = f"{temperature} °C, from {highest} °C on it slows down"
            yield reason(f"{part}_temperature", evidence, NVML, data.MONITOR, step)
