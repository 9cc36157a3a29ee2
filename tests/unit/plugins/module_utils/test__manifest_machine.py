# SPDX-License-Identifier: GPL-3.0-or-later
"""What asks the machine, without Ansible; what comes of the answers: tests/unit/plugins/modules/test_machine_manifest.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils import _manifest_machine as machines
from ansible_collections.rigwright.workstation.plugins.module_utils._tree import Tree


def test_a_machine_that_says_nothing_of_its_disks_has_no_manifest(tmp_path: Path) -> None:
    asked: list[list[str]] = []

    def run(command: list[str]) -> tuple[int, str]:
        asked.append(command)
        return 127, ""

    with pytest.raises(machines.Mute, match="install util-linux"):
        machines.keep(machines.Machine(run, Tree(str(tmp_path))), str(tmp_path / "manifest.json"))
    assert ["lsblk", "-J", "-O", "-b"] in asked
    assert list(tmp_path.iterdir()) == []
