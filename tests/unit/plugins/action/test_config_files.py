# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of config_files, as a play calls it."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("what", ["files", "directories"])
def test_a_mode_that_is_a_number_reaches_the_target_as_one_and_is_refused(run_tasks, tmp_path, what):
    entry = {"path": str(tmp_path / "new"), "mode": 0o644, **({"content": "x\n"} if what == "files" else {})}
    done = run_tasks([{"rigwright.workstation.config_files": {"name": "test", what: [entry]}}], "--check")
    assert done.rc != 0 and "mode must be octal text in quotes" in done.output


def test_a_released_file_has_its_content_rendered(run_tasks, tmp_path):
    entry = {"path": str(tmp_path / "new"), "content": "theirs\n", "state": "released"}
    done = run_tasks([{"rigwright.workstation.config_files": {"name": "test", "files": [entry]}}], "--check", "--diff")
    assert done.rc == 0 and "+theirs" in done.output
