"""What ansible-lint gets for the commands that it starts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from harness.testing import lint


def test_syntax_check_names_its_error(tmp_path: Path) -> None:
    (tmp_path / "good.yml").write_text("[{hosts: localhost, tasks: [{ansible.builtin.ping: {}}]}]")
    (tmp_path / "bad.yml").write_text("[{hosts: localhost, tasks: [{missing_module: {}}]}]")
    for name, status, message in (("good", 0, "playbook: good.yml"), ("bad", 4, "module/action 'missing_module'")):
        done = lint.run(["ansible-playbook", "--syntax-check", f"{name}.yml"], cwd=str(tmp_path), env={**os.environ})
        assert (done.returncode, message in done.stderr) == (status, True), done.stderr


def test_other_commands_run_as_before(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import os; print(os.getcwd())"]
    assert lint.run(command, cwd=tmp_path, capture_output=True, text=True).stdout == f"{tmp_path}\n"
