# SPDX-License-Identifier: GPL-3.0-or-later
"""What roles hand each other in check mode (roles/common/vars/main/planned.yml)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

PLANNED = Path(__file__).parents[3] / "roles/common/vars/main/planned.yml"
MOUNT = {"target": "/data", "source": "/dev/sdb1", "fstype": "ext4", "bytes": 1}
RESULTS: dict[str, Any] = {
    "__storage_applied": {"mounts": [MOUNT], "unmounts": ["/old"], "directories": ["/data/x"]},
    "__ssh_members": {"groups": {"lab": [], "gone": None}},
    "__docker_members": {"skipped": True},
    "__docker_configured": {"changed": True},
}


@pytest.mark.parametrize("results", [RESULTS, {}], ids=["some", "none"])
@pytest.mark.parametrize("options", [("--check",), ()], ids=["check mode", "a run"])
def test_plans_of_earlier_roles(run_tasks, results, options):
    expected: dict[str, Any] = {
        "mounts": [],
        "unmounts": [],
        "directories": [],
        "groups": [],
        "docker": False,
        "driver": False,
    }
    if results and options:
        expected = {**RESULTS["__storage_applied"], "groups": ["lab"], "docker": True, "driver": False}
    tasks = [
        {"ansible.builtin.include_vars": str(PLANNED)},
        {"ansible.builtin.assert": {"that": ["__common_planned == expected"]}},
    ]
    run = run_tasks(tasks, *options, "-e", json.dumps({**results, "expected": expected}))
    assert run.rc == 0, run.output


@pytest.mark.parametrize(("options", "refused"), [(("--check",), True), ((), False)], ids=["check mode", "a run"])
def test_check_mode_asks_for_package_lists(run_tasks, options, refused):
    facts = {
        "distribution": "Debian",
        "distribution_version": "13",
        "distribution_major_version": "13",
        "service_mgr": "systemd",
        "rigwright": {"uid": 0, "free_bytes": {"/": 1 << 40}, "package_lists": False},
    }
    tasks = [
        {"ansible.builtin.set_fact": {"ansible_facts": facts}},
        *(
            {"ansible.builtin.include_vars": str(PLANNED.parent / name)}
            for name in ("platforms.yml", "requirements.yml")
        ),
        {"rigwright.workstation.require": {"that": "{{ __common_requirements }}"}, "vars": {"ansible_facts": facts}},
    ]
    run = run_tasks(tasks, *options)
    assert ("run `apt-get update` there first" in run.output) is refused
    assert (run.rc != 0) is refused
