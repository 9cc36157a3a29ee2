"""`harness.playbook` runs the real ansible-playbook."""

from __future__ import annotations

import json
import os

from harness import playbook

PLAY = [
    {
        "hosts": "localhost",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.assert": {"that": "lookup('env', 'ASKED') == asked"}}],
    }
]


def test_each_run_has_its_own_folder_and_environment(tmp_path):
    (tmp_path / "play.yml").write_text(json.dumps(PLAY))
    for asked in ("one", "two"):
        status, said = playbook.run(["play.yml", "-e", f"asked={asked}"], tmp_path, os.environ | {"ASKED": asked})
        assert (status, "All assertions passed" in said) == (0, True), said
    assert "ASKED" not in os.environ


def test_a_run_that_fails_says_so(tmp_path):
    (tmp_path / "play.yml").write_text(json.dumps(PLAY))
    status, said = playbook.run(["play.yml", "-e", "asked=something"], tmp_path, os.environ)
    assert (status, "Assertion failed" in said) == (2, True), said
    status, said = playbook.run(["none.yml"], tmp_path, os.environ)
    assert (status, "none.yml could not be found" in said) == (1, True), said
