# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use the display as its readers do, and return what was found."""

from __future__ import annotations

import os
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown
from ansible_collections.rigwright.workstation.plugins.module_utils._status import gpus, model
from ansible_collections.rigwright.workstation.plugins.module_utils._status.status_options import StatusOptions
from ansible_collections.rigwright.workstation.plugins.module_utils._system import gpu_snapshot, sandboxing

Run = t.Callable[..., "tuple[int, str, str]"]

PROGRAM = "/usr/local/bin/workstation-status"
FOLDER = "/run/rigwright-status"
FILES, CONSOLE = "rigwright-status.service", "rigwright-status-console.service"
# Right after the role the units may not have written yet.
ATTEMPTS, PAUSE_S = 10, 1
_SIZE = "80x24"


def findings(
    run: Run,
    request: StatusOptions,
    tree: Tree | None = None,
    wait: t.Callable[[float], None] = time.sleep,
    clock: t.Callable[[], float] = time.time,
) -> list[Finding]:
    """Return the findings on the program, on the snapshot of the GPUs, on the files, and on the console."""
    tree = tree or Tree()
    limit_s = model.INTERVALS * request["interval_s"]
    files = {"page": "status.html"} if request["html"] else {}
    files.update({"login_line": "login"} if request["login_line"] else {})
    units = [*([FILES] if files else []), *([CONSOLE] if request["console"] else [])]
    found = [of_program(run), of_snapshot(tree, clock())]
    for name, file in files.items():
        found.append(of_file(name, f"{FOLDER}/{file}", tree, limit_s, wait, clock))
    if request["console"]:
        found.append(of_console(run, request["console"]))
    if units:
        found.append(sandboxing.check(run, "status", units))
    return found


def of_program(run: Run) -> Finding:
    """Start the program as a user without rights."""
    status, output, error = run(["runuser", "--user", "nobody", "--", PROGRAM, "--once", "--size", _SIZE])
    works = status == 0 and "Machine" in output
    message = shown((error.strip() or output.strip() or "no output").splitlines()[-1])
    return finding(
        "status.program",
        "pass" if works else "fail",
        f"{PROGRAM} shows {len(output.splitlines())} lines at {_SIZE}" if works else f"{PROGRAM}: {message}",
        "run the role again",
    )


def of_snapshot(tree: Tree, now: float) -> Finding:
    """Read the snapshot of the GPUs as the display does."""
    remedy = "set up gpu_usage; `systemctl status 'rigwright-gpu-usage*'` shows its units"
    try:
        snapshot = gpu_snapshot.read(tree.at(gpu_snapshot.PATH), strict=False)
    except FileNotFoundError:
        return finding("status.snapshot", "skip", gpus.MISSING, remedy)
    except gpu_snapshot.Unusable as error:
        return finding("status.snapshot", "fail", str(error), remedy)
    problem = model.stale(gpus.section(snapshot, now), now) or snapshot["problem"]
    evidence = f"{len(snapshot['gpus'])} GPUs, written {model.duration(now - snapshot['time'])} ago"
    return finding("status.snapshot", "warn" if problem else "pass", problem or evidence, remedy)


def of_file(
    name: str,
    path: str,
    tree: Tree,
    limit_s: float,
    wait: t.Callable[[float], None],
    clock: t.Callable[[], float],
) -> Finding:
    """Wait until a file is fresh, for a while."""
    age = age_of(tree.at(path), clock)
    for _attempt in range(ATTEMPTS):
        if age is not None and age <= limit_s:
            break
        wait(PAUSE_S)
        age = age_of(tree.at(path), clock)
    fresh = age is not None and age <= limit_s
    evidence = f"{path} is missing" if age is None else f"{path} was written {model.duration(age)} ago"
    return finding(
        f"status.{name}",
        "pass" if fresh else "fail",
        evidence,
        f"read `journalctl --unit {FILES}`, and run the role again",
    )


def age_of(path: str, clock: t.Callable[[], float]) -> float | None:
    try:
        return clock() - os.stat(path, follow_symlinks=False).st_mtime
    except OSError:
        return None


def of_console(run: Run, console: str) -> Finding:
    """Ask systemd whether the display has the console."""
    _status, output, error = run(["systemctl", "is-active", CONSOLE])
    state = output.strip() or error.strip() or "unknown"
    return finding(
        "status.console",
        "pass" if state == "active" else "fail",
        f"{CONSOLE} on {console} is {state}",
        f"`systemctl start {CONSOLE}` ends the login there; `journalctl --unit {CONSOLE}` has the reason",
    )
