# SPDX-License-Identifier: GPL-3.0-or-later
"""Which modes a boot brings back, and the files for it. That they come back is in the tests of gpu_mode."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils import _gpu_mode_boot as boot
from ansible_collections.rigwright.workstation.plugins.module_utils import _gpu_mode_record as record
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu_mode import Entry
from ansible_collections.rigwright.workstation.plugins.module_utils._nvml_errors import NvmlError
from ansible_collections.rigwright.workstation.plugins.module_utils._tree import Tree

from harness import imitated_nvml

BEFORE: record.ByCard = {"GPU-a": {"power_limit": "300 W", "persistence": True}, "GPU-b": {"time_slice": "long"}}


def asks(**wanted: object) -> dict[str, Entry]:
    return {"GPU-a": Entry("gpus[0]", "GPU-a", wanted)}


def test_a_request_replaces_what_it_states_and_keeps_the_rest() -> None:
    assert boot.declare(BEFORE, asks(power_limit="80 %"), keep=True, exclusive=False) == {
        "GPU-a": {"power_limit": "80 %", "persistence": True},
        "GPU-b": {"time_slice": "long"},
    }


def test_what_is_not_to_be_kept_is_no_longer_declared() -> None:
    after = boot.declare(BEFORE, asks(power_limit="80 %", persistence=True), keep=False, exclusive=False)
    assert after == {"GPU-b": {"time_slice": "long"}}


def test_a_list_that_is_the_whole_truth_leaves_no_other_card() -> None:
    assert set(boot.declare(BEFORE, asks(persistence=True), keep=True, exclusive=True)) == {"GPU-a"}


def test_the_default_is_what_the_driver_begins_with_and_needs_no_boot() -> None:
    after = boot.declare(BEFORE, asks(power_limit="default", persistence=True), keep=True, exclusive=True)
    assert after == {"GPU-a": {"persistence": True}}


def test_nothing_declared_is_no_file_at_all(tmp_path: Path) -> None:
    files = boot.files_for({}, "/usr/bin/python3")
    assert set(files.values()) == {b""}
    assert boot.differing(Tree(str(tmp_path)), files) == []


def test_an_edited_unit_a_stale_program_and_a_missing_link_are_found(tmp_path: Path) -> None:
    tree = Tree(str(tmp_path))
    files = boot.files_for(BEFORE, "/usr/bin/python3")
    boot.install(tree, files, boot.differing(tree, files), lambda *_words: None)
    assert boot.differing(tree, files) == [boot.WANTED]
    for path in (record.DECLARED, boot.PROGRAM, boot.UNIT):
        record.write(tree, path, b"other")
        assert path in boot.differing(tree, files)


def test_the_unit_waits_for_the_driver_and_runs_only_where_something_is_declared() -> None:
    text = boot.files_for(BEFORE, "/opt/rigwright/python/bin/python3")[boot.UNIT].decode()
    assert f"ConditionPathExists={record.DECLARED}\n" in text
    assert "After=systemd-modules-load.service nvidia-persistenced.service\n" in text
    assert f"ExecStart=/opt/rigwright/python/bin/python3 -B {boot.PROGRAM}\n" in text


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
    record.write(Tree(str(tmp_path)), record.DECLARED, b"{")
    assert boot.main(str(tmp_path)) == 1
    assert "is damaged" in capfd.readouterr().out


def test_a_declared_mode_that_the_card_no_longer_takes_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with imitated_nvml.fake(["H100"]) as machine:
        declared = {machine.gpus[0].uuid: {"power_limit": "900 W", "persistence": True}}
        record.write(Tree(str(tmp_path)), record.DECLARED, record.declared_text(declared).encode())
        assert boot.main(str(tmp_path)) == 1
        assert machine.writes == 0
    assert "takes 200 W to 700 W" in capfd.readouterr().out
