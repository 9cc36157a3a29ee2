# SPDX-License-Identifier: GPL-3.0-or-later
"""The real play that restores files, on this machine, with a fake program."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.unit.support.backup.hosts import CHECKOUT

PLAN = {
    "snapshot": "0123456789",
    "time": "2026-11-22 18:00:00",
    "host": "ws1",
    "target": "/var/restore",
    "paths": ["/home"],
    "files": 3,
    "bytes": 5,
    "conflicts": 0,
    "conflicting": [],
    "short_of": [],
}


@pytest.fixture
def restore(run_plays, tmp_path):
    """Return a function that runs the play with options on some hosts, and returns the run and whether anything was restored."""

    def run(*options, hosts=("localhost",), about=""):
        program, done = tmp_path / "rigwright-backup", tmp_path / "restored"
        answer = json.dumps({**PLAN, "about": about, "objection": about and "objected"})
        program.write_text(
            f"#!/bin/sh\ncase \" $* \" in *' --plan '*) echo '{answer}';; *) touch {done}; echo restored to X;; esac\n"
        )
        program.chmod(0o755)
        text = (CHECKOUT / "playbooks/restore_files.yml").read_text()
        plays = yaml.safe_load(text.replace("/usr/local/sbin/rigwright-backup", str(program)))
        plays[0]["become"] = False
        return run_plays(plays, "-e", "restore_job=home", *options, hosts=hosts), done.exists()

    return run


def test_nothing_is_restored_until_confirmed(restore):
    run, restored = restore("-e", "restore_host=localhost")
    assert run.rc == 0 and not restored, run.output
    assert "what: 3 files" in run.output and "with -e restore_confirm=yes it is carried out" in run.output
    run, restored = restore("-e", "restore_host=localhost restore_confirm=yes")
    assert run.rc == 0 and restored and '"msg": "restored to X"' in run.output, run.output


def test_check_mode_restores_nothing_and_reports_a_change(restore):
    run, restored = restore("--check", "-e", "restore_host=localhost restore_confirm=yes")
    assert run.rc == 0 and not restored, run.output
    assert "what: 3 files" in run.output and "nothing was restored: this is check mode" in run.output
    assert "changed=1" in run.output


def test_more_than_one_host_is_refused(restore):
    run, restored = restore("-e", "restore_host=all restore_confirm=yes", hosts=("ws1", "ws2"))
    assert run.rc != 0 and not restored
    assert "restore_host: means 2 hosts" in run.output and "TASK [Plan the restore]" not in run.output, run.output


@pytest.mark.parametrize(
    ("about", "variable", "remedy"),
    [
        ("paths", "restore_paths", "restore_when"),
        ("target", "restore_target", "set it to another directory"),
        ("overwrite", "restore_target", "-e restore_overwrite=yes"),
        ("without_room", "restore_target", "-e restore_without_room=yes"),
    ],
)
def test_a_refusal_names_its_variable_and_remedy(restore, about, variable, remedy):
    run, restored = restore("-e", "restore_host=localhost restore_confirm=yes", about=about)
    assert run.rc != 0 and not restored
    assert f"{variable}: objected" in run.output and remedy in run.output, run.output
