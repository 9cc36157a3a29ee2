# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The result of a health check as findings, and as metrics in Prometheus' text format. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import verdict as health
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.rows import (
    GpuRow,
    ReasonRow,
    Result,
    SwitchRow,
)

# The reason of the host that is not an error of NVML (_gpu.health.run).
COUNT = "gpu_count"

_STATUSES = {data.PASS: "pass", data.MONITOR: "warn"}

# Metrics of a card: name, type, description, path in gpu_info's facts, and factor. Names and base units follow the rules of Prometheus
# (prometheus.io/docs/practices/naming).
_OF_CARDS = (
    ("temperature_celsius", "gauge", "Temperature of the GPU.", "temperature.gpu_c", 1),
    ("memory_temperature_celsius", "gauge", "Temperature of the memory.", "temperature.memory_c", 1),
    ("power_watts", "gauge", "Power that the GPU draws.", "power.draw_w", 1),
    ("utilization_ratio", "gauge", "Part of the time in which the GPU was busy.", "utilization.gpu_percent", 0.01),
    ("memory_used_bytes", "gauge", "Memory in use.", "memory.used_bytes", 1),
    ("memory_total_bytes", "gauge", "Memory of the GPU.", "memory.total_bytes", 1),
    ("pcie_generation", "gauge", "Generation of the PCIe link now.", "pcie.current_generation", 1),
    ("pcie_width_lanes", "gauge", "Width of the PCIe link now.", "pcie.current_width", 1),
    ("pcie_replays_total", "counter", "Replays on PCIe.", "counters.pcie.replays", 1),
    ("remapper_banks_without_spare_rows", "gauge", "Banks of the memory without a spare row.", "counters.remapped_rows.banks.none", 1),
    ("nvlinks_active", "gauge", "Links of NVLink that are active.", "nvlink.active", 1),
    ("nvlink_crc_errors_total", "counter", "CRC errors on NVLink.", "counters.nvlink.crc_errors", 1),
    ("ecc_corrected_errors_total", "counter", "Memory errors in the card's life.", "counters.ecc_errors.aggregate.corrected", 1),
    ("ecc_uncorrected_errors_total", "counter", "Memory errors in the card's life.", "counters.ecc_errors.aggregate.uncorrected", 1),
    ("remapped_rows_correctable", "gauge", "Rows remapped for correctable errors.", "counters.remapped_rows.correctable", 1),
    ("remapped_rows_uncorrectable", "gauge", "Rows remapped for uncorrectable errors.", "counters.remapped_rows.uncorrectable", 1),
    ("row_remap_pending", "gauge", "Whether a row is remapped with the next reset.", "counters.remapped_rows.pending", 1),
    ("row_remap_failure", "gauge", "Whether a row could not be remapped.", "counters.remapped_rows.failure", 1),
    ("thermal_slowdown_seconds_total", "counter", "Time in which heat slowed the hardware down.", "counters.throttled.hw_thermal_ns", 1e-9),
    ("power_brake_seconds_total", "counter", "Time in which the power brake slowed it down.", "counters.throttled.power_brake_ns", 1e-9),
)  # fmt: skip


# The role nvidia_driver reports whether it is a failure, or a reboot is due after a change.
_OF_THE_DRIVER = frozenset({"nvml_DRIVER_NOT_LOADED", "nvml_LIB_RM_VERSION_MISMATCH", "nvml_LIBRARY_NOT_FOUND"})


def findings(result: Result, prefix: str = "gpu_health") -> list[dict[str, str]]:
    """Return the findings: each GPU, each NVSwitch with SXids, an expected number of GPUs, NVML, and what could not be read."""
    of_nvml = [row for row in result["reasons"] if row["what"] != COUNT]
    names = {row["what"] for row in of_nvml}
    found = [_of_gpu(gpu, names, prefix) for gpu in result["gpus"]]
    found += [_of_switch(switch, prefix) for switch in result["nvswitches"]]
    if result["expected_count"]:
        found.append(_of_count(result, prefix))
    verdict = health.gravest(row["verdict"] for row in of_nvml)
    status = "warn" if names & _OF_THE_DRIVER else status_of(verdict)
    found.append(
        {
            "id": f"{prefix}.nvml",
            "status": status if result["gpus"] or of_nvml else "skip",
            "evidence": _of_host(result, of_nvml),
            "remedy": next((row["next_step"] for row in of_nvml), ""),
        }
    )
    found.append(
        {
            "id": f"{prefix}.unread",
            "status": "warn" if result["unread"] else "pass",
            "evidence": "; ".join(result["unread"])[:800] or "NVML and the kernel's log were read",
            "remedy": "make it readable: an unknown value counts as healthy",
        }
    )
    return found


def message(rows: t.Iterable[dict[str, str]], earlier: t.Container[str]) -> str:
    """Return the findings that fail, and did not *earlier*, as a text for people."""
    new = [row for row in rows if row["status"] == "fail" and row["id"] not in earlier]
    return "\n".join(f"{row['evidence']}. To do: {row['remedy']}" for row in new)


def _of_gpu(gpu: GpuRow, of_host: t.Collection[str], prefix: str) -> dict[str, str]:
    """Return the finding of a GPU, without the errors of NVML as a whole: they have a finding of their own."""
    reasons = [row for row in gpu["reasons"] if row["what"] not in of_host]
    verdict = health.gravest(row["verdict"] for row in reasons)
    status, summary = status_of(verdict), verdict
    if of_host and status == "pass":
        status, summary = "skip", "NVML does not answer"
    return {
        "id": f"{prefix}.{slug(name_of(gpu))}",
        "status": status,
        "evidence": f"{gpu['name'] or 'GPU'} at {gpu['pci_address'] or 'no address'}: {summary}{_evidence(reasons)}",
        "remedy": next((row["next_step"] for row in reasons if row["next_step"]), ""),
    }


