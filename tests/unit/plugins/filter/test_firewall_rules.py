# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of a role in /etc/nftables.d/rigwright."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.rigwright.workstation.plugins.filter.firewall_rules import FilterModule, firewall_rules

SMB: Any = [{"port": 445, "protocol": "tcp"}]


def test_a_port_is_opened_to_networks_of_both_families():
    assert firewall_rules(SMB, ["192.168.1.0/24", "fd00::/64"], "samba") == (
        "# samba: the ports that it is reached by, and from where.\n"
        'ip saddr 192.168.1.0/24 tcp dport 445 accept comment "samba"\n'
        'ip6 saddr fd00::/64 tcp dport 445 accept comment "samba"\n'
    )


def test_without_networks_the_file_is_a_comment():
    assert firewall_rules(SMB, [], "samba") == "# samba: this machine alone reaches it, no port is opened.\n"


def test_ansible_finds_the_filter():
    assert FilterModule().filters() == {"firewall_rules": firewall_rules}


@pytest.mark.parametrize(
    ("ports", "networks", "named"),
    [
        ([{"port": 0, "protocol": "tcp"}], ["10.0.0.0/8"], "port 0 must be between"),
        (SMB, ["192.168.1.7/24"], "'192.168.1.7/24' has host bits set: write 192.168.1.0/24"),
        (SMB, ["office.example.org"], "'office.example.org' must be like 192.168.1.0/24"),
    ],
)
def test_bad_input_is_named(ports, networks, named):
    with pytest.raises(AnsibleFilterError, match=named):
        firewall_rules(ports, networks, "samba")


@pytest.mark.parametrize("networks", ["192.168.1.0/24,10.0.0.0/8"])
def test_text_is_the_list_that_a_role_takes_it_for(networks):
    assert firewall_rules(SMB, networks, "samba") == firewall_rules(SMB, ["192.168.1.0/24", "10.0.0.0/8"], "samba")


def test_networks_of_another_type_are_named():
    with pytest.raises(AnsibleFilterError, match="dict"):
        firewall_rules(SMB, {"a": 1}, "samba")  # type: ignore[arg-type]
