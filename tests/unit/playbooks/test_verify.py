# SPDX-License-Identifier: GPL-3.0-or-later
"""The real playbook on made-up roles: which are verified, and when it fails."""

from __future__ import annotations

import json

import pytest

from tests.unit.support.made_up_roles import make_collection, write

VERIFY = [{"import_playbook": "rigwright.workstation.verify"}]
VARIABLES = {
    "ansible_become": False,
    "workstation_roles": [{"role": "web", "applies": True}, {"role": "door", "applies": "{{ door_is is defined }}"}],
}


@pytest.fixture
def roles(tmp_path):
    """Make a collection with the roles `web` and `door`, whose findings have the status web_is and door_is."""
    write(make_collection(tmp_path, ["web", "door"]) / "roles/common/tasks/prepare.yml", "[]")


def verified(run):
    return [finding["id"] for finding in run.report["hosts"]["localhost"]["findings"]]


def test_only_the_roles_that_apply_to_the_host_are_verified(run_plays, roles):
    run = run_plays(VERIFY, "-e", json.dumps(VARIABLES), "-e", "web_is=pass")
    assert run.rc == 0, run.output
    assert verified(run) == ["web.proof"]


def test_role_that_was_removed_is_not_verified(run_plays, roles):
    run = run_plays(VERIFY, "-e", json.dumps(VARIABLES), "-e", "web_is=fail", "-e", "web_state=absent")
    assert (run.rc, verified(run)) == (0, [])


@pytest.mark.parametrize(("status", "rc"), [("warn", 0), ("skip", 0), ("fail", 2)])
def test_only_a_failed_finding_fails_the_playbook(run_plays, roles, status, rc):
    run = run_plays(VERIFY, "-e", json.dumps(VARIABLES), "-e", f"web_is={status}")
    assert run.rc == rc
    assert ("web.proof: proof of web for localhost; repair web." in run.output) is (status == "fail")
