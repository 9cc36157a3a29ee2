# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""What gpu_info tells, as findings: a line a GPU that fits into a table."""

from __future__ import annotations

import collections
import typing as t

Facts = t.Mapping[str, t.Any]
Finding = dict[str, str]

_GIB = 1 << 30
_ROLE = "gpu_report"


def findings(info: Facts) -> list[Finding]:
    """One for the driver, and one for each GPU."""
    problem = info["driver"]["problem"]
    if not info["gpus"]:
        return [_finding("gpus", "skip", "no NVIDIA GPU is here")]
    return [_driver(info["driver"]), *(_gpu(row, bool(problem)) for row in info["gpus"])]


def _finding(what: str, status: str, evidence: str, remedy: str = "") -> Finding:
    return {"id": f"{_ROLE}.{what}", "status": status, "evidence": evidence, "remedy": remedy}


def _driver(driver: Facts) -> Finding:
    problem = driver["problem"]
    if problem:
        versions = f"module {driver['loaded'] or 'not loaded'}, libraries {driver['library'] or 'not there'}"
        return _finding("driver", "fail", f"{problem['nvml_error']}: {versions}", problem["next_step"])
    flavour = f" ({driver['modules']} modules)" if driver["modules"] else ""
    return _finding("driver", "pass", f"driver {driver['loaded']}{flavour}, CUDA {driver['cuda']}")


def _gpu(row: Facts, unasked: bool) -> Finding:
    place = row["pci_address"] or f"index {row['index']}"
    what = f"gpu{row['index']}" if row["index"] is not None else f"pci-{str(place).replace(':', '-').replace('.', '-')}"
    name = f"{row['name'] or row['pci_device_id'] or 'a GPU'} at {place}"
    if row["problem"]:
        return _finding(what, "fail", f"{name}: {row['problem']['nvml_error']}", row["problem"]["next_step"])
    if row["index"] is None:
        reason = "NVML cannot be asked" if unasked else f"not the driver's, but {row['kernel_driver'] or 'nobody'}'s"
        return _finding(what, "skip", f"{name}: {reason}")
    if row["unreadable"]:
        first = row["unreadable"][0]
        evidence = f"{name}: failed questions: {len(row['unreadable'])}, the first {first['function']} with {first['nvml_error']}"
        return _finding(what, "warn", evidence, first["next_step"])
    return _finding(what, "pass", "; ".join(filter(None, [name, *_state(row)])))


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
    counts = collections.Counter(row["user"] or "somebody" for row in processes)
    return "used by " + ", ".join(f"{user} ({count})" for user, count in sorted(counts.items())) if counts else "idle"
