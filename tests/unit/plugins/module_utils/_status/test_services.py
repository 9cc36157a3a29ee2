# SPDX-License-Identifier: GPL-3.0-or-later
"""What other roles and apt leave on a host."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import config, state
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import state as health_state
from ansible_collections.rigwright.workstation.plugins.module_utils._status import model, services

NOW = 1_764_076_800.0
HOUR = 3600.0


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(str(tmp_path))


def write(tree: Tree, path: str, content: Any) -> Path:
    file = Path(tree.at(path))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def shown(rows: list[model.Row]) -> list[tuple[str, tuple[str, ...], str]]:
    return [(row.label, row.values, row.level) for row in rows]


def test_paths_and_limits_are_those_of_their_owners() -> None:
    assert config.Place().state == services.BACKUPS
    assert health_state.REPORT == services.HEALTH
    assert {verb: state.MAX_AGE_H[verb] for verb in services.BACKUP_LIMITS_H} == services.BACKUP_LIMITS_H


def test_tunnel_that_is_up_says_since_when(tree: Tree) -> None:
    write(tree, f"{services.UNITS}/frpc.service", "[Service]\n")
    link = tree.at(f"{services.STARTED}frpc.service")
    os.makedirs(os.path.dirname(link))
    os.symlink("0123456789abcdef", link)
    os.utime(link, (NOW - 7200, NOW - 7200), follow_symlinks=False)
    assert shown(services.tunnels(tree, NOW)) == [("tunnel", ("up", "since 2 h"), model.OK)]


def test_tunnel_that_does_not_run_is_a_problem(tree: Tree) -> None:
    write(tree, f"{services.UNITS}/frps.service", "[Service]\n")
    (row,) = services.tunnels(tree, NOW)
    assert (row.values, row.level, row.brief) == (
        ("down", "frps.service does not run"),
        model.FAIL,
        "tunnels of others down",
    )


def test_host_without_tunnels_has_no_row(tree: Tree) -> None:
    assert services.tunnels(tree, NOW) == []


def test_oldest_success_of_all_jobs_counts(tree: Tree) -> None:
    for job, hours in (("home", 5), ("data", 9)):
        write(
            tree, f"{services.BACKUPS}/run-{job}.json", {"kind": "ok", "last_success": NOW - hours * HOUR, "ended": NOW}
        )
    write(tree, f"{services.BACKUPS}/drill-home.json", {"kind": "ok", "last_success": NOW - 48 * HOUR, "ended": NOW})
    write(tree, f"{services.BACKUPS}/sample-home.json", ["a list of files"])
    rows = services.backups(tree, NOW)
    assert shown(rows) == [
        ("backup", ("9 h ago", "2 jobs"), model.OK),
        ("restore drill", ("2 d ago", "1 job"), model.OK),
    ]
    assert rows[0].brief == "backup 9 h ago"
    assert [model.stale(row, NOW) for row in rows] == ["", ""]
    assert model.stale(rows[0], NOW + 28 * HOUR) == "stale 37 h"


def test_failed_backup_is_a_problem_with_its_reason(tree: Tree) -> None:
    failed = {"kind": "no_space", "words": "no space left", "ended": NOW - HOUR, "last_success": NOW - 30 * HOUR}
    write(tree, f"{services.BACKUPS}/run-home.json", failed)
    assert shown(services.backups(tree, NOW)) == [
        ("backup home", ("failed 60 min ago", "last success 30 h ago", "no space left"), model.FAIL)
    ]


def test_result_that_is_refused_hides_no_other(tree: Tree) -> None:
    path = write(tree, f"{services.BACKUPS}/run-home.json", {"kind": "ok", "last_success": NOW})
    os.chown(path, 4711, 4711)
    write(tree, f"{services.BACKUPS}/run-lists.json", "[" * 9999)
    write(tree, f"{services.BACKUPS}/run-photos.json", {"kind": "no_space", "words": "no space left"})
    assert [(row.label, row.values[-1]) for row in services.backups(tree, NOW)] == [
        ("backup home", "cannot be read: belongs to uid 4711"),
        ("backup lists", "cannot be read: it is nested too deeply"),
        ("backup photos", "no space left"),
    ]


def test_verdict_and_bad_findings_of_gpu_health(tree: Tree) -> None:
    findings = [
        {"id": "gpu_health.GPU-1", "status": "fail", "evidence": "Xid 79", "remedy": "reset it"},
        {"id": "gpu_health.nvml", "status": "pass", "evidence": "answers"},
        {"id": "gpu_health.unread", "status": "warn", "evidence": "no log"},
        "no finding",
    ]
    write(tree, services.HEALTH, {"time": NOW - 300, "verdict": "RESET_GPU", "findings": findings})
    rows = services.health(tree, NOW, 600)
    assert shown(rows) == [
        ("GPU health", ("RESET_GPU", "5 min ago"), model.FAIL),
        ("  GPU-1", ("Xid 79",), model.FAIL),
        ("  unread", ("no log",), model.WARN),
    ]
    assert model.stale(rows[0], NOW + 1800) == "stale 35 min"


def test_host_without_gpu_health_has_no_row(tree: Tree) -> None:
    assert services.health(tree, NOW, 600) == []


def test_reboot_and_updates_that_wait(tree: Tree) -> None:
    write(tree, services.REBOOT, "*** System restart required ***\n")
    write(tree, services.REBOOT_PACKAGES, "linux-image-6.1\nlibc6\nlibc6\n")
    write(tree, services.NOTICE, "\n12 updates can be applied immediately.\n3 of these updates are security updates.\n")
    stamp = write(tree, services.STAMPS[0], "")
    os.utime(stamp, (NOW - 20 * 86400, NOW - 20 * 86400))
    assert shown(services.updates(tree, NOW)) == [
        ("reboot", ("required", "libc6", "linux-image-6.1"), model.WARN),
        ("updates", ("12 wait",), model.WARN),
        ("package lists", ("fetched 20 d ago",), model.WARN),
    ]


def test_host_without_apt_has_no_row(tree: Tree) -> None:
    assert services.updates(tree, NOW) == []
