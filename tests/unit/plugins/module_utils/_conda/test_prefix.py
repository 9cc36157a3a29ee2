# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a prefix. Their changes are tested with a store: test_store.py."""

from __future__ import annotations

import subprocess

from ansible_collections.rigwright.workstation.plugins.module_utils._conda.prefix import (
    open_to_users,
    processes_in,
    read_files,
)


def test_group_and_world_writable_files_are_closed(tmp_path):
    (tmp_path / "conda-meta").mkdir()
    (tmp_path / "open").mkdir()
    (tmp_path / "open/program").touch()
    (tmp_path / "link").symlink_to("/etc/passwd")
    for path, mode in (("open", 0o2775), ("open/program", 0o777)):
        (tmp_path / path).chmod(mode)
    open_to_users(str(tmp_path))
    assert (tmp_path / "open").stat().st_mode & 0o7777 == 0o2755
    assert (tmp_path / "open/program").stat().st_mode & 0o7777 == 0o755


def test_caches_records_and_distributions_have_no_file_state(tmp_path):
    for path in ("lib/__pycache__/a.pyc", "conda-meta/a.json", "a-1.dist-info/RECORD", "lib/a.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "lib64").symlink_to("lib")
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "conda-meta/frozen").touch()
    files = {path: len(row) for path, row in read_files(str(tmp_path)).items()}
    directories = dict.fromkeys(("", "lib", "lib/__pycache__", "conda-meta", "a-1.dist-info"), 2)
    assert files == {"broken": 4, "lib/a.py": 4, "lib64": 4, "conda-meta/frozen": 3, **directories}


def test_processes_of_a_prefix_are_found(tmp_path):
    (tmp_path / "sleep").symlink_to("/bin/sleep")
    with subprocess.Popen((tmp_path / "sleep", "60")) as running:
        assert processes_in(str(tmp_path)) == [running.pid]
        running.kill()
    assert processes_in(str(tmp_path)) == []
