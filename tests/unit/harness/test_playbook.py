"""`harness.playbook` runs the real ansible-playbook."""

from __future__ import annotations

import json
import os

from harness import playbook

PLAY = [
    {
        "hosts": "localhost",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.assert": {"that": "lookup('env', 'EXPECTED') == expected"}}],
    }
]


def test_each_run_has_its_own_folder_and_environment(tmp_path):
    (tmp_path / "play.yml").write_text(json.dumps(PLAY))
    for expected in ("one", "two"):
        status, output = playbook.run(
            ["play.yml", "-e", f"expected={expected}"], tmp_path, os.environ | {"EXPECTED": expected}
        )
        assert (status, "All assertions passed" in output) == (0, True), output
    assert "EXPECTED" not in os.environ


def test_failed_run_returns_status_and_output(tmp_path):
    (tmp_path / "play.yml").write_text(json.dumps(PLAY))
    status, output = playbook.run(["play.yml", "-e", "expected=something"], tmp_path, os.environ)
    assert (status, "Assertion failed" in output) == (2, True), output
    status, output = playbook.run(["none.yml"], tmp_path, os.environ)
    assert (status, "none.yml could not be found" in output) == (1, True), output
