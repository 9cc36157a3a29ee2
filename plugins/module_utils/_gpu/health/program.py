# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program that the role gpu_health installs: it checks the GPUs without Ansible, and writes the report, the state and the metrics.

It succeeds whatever the verdict is. It fails when it cannot check or cannot write.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import programs
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import write_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import Busy
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import facts, report, request, state
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import run as runner
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.rows import FullReport
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._system.notify import send

SETTINGS = "/etc/rigwright/gpu_health.json"
TIMEOUT_S = 60


def run(command: t.Sequence[str]) -> tuple[int, str, str]:
    """Run a command. One that cannot be started, or hangs, has status 127 and no output."""
    try:
        done = programs.run(command, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, "", str(error)
    return done.returncode, done.stdout, done.stderr


class Settings(t.TypedDict, total=False):
    """The settings that the role has written. A missing one has its default."""

    window: str
    limits: dict[str, float | None] | None
    expected_count: int | None
    acknowledged: list[str] | None
    ignore: list[str] | None
    textfile_directory: str
    notify: bool


def check(settings: Settings, tree: Tree, now: float, notify: t.Callable[[str, str], str] = send) -> FullReport:
    """Check the GPUs, write the files, and send what fails now and did not in the last report.

    :raises Refusal: a setting is not valid.
    :raises Busy: another check does not end.
    :raises OSError: a file cannot be written.
    """
    window = request.window_seconds(settings.get("window", request.BOOT))
    limits = request.limits_of(settings.get("limits"))
    declared = request.Request(
        settings.get("expected_count") or None, settings.get("acknowledged") or (), settings.get("ignore") or ()
    )
    host = facts.Host(run, now, tree)
    with state.locked():
        kept, unread = state.read_kept(tree.at(state.STATE))
        result, next_state = runner.check(host, window, limits, kept, declared)
        result["unread"] += unread
        full_report: FullReport = {**result, "findings": report.findings(result)}
        earlier = state.read_failing(tree.at(state.REPORT))
        for path, text in (
            (state.REPORT, json.dumps(full_report, indent=1, sort_keys=True) + "\n"),
            (state.STATE, json.dumps(next_state, indent=1, sort_keys=True) + "\n"),
        ):
            write_file(tree.at(path), text)
        directory = settings.get("textfile_directory")
        if directory:
            write_file(tree.at(f"{directory}/{state.TEXTFILE}"), report.metrics(result))
    text = report.message(full_report["findings"], earlier)
    problem = notify("GPU health", text) if text and settings.get("notify") else ""
    if problem:
        sys.stderr.write(f"{problem}\n")
    return full_report


def main() -> int:
    """Check the GPUs, and print the findings for the journal."""
    tree = Tree()
    try:
        settings: Settings = json.loads(tree.text(SETTINGS) or "{}")
        full_report = check(settings, tree, time.time())
    except (Refusal, Busy, OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for finding in full_report["findings"]:
        sys.stdout.write(f"{finding['id']}: {finding['status']}: {finding['evidence']}\n")
    return 0
