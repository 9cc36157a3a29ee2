# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision to load the rules."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.plan import covers, is_loopback, must_load

from tests.unit.support.firewall import CONFIGURED


@pytest.mark.parametrize(
    "host",
    [
        {"trial": None},
        {"in_force": []},
        {"in_force": [{"table": {"name": "rigwright"}}, {"rule": {}}]},
        {"unconfirmed": True},
        {"program_is_current": False},
        {"confirmed_is_current": False},
    ],
)
def test_other_rules_have_to_be_loaded(host):
    assert must_load(dataclasses.replace(CONFIGURED, **host))


def test_the_rules_of_the_files_need_no_load():
    assert not must_load(CONFIGURED)


def test_ports_and_addresses():
    assert covers([(22, 22), (6000, 6010)], 6005)
    assert not covers([(22, 22), (6000, 6010)], 23)
    assert [address for address in ("127.0.0.1", "::1", "::", "10.0.0.1") if is_loopback(address)] == [
        "127.0.0.1",
        "::1",
    ]
