# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that is gone is found in bounded time, by a mount that really never answers."""

from __future__ import annotations

import time
from pathlib import Path

from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import Mount, parse_mountinfo
from ansible_collections.rigwright.workstation.plugins.module_utils._system.servers import unanswered

from tests.unit.support import dead_server


def test_silent_server_is_found_in_bounded_time(tmp_path: Path) -> None:
    target = tmp_path / "nas"
    target.mkdir()
    paths = [f"{target}/home", str(target), str(tmp_path)]
    with dead_server.mounted(target) as line:
        started = time.monotonic()
        assert unanswered(paths, parse_mountinfo(line), 0.5) == dict.fromkeys(paths[:2], str(target))
        assert time.monotonic() - started < 5


def test_server_that_answers_is_not_silent(tmp_path: Path) -> None:
    mounts = [Mount(str(tmp_path), "nas:/export", "nfs4"), Mount(f"{tmp_path}/gone", "nas:/other", "nfs4")]
    assert unanswered([f"{tmp_path}/gone/home"], mounts) == {}


def test_local_disk_is_not_asked() -> None:
    assert unanswered(["/home"], [Mount("/", "/dev/sda1", "ext4"), Mount("/mnt", "nas:/export", "nfs")], 0) == {}
