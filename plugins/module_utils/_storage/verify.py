# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check fstab, the trim timer, the logins of users and the dataset cache, and return findings."""

from __future__ import annotations

import shlex
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.storage_options import StorageOptions
from ansible_collections.rigwright.workstation.plugins.module_utils._system import sandboxing

EVICTION = "dataset-cache-evict.service"


class Request(StorageOptions):
    """A request, with what the planned run has found."""

    cache_status: list[str]
    findings: list[Finding]
    container: bool
    cache_directory: str


Run = t.Callable[..., tuple[int, str, str]]


def fstab(run: Run, remedy: str) -> Finding:
    """Validate fstab."""
    status, out, err = run(["findmnt", "--verify"])
    lines = [line.strip() for line in (out + err).splitlines() if line.strip()]
    return finding("storage.fstab", "pass" if status == 0 else "fail", f"findmnt --verify: {'; '.join(lines)}", remedy)


def trim(run: Run, wanted: bool, container: bool) -> Finding:
    """Check that the trim timer runs. systemd does not start it in a container."""
    state = run(["systemctl", "is-active", "fstrim.timer"])[1].strip()
    return finding(
        "storage.trim",
        "skip" if not wanted or container else "pass" if state == "active" else "fail",
        f"fstrim.timer is {state or 'not there'}{', in a container' if container else ''}",
        "run the role again",
    )


def cache(run: Run, command: t.Sequence[str], directory: str) -> Finding:
    """Check that the dataset cache answers."""
    if not directory:
        return finding("storage.cache", "skip", "no cache of datasets is asked for")
    status, _out, err = run(list(command))
    return finding(
        "storage.cache",
        "pass" if status == 0 else "fail",
        f"dataset-cache status: {err.strip() or f'answers for {directory}'}",
        "run the role again; `dataset-cache status` says more",
    )


def environment(run: Run, users: t.Sequence[str], names: t.Sequence[str]) -> Finding:
    """Check that logins have the declared variables. Nothing else of a login is shown: it is private to the user."""
    lacking = [user for user in users if names and not _has(run, user, names)]
    listed = ", ".join(names)
    return finding(
        "storage.environment",
        "fail" if lacking else "pass" if users and names else "skip",
        f"without {listed}: {', '.join(lacking)}"
        if lacking
        else f"logins have {listed}"
        if users and names
        else "no variable is asked for",
        "check that the directories exist and belong to the user, and that the login shell reads /etc/profile.d",
    )


def _has(run: Run, user: str, names: t.Sequence[str]) -> bool:
    program = 'exec runuser --login "$1" --command "$2" >/dev/null 2>&1'
    return run(["sh", "-c", program, "sh", user, f"printenv {' '.join(map(shlex.quote, names))}"])[0] == 0


def findings(run: Run, request: Request) -> list[Finding]:
    """Return the findings of the plan and of the checks.

    :param request: the options of the role, ``findings`` of the plan, ``container``, ``cache_directory``, and ``cache_status`` (a
        command).
    """
    disks = next(row for row in request["findings"] if row["id"] == "storage.disks")
    directory = request["cache_directory"]
    return [
        *request["findings"],
        # A line of the role is right as long as its disk is missing.
        fstab(run, disks["remedy"] or "fix the line in /etc/fstab that it names"),
        trim(run, request["trim"], request["container"]),
        cache(run, request["cache_status"], directory),
        environment(run, request["users"], list(request["environment"])),
        *([sandboxing.check(run, "storage", [EVICTION])] if directory else []),
    ]
