# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read what the other roles and apt leave on the host: tunnels, backups, drills, the health of the GPUs, updates that wait."""

from __future__ import annotations

import contextlib
import os
import re

from ansible_collections.rigwright.workstation.plugins.module_utils._core import json_text
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import read_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.json_text import number
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import clip
from ansible_collections.rigwright.workstation.plugins.module_utils._status import model
from ansible_collections.rigwright.workstation.plugins.module_utils._status.model import Row

TUNNELS = {"frpc.service": "tunnel", "frps.service": "tunnels of others"}
# systemd makes a link here when a unit starts, for journald, and removes it when the unit is inactive. Asking systemctl needs D-Bus, which
# not every host has, and could hang.
UNITS, STARTED = "/etc/systemd/system", "/run/systemd/units/invocation:"
# Those of _backup and of _gpu.health, which tests compare: to import them would cost more than all readers together.
BACKUPS, HEALTH = "/var/lib/rigwright_backup", "/var/lib/rigwright_gpu_health/report.json"
BACKUP_LIMITS_H = {"run": 36, "drill": 24 * 45}
_RESULT = re.compile(r"(run|drill)-([\w.-]{1,64})\.json")
_NAMES = {"run": "backup", "drill": "restore drill"}
_RESULTS, _FINDINGS = 64, 16
_LIMIT = 8 << 20
_TEXT = 200

REBOOT, REBOOT_PACKAGES = "/run/reboot-required", "/run/reboot-required.pkgs"
NOTICE = "/var/lib/update-notifier/updates-available"
# The first that exists says when package lists were last fetched.
STAMPS = ("/var/lib/apt/periodic/update-success-stamp", "/var/lib/apt/lists")
_OLD_LISTS_S = 14 * 86400


def load(tree: Tree, path: str) -> JsonObject:
    """Read a JSON file of root.

    :raises OSError: it is missing, or belongs to another user.
    :raises ValueError: it is no JSON object.
    """
    found = json_text.parse(read_file(tree.at(path), {0, os.geteuid()}, _LIMIT), _LIMIT)
    if not isinstance(found, dict):
        raise ValueError(f"{path} has no object")
    return found


def text_of(row: JsonObject, key: str) -> str:
    """Return a text of a row, clipped, and an empty one for a value of another type."""
    return clip(row[key], _TEXT) if isinstance(row.get(key), str) else ""


def tunnels(tree: Tree, now: float) -> list[Row]:
    """Return whether the units of frp run that the host has, and since when."""
    rows = []
    for unit, label in TUNNELS.items():
        if not tree.exists(f"{UNITS}/{unit}"):
            continue
        try:
            started = os.stat(tree.at(f"{STARTED}{unit}"), follow_symlinks=False).st_mtime
        except FileNotFoundError:
            rows.append(Row(label, ("down", f"{unit} does not run"), level=model.FAIL, brief=f"{label} down"))
        else:
            rows.append(Row(label, ("up", f"since {model.duration(now - started)}")))
    return rows


def backups(tree: Tree, now: float) -> list[Row]:
    """Return the failed runs and drills of backups, and of the others the oldest success."""
    rows, good = [], {"run": [], "drill": []}  # type: tuple[list[Row], dict[str, list[float]]]
    for match in [match for match in map(_RESULT.fullmatch, tree.names(BACKUPS)) if match][:_RESULTS]:
        verb, job = match.groups()
        try:
            state = load(tree, f"{BACKUPS}/{match[0]}")
        except (OSError, ValueError) as error:
            # The results of other jobs are shown.
            problem = clip(getattr(error, "strerror", "") or str(error), _TEXT)
            rows.append(Row(f"{_NAMES[verb]} {job}", (f"cannot be read: {problem}",), level=model.WARN))
            continue
        kind, last = text_of(state, "kind"), number(state.get("last_success"))
        if kind == "ok" and last is not None:
            good[verb].append(last)
        elif kind:
            ended = number(state.get("ended"))
            values = [
                f"failed {model.duration(now - ended)} ago" if ended is not None else "failed",
                f"last success {model.duration(now - last)} ago" if last is not None else "no success yet",
                text_of(state, "words") or kind,
            ]
            rows.append(Row(f"{_NAMES[verb]} {job}", tuple(values), level=model.FAIL))
    for verb, times in good.items():
        if times:
            values = [f"{model.duration(now - min(times))} ago", f"{len(times)} job{'s' if len(times) > 1 else ''}"]
            limit_s = 3600.0 * BACKUP_LIMITS_H[verb]
            brief = f"backup {values[0]}" if verb == "run" else ""
            rows.append(Row(_NAMES[verb], tuple(values), time=min(times), limit_s=limit_s, brief=brief))
    return rows


def health(tree: Tree, now: float, interval_s: float) -> list[Row]:
    """Return the verdict of the last check of gpu_health, and its findings that do not pass."""
    try:
        report = load(tree, HEALTH)
    except FileNotFoundError:
        return []
    time, verdict = number(report.get("time")) or 0.0, text_of(report, "verdict") or "unknown"
    found = report.get("findings")
    findings = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
    levels = {"fail": model.FAIL, "warn": model.WARN}
    bad = [row for row in findings if text_of(row, "status") in levels]
    # A check may take a minute, in which the report grows older.
    limit_s = model.INTERVALS * interval_s + 60
    level = model.OK if verdict in ("PASS", "MONITOR") else model.FAIL
    rows = [Row("GPU health", (verdict, f"{model.duration(now - time)} ago"), level=level, time=time, limit_s=limit_s)]
    for row in sorted(bad, key=lambda each: each["status"])[:_FINDINGS]:
        name = clip(text_of(row, "id").rpartition(".")[2], 20)
        rows.append(Row(f"  {name}", (text_of(row, "evidence"),), level=levels[row["status"]], rank=model.USUAL))
    return rows


def updates(tree: Tree, now: float) -> list[Row]:
    """Return whether a reboot is due, what Ubuntu's update-notifier counts, and the age of the package lists. apt is not started."""
    rows = []
    if tree.exists(REBOOT):
        packages = sorted(set(tree.text(REBOOT_PACKAGES).split()))
        rows.append(Row("reboot", ("required", *packages[:4]), level=model.WARN, brief="reboot required"))
    # In the language of the machine. The first count is that of all updates.
    counted = re.search(r"^(\d+)\s", tree.text(NOTICE), re.MULTILINE)
    if counted and counted[1] != "0":
        rows.append(Row("updates", (f"{counted[1]} wait",), level=model.WARN, brief=f"{counted[1]} updates"))
    for stamp in STAMPS:
        with contextlib.suppress(OSError):
            fetched = os.stat(tree.at(stamp), follow_symlinks=False).st_mtime
            old = now - fetched > _OLD_LISTS_S
            age = f"fetched {model.duration(now - fetched)} ago"
            rows.append(Row("package lists", (age,), level=model.WARN if old else model.OK, rank=model.DETAIL))
            break
    return rows
