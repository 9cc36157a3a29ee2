# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the report of the installed check as its readers do, and return what was found."""

from __future__ import annotations

import json
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.state import REPORT, TEXTFILE
from ansible_collections.rigwright.workstation.plugins.module_utils._system import sandboxing

Outcome = tuple[int, str, str]


class Request(t.TypedDict):
    """The options of the role that say where the report is, and when it is stale."""

    interval_s: int
    textfile_directory: str


class Read(t.TypedDict):
    """What READ prints."""

    age_s: int
    findings: list[Finding]


TIMER, SERVICE = "rigwright-gpu-health.timer", "rigwright-gpu-health.service"
# Right after the role the first check may still run.
ATTEMPTS, PAUSE_S = 15, 2
# Print the findings of the report, and the age of the report or of the textfile, whichever is older.
READ = """\
import json, os, sys, time
with open(sys.argv[1]) as file:
    report = json.load(file)
# Another user may own the directory of the textfile, and put a FIFO there: opening it would wait for ever.
found = [open(os.open(path, os.O_RDONLY | os.O_NONBLOCK)) for path in sys.argv[2:]]
oldest = min([report["time"], *(os.fstat(file.fileno()).st_mtime for file in found if file.read())])
print(json.dumps({"age_s": int(time.time() - oldest), "findings": report["findings"]}))
"""


def stale_s(interval_s: int) -> int:
    """Return the age from which a report is stale: three checks, of which one may take a minute."""
    return 3 * interval_s + 60


def read_report(run: t.Callable[..., Outcome], request: Request) -> tuple[Read | None, str]:
    """Read the report and the textfile as nobody; Prometheus' exporter has no rights either.

    :return: what READ prints, and the last line of an error; one of them is missing.
    """
    directory = request["textfile_directory"]
    paths = [REPORT, *([f"{directory}/{TEXTFILE}"] if directory else [])]
    status, text, error = run(["runuser", "--user", "nobody", "--", "python3", "-I", "-c", READ, *paths])
    if status != 0:
        return None, (error.strip().splitlines() or ["the report could not be read"])[-1]
    return json.loads(text), ""


def read_fresh_report(
    run: t.Callable[..., Outcome], request: Request, wait: t.Callable[[float], None]
) -> tuple[Read | None, str]:
    """Read the report until it is fresh, or for a while."""
    for _attempt in range(ATTEMPTS - 1):
        found, error = read_report(run, request)
        if found and found["age_s"] <= stale_s(request["interval_s"]):
            return found, error
        wait(PAUSE_S)
    return read_report(run, request)


def timer_finding(outcome: Outcome) -> Finding:
    _status, text, error = outcome
    state = text.strip()
    return finding(
        "gpu_health.timer",
        "pass" if state == "active" else "fail",
        f"{TIMER} is {state or error.strip() or 'not installed'}",
        f"run the role again; `systemctl status {TIMER}` has the reason",
    )


def report_findings(found: Read | None, error: str, interval_s: int) -> list[Finding]:
    """Return the findings on the age of a report, and those in it."""
    fresh = found is not None and found["age_s"] <= stale_s(interval_s)
    return [
        finding(
            "gpu_health.fresh",
            "pass" if fresh else "fail",
            f"the last check was {found['age_s']} s ago" if found else error,
            f"read `journalctl --unit {SERVICE}`; gpu_health_textfile_directory has to exist,"
            " as node_exporter's package creates it",
        ),
        *(found["findings"] if found else []),
    ]


def findings(
    run: t.Callable[..., Outcome], request: Request, wait: t.Callable[[float], None] = time.sleep
) -> list[Finding]:
    """Return the findings on the timer, on its unit and on the report, and those of the last check."""
    found, error = read_fresh_report(run, request, wait)
    return [
        sandboxing.check(run, "gpu_health", [SERVICE]),
        timer_finding(run(["systemctl", "is-active", TIMER])),
        *report_findings(found, error, request["interval_s"]),
    ]
