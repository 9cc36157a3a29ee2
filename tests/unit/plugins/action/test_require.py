# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.action.require import unmet

TOKEN = {"ok": True, "variable": "x_token", "problem": "is short", "remedy": "make a longer one"}
PORT = {"ok": True, "variable": "x_port", "problem": "is taken.", "remedy": "give another."}


def test_met_requirements_produce_no_output():
    assert unmet([TOKEN, PORT]) == []


def test_every_problem_has_its_line():
    assert unmet([{**TOKEN, "ok": False}, {**PORT, "ok": False}]) == [
        "x_token: is short; make a longer one.",
        "x_port: is taken; give another.",
    ]


@pytest.mark.parametrize(
    ("that", "message"),
    [
        (TOKEN, "that must be a list"),
        ([TOKEN, "x_port is free"], "requirement 2 of that must have exactly the keys"),
        ([{**TOKEN, "hint": "?"}], "requirement 1 of that must have exactly the keys"),
        ([{"ok": True}], "requirement 1 of that must have exactly the keys"),
        ([{**TOKEN, "ok": "true"}], "ok of requirement 1 of that must be a boolean"),
        ([{**TOKEN, "ok": 1}], "ok of requirement 1 of that must be a boolean"),
        ([{**TOKEN, "remedy": None}], "remedy of requirement 1 of that must be a string"),
    ],
)
def test_invalid_list_of_requirements_is_refused(that, message):
    with pytest.raises(ValueError, match=message):
        unmet(that)


@pytest.mark.parametrize("options", [(), ("--check",)])
def test_play_stops_before_anything_changes(run_tasks, tmp_path, options):
    tasks = [
        {
            "rigwright.workstation.require": {
                "that": [
                    {**TOKEN, "ok": "{{ token | length >= 32 }}"},
                    {**PORT, "ok": "{{ port != 22 }}"},
                    {**PORT, "ok": "{{ port == 22 }}", "variable": "y_port"},
                ]
            }
        },
        {"ansible.builtin.copy": {"content": "", "dest": str(tmp_path / "changed")}},
    ]
    run = run_tasks(tasks, "-e", '{"token": "hunter2", "port": 22}', "-vvv", *options)
    assert run.rc == 2
    assert "x_token: is short; make a longer one.\n" in run.output
    assert "x_port: is taken; give another.\n" in run.output
    assert "y_port:" not in run.output
    assert "hunter2" not in run.output
    assert not (tmp_path / "changed").exists()
    assert run.report["hosts"]["localhost"]["outside_roles"]["module_runs"] == 0


def test_met_requirements_let_the_play_go_on(run_tasks):
    run = run_tasks([{"rigwright.workstation.require": {"that": [{**TOKEN, "ok": "{{ 1 < 2 }}"}]}}])
    assert (run.rc, run.report["hosts"]["localhost"]["stats"]["ok"]) == (0, 1)


def test_unknown_argument_is_refused(run_tasks):
    run = run_tasks([{"rigwright.workstation.require": {"that": [], "fail_msg": "no"}}])
    assert run.rc == 2
    assert "fail_msg" in run.output
