# SPDX-License-Identifier: GPL-3.0-or-later
"""What the proof of the role frp_client says about secrets."""

from __future__ import annotations

import operator
from pathlib import Path

import pytest
import yaml
from ansible_collections.rigwright.workstation.plugins.filter.frp_tunnels import frp_tunnels
from jinja2.nativetypes import NativeEnvironment

VERIFY = Path(__file__).parents[3] / "roles/frp_client/tasks/verify.yml"


@pytest.mark.parametrize(
    ("service", "shared"),
    [
        ({"allow_users": ["laptop"]}, ["ssh"]),
        ({"allow_users": ["laptop"], "secret_key": "t" * 16}, []),
        ({"allow_users": ["*"]}, []),
        ({}, []),
        ({"remote_port": 6000}, []),
    ],
)
def test_service_with_allow_users_and_shared_secret_is_named(service, shared):
    expression = yaml.safe_load(VERIFY.read_text())[-1]["vars"]["__frp_client_shared"]
    environment = NativeEnvironment()
    environment.tests["contains"] = operator.contains
    environment.filters["rigwright.workstation.frp_tunnels"] = frp_tunnels
    template = environment.from_string(expression)
    found = template.render(frp_client_services=[{"name": "ssh", **service}], frp_client_allow_users=["*"])
    assert list(found) == shared
