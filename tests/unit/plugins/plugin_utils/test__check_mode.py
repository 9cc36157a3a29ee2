# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.plugin_utils._check_mode import changes, planned

DUE = {"changed": True}


@pytest.mark.parametrize(
    ("variables", "role", "expected"),
    [
        ({"__web_written": DUE}, "web", True),
        ({"__web_written": {"changed": False}, "__web_paths": ["/etc"]}, "web", False),
        ({"__website_written": DUE, "web_written": DUE}, "web", False),
        ({"__web_written": DUE}, "door", False),
        ({"__web_written": DUE}, "", True),
        ({"written": DUE}, "", False),
        ({"__web_plan": {"packages": {"due": True}}}, "web", True),
        ({"__web_plan": {"packages": {"due": False}}}, "web", False),
        ({"__web_plan": {"packages": ["xfsprogs"]}}, "web", False),
        ({"__web_plan": {"skipped": True}}, "web", False),
    ],
)
def test_registered_results_of_a_role_count(variables, role, expected):
    assert changes(variables, role) is expected


MOUNT = {"target": "/data", "source": "/dev/sdb1", "fstype": "ext4", "bytes": 1}
RESULTS: dict[str, Any] = {
    "__storage_applied": {"mounts": [MOUNT], "unmounts": ["/old"], "directories": ["/data/x"], "waiting": ["/data"]},
    "__ssh_members": {"groups": {"lab": [], "gone": None}},
    "__xrdp_members": {"groups": {"ssl-cert": ["xrdp"]}},
    "__docker_members": {"skipped": True},
    "__docker_configured": {"changed": True},
    "__nvidia_driver_changed": {"changed": False},
}


def test_what_rows_hand_on_is_planned():
    assert planned(RESULTS) == {
        "mounts": [MOUNT],
        "unmounts": ["/old"],
        "directories": ["/data/x"],
        "groups": ["lab", "ssl-cert"],
        "docker": True,
    }
    assert planned({}) == {}
