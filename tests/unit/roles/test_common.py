# SPDX-License-Identifier: GPL-3.0-or-later
"""What roles hand each other in check mode (roles/common/vars/planned.yml)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

PLANNED = Path(__file__).parents[3] / "roles/common/vars/planned.yml"
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