def _of_switch(switch: SwitchRow, prefix: str) -> dict[str, str]:
    return {
        "id": f"{prefix}.{slug(switch['name'])}",
        "status": status_of(switch["verdict"]),
        "evidence": f"{switch['name']} at {switch['pci_address']}: {switch['verdict']}{_evidence(switch['reasons'])}",
        "remedy": next((row["next_step"] for row in switch["reasons"] if row["next_step"]), ""),
    }


def _of_count(result: Result, prefix: str) -> dict[str, str]:
    row = next((row for row in result["reasons"] if row["what"] == COUNT), None)
    return {
        "id": f"{prefix}.count",
        "status": status_of(row["verdict"]) if row else "pass",
        "evidence": row["evidence"] if row else f"{result['expected_count']} GPUs are there, as expected",
        "remedy": row["next_step"] if row else "",
    }


def _of_host(result: Result, reasons: t.Sequence[ReasonRow]) -> str:
    if reasons:
        return "; ".join(row["evidence"] for row in reasons)
    return f"the host has {len(result['gpus'])} NVIDIA GPUs" if result["gpus"] else "no NVIDIA GPU here"


def status_of(verdict: str) -> str:
    """Return the status of a finding for a verdict."""
    return _STATUSES.get(verdict, "fail")


def name_of(gpu: GpuRow) -> str:
    """Return the name of a GPU in findings."""
    return str(gpu["uuid"] or gpu["pci_address"] or f"index {gpu['index']}")


def slug(name: str) -> str:
    """Return a name in the letters of a finding's id."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")


def _evidence(reasons: t.Sequence[ReasonRow]) -> str:
    lines = [f"{row['what']} ({row['evidence']})" for row in reasons if row["verdict"] != data.PASS]
    return f": {'; '.join(lines)[:700]}" if lines else ""


def metrics(result: Result) -> str:
    """Return metrics in Prometheus' text format. A value that a card does not have has no line: 0 would be a value."""
    gpus = [(_labels(gpu), gpu) for gpu in result["gpus"]]
    lines = [
        *_metric("gpu_health_last_check_timestamp_seconds", "gauge", "Time of the last check.", [("", result["time"])]),
        *_metric(
            "gpu_health_unread", "gauge", "Number of things that could not be read.", [("", len(result["unread"]))]
        ),
        *_metric(
            "gpu_health_host_verdict",
            "gauge",
            _explained("Verdict on the host"),
            [("", health.rank(result["verdict"]))],
        ),
        *_metric(
            "gpu_health_verdict",
            "gauge",
            _explained("Verdict on the GPU"),
            [(labels, health.rank(gpu["verdict"])) for labels, gpu in gpus],
        ),
        *_metric(
            "gpu_health_reason",
            "gauge",
            _explained("Reason for the verdict on the GPU"),
            [
                (f'{labels},what="{_escaped(name)}"', verdict)
                for labels, gpu in gpus
                for name, verdict in _reasons(gpu).items()
            ],
        ),
        *_metric(
            "gpu_health_nvswitch_verdict",
            "gauge",
            _explained("Verdict on an NVSwitch with SXids"),
            [
                (
                    f'name="{_escaped(row["name"])}",pci_address="{_escaped(row["pci_address"])}"',
                    health.rank(row["verdict"]),
                )
                for row in result["nvswitches"]
            ],
        ),
        *_metric(
            "gpu_health_xids",
            "gauge",
            "Xids of this boot that are not over.",
            [
                (f'{labels},xid="{code}"', count)
                for labels, gpu in gpus
                for code, count in _count(row["code"] for row in gpu["xids"]).items()
            ],
        ),
    ]
    for name, kind, description, path, factor in _OF_CARDS:
        values = [(labels, health.at(gpu["card"], *path.split("."))) for labels, gpu in gpus]
        lines += _metric(
            f"gpu_{name}",
            kind,
            description,
            [(labels, value * factor) for labels, value in values if value is not None],
        )
    return "".join(f"{line}\n" for line in lines)


def _explained(description: str) -> str:
    return f"{description}: {', '.join(f'{number} {name}' for number, name in enumerate(data.VERDICTS))}."


def _reasons(gpu: GpuRow) -> dict[str, int]:
    """Return the rank of each reason by its name; of two with one name, the graver one."""
    found: dict[str, int] = {}
    for row in gpu["reasons"]:
        found[row["what"]] = max(found.get(row["what"], 0), health.rank(row["verdict"]))
    return found


def _count(codes: t.Iterable[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for code in codes:
        found[code] = found.get(code, 0) + 1
    return found


def _labels(gpu: GpuRow) -> str:
    labels = {"uuid": gpu["uuid"], "pci_address": gpu["pci_address"], "name": gpu["name"]}
    return ",".join(f'{name}="{_escaped(str(value or ""))}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _metric(name: str, kind: str, description: str, rows: t.Sequence[tuple[str, float]]) -> list[str]:
    """Return the lines of a metric; none without any value."""
    if not rows:
        return []
    full = f"rigwright_{name}"
    values = [
        f"{full}{{{labels}}} {_number(value)}" if labels else f"{full} {_number(value)}" for labels, value in rows
    ]
    return [f"# HELP {full} {description}", f"# TYPE {full} {kind}", *values]


def _number(value: float) -> str:
    return repr(int(value)) if value == int(value) else repr(round(value, 9))
