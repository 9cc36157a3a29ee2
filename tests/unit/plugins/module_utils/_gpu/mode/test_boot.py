# SPDX-License-Identifier: GPL-3.0-or-later
"""What the program says where modes do not come back. That they do is in the tests of gpu_mode."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import boot as gpu_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import files as gpu_files
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode import boot

from harness.fakes import nvml as fake_nvml

DECLARED = gpu_boot.declared_path("gpu_mode")


def test_journal_has_the_reason_of_a_failure(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Tree(str(tmp_path)).replace(DECLARED, b"{")
    assert boot.main(str(tmp_path)) == 1
    assert "is damaged" in capfd.readouterr().out


def test_unsupported_declared_mode_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with fake_nvml.fake(["H100"]) as machine:
        declared = {machine.gpus[0].uuid: {"power_limit": "900 W", "persistence": True}}
        Tree(str(tmp_path)).replace(DECLARED, gpu_files.text(declared))
        assert boot.main(str(tmp_path)) == 1
        assert machine.writes == 0
    assert "takes 200 W to 700 W" in capfd.readouterr().out
