# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and directories of daemons, and the probe. Daemons live in the tests of gpu_mps."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import apply as mps
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.control import MpsError
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.facts import Host, read_text


def test_a_link_in_place_of_a_daemons_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    (tmp_path / "pipe").symlink_to("elsewhere")
    with pytest.raises(MpsError, match="remove it"):
        mps.make_directory(f"{tmp_path}/pipe", pwd.getpwuid(os.getuid()).pw_name)
    assert (tmp_path / "elsewhere").stat().st_mode & 0o777 == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pipe").mkdir()
    os.chown(tmp_path / "pipe", 1234, 1234)
    with pytest.raises(MpsError, match="belongs to uid 1234"):
        mps.make_directory(f"{tmp_path}/pipe", "nobody")


def test_file_is_written_and_removed(tmp_path: Path) -> None:
    path = f"{tmp_path}/etc/team.sh"
    mps.write(path, "x\n")
    assert (read_text(path), os.listdir(tmp_path / "etc")) == ("x\n", ["team.sh"])
    mps.write(path, None)
    assert read_text(path) is None


def test_the_probe_runs_in_the_python_of_the_module() -> None:
    ran: list[list[str]] = []

    def execute(command: Sequence[str], environment: Mapping[str, str], text: str) -> tuple[int, str, str]:
        ran.append(list(command))
        return 137, "", ""

    result = mps.ask_probe(Host(execute, "none", "program", "/etc"), "", {}, "{}")
    assert sys.executable in ran[0] and "CUDA_VISIBLE_DEVICES" in ran[0]
    assert result["error"] == {"function": "the probe", "code": 807, "words": "no answer in 60 s"}


def test_files_are_readable_under_a_strict_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        mps.write(f"{tmp_path}/etc/team.sh", "x")
    finally:
        os.umask(before)
    assert ((tmp_path / "etc").stat().st_mode & 0o777, (tmp_path / "etc/team.sh").stat().st_mode & 0o777) == (
        0o755,
        0o644,
    )
