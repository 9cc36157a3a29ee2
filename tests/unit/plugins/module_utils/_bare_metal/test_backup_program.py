# SPDX-License-Identifier: GPL-3.0-or-later
"""The program of the backups plans a rebuild where it probes."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import cli
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import backup_program

from tests.unit.support.backup.hosts import Host, restic


def test_program_probes_a_rebuild(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = Host(tmp_path, restic())
    host.init()
    host.configure(manifest=str(tmp_path / "manifest.json"), job={"paths": ["/"]})
    for command, expected in ((["status"], False), (["status", "--probe"], True)):
        cli.main(command, host.place, backup_program.rebuild)
        assert ("backup.rebuild" in capsys.readouterr().out) is expected
