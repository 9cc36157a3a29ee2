# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use the program of the backups as a person does, and return what was found."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import units
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.state import CHECK, RUN
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.value_types import BackupRequest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._system import sandboxing


def findings(run: t.Callable[..., tuple[int, str, str]], request: BackupRequest) -> list[Finding]:
    """Return the findings on the units, and those of the program."""
    sandboxed = sandboxing.check(run, "backup", rated_units(request))
    # The program knows the age of the last successes, whether the timers run, and whether the repositories open.
    return [sandboxed, *state(run([units.PROGRAM, "status", "--json", "--probe"]))]


def rated_units(request: BackupRequest) -> list[str]:
    """Return a unit of each kind. A job without paths and dumps has none that backs up."""
    running = [job["name"] for job in request["jobs"] if job.get("paths") or job.get("dumps")]
    names = [repository["name"] for repository in request["repositories"]]
    return [*(units.name(RUN, name) for name in running[:1]), *(units.name(CHECK, name) for name in names[:1])]


def state(outcome: tuple[int, str, str]) -> list[Finding]:
    """Return the findings that the program prints; one that says why there are none."""
    _status, output, error = outcome
    try:
        found: list[Finding] = json.loads(output)["findings"]
    except (ValueError, KeyError, TypeError):
        evidence = (error.strip() or "no output").splitlines()[-1]
        return [finding("backup.program", "fail", evidence, "run the role backup")]
    return found
