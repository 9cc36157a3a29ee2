# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read snapshot and metrics of the installed sampler as their readers do, and return what was found."""

from __future__ import annotations

import json
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.metrics import TEXTFILE
from ansible_collections.rigwright.workstation.plugins.module_utils._system import sandboxing

Params = t.Mapping[str, t.Any]
Outcome = tuple[int, str, str]

SERVICE, CONTAINERS = "rigwright-gpu-usage.service", "rigwright-gpu-containers.service"
WHO = "/usr/local/bin/gpu-who"
AS_NOBODY = ("runuser", "--user", "nobody", "--")
# Right after the role the first sample may still run.
ATTEMPTS, PAUSE_S = 10, 2
JOURNAL = f"read `journalctl --unit {SERVICE}`"


def read_snapshot(run: t.Callable[..., Outcome]) -> tuple[dict[str, t.Any], str]:
    """Read what gpu-who prints for nobody, and an error; one of them is empty."""
    status, text, error = run([*AS_NOBODY, WHO, "--json"])
    if status != 0:
        return {}, (error.strip().splitlines() or [f"{WHO} ends with status {status}"])[-1]
    found: dict[str, t.Any] = json.loads(text)
    return found, ""


def read_fresh_snapshot(run: t.Callable[..., Outcome], wait: t.Callable[[float], None]) -> tuple[dict[str, t.Any], str]:
    """Read the snapshot until it is fresh, or for a while."""
    for _attempt in range(ATTEMPTS - 1):
        found, error = read_snapshot(run)
        if found and not found["stale"]:
            return found, error
        wait(PAUSE_S)
    return read_snapshot(run)


def running(run: t.Callable[..., Outcome], unit: str, identifier: str) -> Finding:
    """Return the finding on a unit."""
    _status, text, error = run(["systemctl", "is-active", unit])
    state = text.strip()
    return finding(
        identifier,
        "pass" if state == "active" else "fail",
        f"{unit} is {state or error.strip() or 'not installed'}",
        f"run the role again; `systemctl status {unit}` has the reason",
    )


def snapshot_findings(found: Params, error: str) -> list[Finding]:
    """Return the findings on the age of the snapshot, and on NVML."""
    fresh = bool(found) and not found["stale"]
    evidence = f"every user can read it; it has {len(found['gpus'])} GPUs" if fresh else error or "it is stale"
    rows = [finding("gpu_usage.fresh", "pass" if fresh else "fail", f"the snapshot: {evidence}", JOURNAL)]
    problem = found.get("problem", "")
    if fresh:
        # The roles for the driver and for health say how bad it is.
        rows.append(
            finding("gpu_usage.nvml", "warn" if problem else "pass", problem or "NVML answers the sampler", JOURNAL)
        )
    return rows


def metrics_finding(run: t.Callable[..., Outcome], folder: str) -> Finding:
    """Return the finding on the metrics that node_exporter reads."""
    path = f"{folder}/{TEXTFILE}"
    status, text, error = run([*AS_NOBODY, "head", "--bytes=4096", "--", path])
    passes = status == 0 and "rigwright_gpu_usage_up" in text
    reason = (error.strip().splitlines() or ["it has no metrics"])[-1]
    return finding(
        "gpu_usage.metrics",
        "pass" if passes else "fail",
        f"{path} can be read by every user" if passes else reason,
        f"gpu_usage_textfile_directory has to exist, as node_exporter's package creates it; then restart {SERVICE}",
    )


def findings(
    run: t.Callable[..., Outcome], request: Params, containers: bool, wait: t.Callable[[float], None] = time.sleep
) -> list[Finding]:
    """Return the findings on the units, the snapshot and the metrics."""
    units = [SERVICE, *([CONTAINERS] if containers else [])]
    found, error = read_fresh_snapshot(run, wait)
    return [
        sandboxing.check(run, "gpu_usage", units),
        running(run, SERVICE, "gpu_usage.sampler"),
        *([running(run, CONTAINERS, "gpu_usage.containers")] if containers else []),
        *snapshot_findings(found, error),
        *([metrics_finding(run, request["textfile_directory"])] if request["textfile_directory"] else []),
    ]
