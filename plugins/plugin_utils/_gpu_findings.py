# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Findings of the facts of gpu_info: one line a GPU, which fits into a table."""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding

Facts = t.Mapping[str, t.Any]
_GIB = 1 << 30
_ROLE = "gpu_report"


def findings(info: Facts) -> list[Finding]:
    """Return a finding for the driver, and one for each GPU."""
    problem = info["driver"]["problem"]
    if not info["gpus"]:
        return [_finding("gpus", "skip", "the host has no NVIDIA GPU")]
    return [_driver(info["driver"]), *(_gpu(row, bool(problem)) for row in info["gpus"])]


def _finding(subject: str, status: str, evidence: str, remedy: str = "") -> Finding:
    return finding(f"{_ROLE}.{subject}", status, evidence, remedy)


def _driver(driver: Facts) -> Finding:
    problem = driver["problem"]
    if problem:
        versions = f"module {driver['loaded'] or 'not loaded'}, libraries {driver['library'] or 'not installed'}"
        return _finding("driver", "fail", f"{problem['nvml_error']}: {versions}", problem["next_step"])
    flavour = f" ({driver['modules']} modules)" if driver["modules"] else ""
    return _finding("driver", "pass", f"driver {driver['loaded']}{flavour}, CUDA {driver['cuda']}")


def _gpu(row: Facts, no_nvml: bool) -> Finding:
    place = row["pci_address"] or f"index {row['index']}"
    subject = (
        f"gpu{row['index']}" if row["index"] is not None else f"pci-{str(place).replace(':', '-').replace('.', '-')}"
    )
    name = f"{row['name'] or row['pci_device_id'] or 'a GPU'} at {place}"
    if row["problem"]:
        return _finding(subject, "fail", f"{name}: {row['problem']['nvml_error']}", row["problem"]["next_step"])
    if row["index"] is None:
        reason = "NVML does not answer" if no_nvml else f"its driver is {row['kernel_driver'] or 'none'}, not nvidia"
        return _finding(subject, "skip", f"{name}: {reason}")
    if row["unreadable"]:
        first = row["unreadable"][0]
        evidence = f"{name}: failed calls of NVML: {len(row['unreadable'])}, the first {first['function']} with {first['nvml_error']}"
        return _finding(subject, "warn", evidence, first["next_step"])
    return _finding(subject, "pass", "; ".join(filter(None, [name, *_state(row)])))


def _state(row: Facts) -> list[str]:
    memory, power, heat = row["memory"], row["power"], row["temperature"]["gpu_c"]
    profiles = collections.Counter(device["profile"] for device in row["mig_devices"])
    slices = ", ".join(f"{count} x {profile}" for profile, count in sorted(profiles.items(), key=str))
    mode = (row["sharing"]["mode"] or "").replace("_", " ")
    return [
        f"{mode}{f' ({slices})' if slices else ''}",
        _of(_scaled(memory["used_bytes"]), _scaled(memory["total_bytes"]), "GiB"),
        _of(power["draw_w"], power["enforced_limit_w"], "W"),
        "" if heat is None else f"{heat} °C",
        _users(row["processes"] or []),
    ]


def _scaled(number: int | None) -> float | None:
    return None if number is None else number / _GIB


def _of(now: float | None, most: float | None, unit: str) -> str:
    if now is None or most is None:
        return ""
    return f"{now:.0f} of {most:.0f} {unit}"


def _users(processes: t.Sequence[Facts]) -> str:
    counts = collections.Counter(row["user"] or "an unknown user" for row in processes)
    return "used by " + ", ".join(f"{user} ({count})" for user, count in sorted(counts.items())) if counts else "idle"
