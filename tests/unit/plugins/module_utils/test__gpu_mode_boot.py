# SPDX-License-Identifier: GPL-3.0-or-later
"""What the program says where modes do not come back. That they do is in the tests of gpu_mode."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils import _gpu_boot, _gpu_files
from ansible_collections.rigwright.workstation.plugins.module_utils import _gpu_mode_boot as boot
from ansible_collections.rigwright.workstation.plugins.module_utils._nvml_errors import NvmlError
from ansible_collections.rigwright.workstation.plugins.module_utils._tree import Tree

from harness import imitated_nvml

DECLARED = _gpu_boot.declared_path("gpu_mode")


def test_a_driver_that_udev_is_still_loading_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with imitated_nvml.fake(["H100"]) as machine:
        machine.unload_driver()
        monkeypatch.setattr(boot.time, "sleep", lambda _seconds: machine.reload_driver())
        boot.wait_for_driver(30)
        machine.unload_driver()
        with pytest.raises(NvmlError, match="DRIVER_NOT_LOADED"):
            boot.wait_for_driver(-1)


def test_a_mismatch_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot.time, "sleep", lambda _seconds: pytest.fail("waited"))
    with imitated_nvml.fake(["H100"]) as machine:
        machine.upgrade_library("590.48.01")
        with pytest.raises(NvmlError, match="LIB_RM_VERSION_MISMATCH"):
            boot.wait_for_driver(30)


def test_the_program_says_in_the_journal_why_nothing_came_back(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _gpu_files.write(Tree(str(tmp_path)), DECLARED, b"{")
    assert boot.main(str(tmp_path)) == 1
    assert "is damaged" in capfd.readouterr().out


def test_a_declared_mode_that_the_card_no_longer_takes_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with imitated_nvml.fake(["H100"]) as machine:
        declared = {machine.gpus[0].uuid: {"power_limit": "900 W", "persistence": True}}
        _gpu_files.write(Tree(str(tmp_path)), DECLARED, _gpu_files.text(declared))
        assert boot.main(str(tmp_path)) == 1
        assert machine.writes == 0
    assert "takes 200 W to 700 W" in capfd.readouterr().out
