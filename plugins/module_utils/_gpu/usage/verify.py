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

Outcome = tuple[int, str, str]


class Shown(t.TypedDict):
    """What `gpu-who --json` prints."""

    stale: bool
    problem: str
    gpus: t.Sequence[object]


SERVICE, CONTAINERS = "rigwright-gpu-usage.service", "rigwright-gpu-containers.service"
WHO = "/usr/local/bin/gpu-who"
AS_NOBODY = ("runuser", "--user", "nobody", "--")
# Right after the role the first sample may still run.
ATTEMPTS, PAUSE_S = 10, 2
JOURNAL = f"read `journalctl --unit {SERVICE}`"


def read_snapshot(run: t.Callable[..., Outcome]) -> tuple[Shown | None, str]:
    """Read what gpu-who prints for nobody, and an error; one of them is empty."""
    status, text, error = run([*AS_NOBODY, WHO, "--json"])
    if status != 0:
        return None, (error.strip().splitlines() or [f"{WHO} ends with status {status}"])[-1]
    return json.loads(text), ""


def read_fresh_snapshot(run: t.Callable[..., Outcome], wait: t.Callable[[float], None]) -> tuple[Shown | None, str]:
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


def snapshot_findings(found: Shown | None, error: str) -> list[Finding]:
    """Return the findings on the age of the snapshot, and on NVML."""
    if not found or found["stale"]:
        return [finding("gpu_usage.fresh", "fail", f"the snapshot: {error or 'it is stale'}", JOURNAL)]
    evidence, problem = f"every user can read it; it has {len(found['gpus'])} GPUs", found["problem"]
    return [
        finding("gpu_usage.fresh", "pass", f"the snapshot: {evidence}"),
        # The roles for the driver and for health say how bad it is.
        finding("gpu_usage.nvml", "warn" if problem else "pass", problem or "NVML answers the sampler", JOURNAL),
    ]


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
    run: t.Callable[..., Outcome], folder: str, containers: bool, wait: t.Callable[[float], None] = time.sleep
) -> list[Finding]:
    """Return the findings on the units, the snapshot and the metrics."""
    units = [SERVICE, *([CONTAINERS] if containers else [])]
    found, error = read_fresh_snapshot(run, wait)
    return [
        sandboxing.check(run, "gpu_usage", units),
        running(run, SERVICE, "gpu_usage.sampler"),
        *([running(run, CONTAINERS, "gpu_usage.containers")] if containers else []),
        *snapshot_findings(found, error),
        *([metrics_finding(run, folder)] if folder else []),
    ]
