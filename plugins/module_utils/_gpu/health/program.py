# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""The check that the role gpu_health has on a host, as a program without Ansible: a look at the GPUs, and files that tell of it.

It ends well whatever it finds; what it found is in the files. It fails when it could not look or could not write.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import write_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import Busy
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import facts as looking
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import report, state
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

SETTINGS = "/etc/rigwright/gpu_health.json"
TEXTFILE = "rigwright_gpu_health.prom"
TIMEOUT_S = 60


def run(command: t.Sequence[str]) -> tuple[int, str, str]:
    """A command that cannot be run, or hangs, is one that has nothing to tell."""
    try:
        # There is no module whose run_command could be used.
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            command,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, "", str(error)
    return done.returncode, done.stdout, done.stderr


def check(settings: t.Mapping[str, t.Any], tree: Tree, now: float) -> dict[str, t.Any]:
    """Look, and write what was found.

    :raises Refusal: a setting is none.
    :raises Busy: another look does not end.
    :raises OSError: it cannot be written.
    """
    window = looking.window_seconds(settings.get("window", looking.BOOT))
    limits = looking.limits_of(settings.get("limits"))
    request = looking.Request(
        settings.get("expected_count") or None, settings.get("acknowledged") or (), settings.get("ignore") or ()
    )
    host = looking.Host(run, now, tree)
    with state.locked():
        kept, unread = state.kept(tree.at(looking.STATE))
        result, left = looking.look(host, window, limits, kept, request)
        result["unread"] += unread
        told = {**result, "findings": report.findings(result)}
        for path, text in (
            (looking.REPORT, json.dumps(told, indent=1, sort_keys=True) + "\n"),
            (looking.STATE, json.dumps(left, indent=1, sort_keys=True) + "\n"),
        ):
            write_file(tree.at(path), text)
        directory = settings.get("textfile_directory")
        if directory:
            write_file(tree.at(f"{directory}/{TEXTFILE}"), report.metrics(result))
    return told


def main() -> int:
    """The journal has the verdict, and what led to it."""
    tree = Tree()
    try:
        settings = json.loads(tree.text(SETTINGS) or "{}")
        told = check(settings, tree, time.time())
    except (Refusal, Busy, OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for finding in told["findings"]:
        sys.stdout.write(f"{finding['id']}: {finding['status']}: {finding['evidence']}\n")
    return 0
