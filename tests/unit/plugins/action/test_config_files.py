# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of config_files, as a play calls it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

CHECKOUT = Path(__file__).parents[4]


@pytest.mark.parametrize("label", ["files", "directories"])
def test_numeric_mode_is_refused_on_the_target(run_tasks, tmp_path, label):
    entry = {"path": str(tmp_path / "new"), "mode": 0o644, **({"content": "x\n"} if label == "files" else {})}
    done = run_tasks([{"rigwright.workstation.config_files": {"name": "test", label: [entry]}}], "--check")
    assert done.rc != 0 and "mode must be octal text in quotes" in done.output


def test_a_released_file_has_its_content_rendered(run_tasks, tmp_path):
    entry = {"path": str(tmp_path / "new"), "content": "theirs\n", "state": "released"}
    done = run_tasks([{"rigwright.workstation.config_files": {"name": "test", "files": [entry]}}], "--check", "--diff")
    assert done.rc == 0 and "+theirs" in done.output


@pytest.mark.parametrize(("due", "rc"), [(True, 0), (False, 2)])
def test_check_mode_expects_directories_of_earlier_tasks(run_tasks, tmp_path, due, rc):
    install = {"ansible.builtin.debug": {"msg": "fail2ban"}, "changed_when": due, "register": "__ssh_installed"}
    files = [{"path": str(tmp_path / "jail.d/ssh.local"), "content": ""}]
    done = run_tasks([install, {"rigwright.workstation.config_files": {"name": "test", "files": files}}], "--check")
    assert done.rc == rc, done.output
    assert ("no such directory" in done.output) is (rc != 0)
    assert "[WARNING]" not in done.output


def test_the_diff_of_a_program_names_the_version(run_tasks, tmp_path):
    files = [{"path": str(tmp_path / "_tool.py"), "content": "import os\n"}]
    done = run_tasks([{"rigwright.workstation.config_files": {"name": "test", "files": files}}], "--check", "--diff")
    version = yaml.safe_load((CHECKOUT / "galaxy.yml").read_text())["version"]
    assert f"+program _tool.py of rigwright.workstation {version}, 10 bytes, sha256 " in done.output
    assert "import os" not in done.output


def test_program_is_written_as_one_file(run_tasks, tmp_path):
    files = [{"path": str(tmp_path / "backup.pyz"), "program": "_backup.cli"}]
    done = run_tasks([{"rigwright.workstation.config_files": {"name": "test", "files": files}}], "--check", "--diff")
    assert done.rc == 0 and "+program backup.pyz of rigwright.workstation" in done.output
