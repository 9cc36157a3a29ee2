# SPDX-License-Identifier: GPL-3.0-or-later
"""End a run of the module with a message. The tests of the change itself are in test_driver_change.py."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import driver_change as change
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import RECORD
from ansible_collections.rigwright.workstation.plugins.modules import nvidia_driver_packages as module


def test_full_disk_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_host: change.Host) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "ROOT", str(tmp_path))
    monkeypatch.setattr(change.Host, "settle", full)
    with patch_module_args({"state": "settled"}), pytest.raises(SystemExit):
        module.main()
    assert "No space left on device" in json.loads(capsys.readouterr().out)["msg"]


def test_damaged_record_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / RECORD.lstrip("/")
    record.parent.mkdir(parents=True)
    record.write_text("{} {}")
    monkeypatch.setattr(module, "ROOT", str(tmp_path))
    with patch_module_args({"state": "settled"}), pytest.raises(SystemExit):
        module.main()
    assert json.loads(capsys.readouterr().out)["msg"].startswith(f"{RECORD}, ")


@pytest.mark.parametrize("unfinished", [[], ["libcuda1"]])
def test_finished_packages_count_as_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], unfinished: list[str]
) -> None:
    finished: list[list[str]] = []
    monkeypatch.setattr(module, "ROOT", str(tmp_path))
    monkeypatch.setattr(change.Host, "complete", lambda _host, names, replaced: finished.append(names))
    monkeypatch.setattr(change.Host, "hold", lambda _host, _names: None)
    with patch_module_args({"state": "settled", "lock": False, "unfinished": unfinished}), pytest.raises(SystemExit):
        module.main()
    assert json.loads(capsys.readouterr().out)["changed"] is bool(unfinished)
    assert finished == [unfinished]
