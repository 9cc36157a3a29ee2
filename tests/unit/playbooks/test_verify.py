# SPDX-License-Identifier: GPL-3.0-or-later
"""The real playbook on made-up roles: which are verified, and when it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
VERIFY = [{"import_playbook": "rigwright.workstation.verify"}]
ROLES = (
    '{"workstation_roles": [{"role": "web", "applies": true}, {"role": "door", "applies": "{{ door_is is defined }}"}]}'
)


@pytest.fixture
def roles(tmp_path):
    """Return a copy of the collection by links, with the roles `web` and `door`, whose findings have the status web_is and door_is."""
    collection = tmp_path / "collections/ansible_collections/rigwright/workstation"
    collection.mkdir(parents=True)
    for part in ("galaxy.yml", "meta", "playbooks", "plugins"):
        (collection / part).symlink_to(CHECKOUT / part)
    look = collection / "roles/common/tasks"
    look.mkdir(parents=True)
    (look / "look_at_host.yml").write_text("[]")
    for role in ("web", "door"):
        tasks = collection / "roles" / role / "tasks"
        tasks.mkdir(parents=True)
        (tasks / "verify.yml").write_text(
            f"- rigwright.workstation.finding: {{id: {role}.open, status: '{{{{ {role}_is }}}}', evidence: seen, remedy: open it}}\n"
        )


def verified(run):
    return [finding["id"] for finding in run.report["hosts"]["localhost"]["findings"]]


def test_only_the_roles_that_apply_to_the_host_are_verified(run_plays, roles):
    run = run_plays(VERIFY, "-e", ROLES, "-e", "web_is=pass")
    assert run.rc == 0, run.output
    assert verified(run) == ["web.open"]


def test_role_that_was_removed_is_not_verified(run_plays, roles):
    run = run_plays(VERIFY, "-e", ROLES, "-e", "web_is=fail", "-e", "web_state=absent")
    assert (run.rc, verified(run)) == (0, [])


@pytest.mark.parametrize(("status", "rc"), [("warn", 0), ("skip", 0), ("fail", 2)])
def test_only_a_failed_finding_fails_the_playbook(run_plays, roles, status, rc):
    run = run_plays(VERIFY, "-e", ROLES, "-e", f"web_is={status}")
    assert run.rc == rc
    assert ("web.open: seen; open it." in run.output) is (status == "fail")
