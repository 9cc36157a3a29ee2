# SPDX-License-Identifier: GPL-3.0-or-later
"""Invalid networks are refused by the name of their variable."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.filter.firewall_requirements import (
    FilterModule,
    firewall_requirements,
)


@pytest.mark.parametrize("networks", [[], ["192.168.1.0/24", "fd00::/64"], ["0.0.0.0/0", "::/0"], ["192.168.1.7"]])
def test_networks(networks):
    assert [row["ok"] for row in firewall_requirements({"samba_networks": networks})] == [True]


@pytest.mark.parametrize(
    ("networks", "text"),
    [
        (["192.168.1.7/24"], "'192.168.1.7/24' has host bits set: write 192.168.1.0/24"),
        (["office"], "'office' must be like"),
        ("10.0.0.0/8", "must be a list"),
    ],
)
def test_an_invalid_network_is_refused_by_its_variable(networks, text):
    met, unmet = firewall_requirements({"a_networks": [], "samba_networks": networks})
    assert met["ok"]
    assert not unmet["ok"]
    assert unmet["variable"] == "samba_networks"
    assert text in unmet["problem"]


def test_ansible_finds_the_filter():
    assert FilterModule().filters() == {"firewall_requirements": firewall_requirements}
