# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings of the role firewall."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.findings import (
    findings,
    in_force,
    opened_by,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.table import Request, text

from tests.unit.support.firewall import CONFIGURED, LAN, listener


def warnings(**host):
    found = {row["id"].removeprefix("firewall."): row for row in findings(dataclasses.replace(CONFIGURED, **host))}
    return {name: row["evidence"] for name, row in found.items() if row["status"] == "warn"}


def test_the_rules_of_the_files_are_in_force():
    assert in_force(CONFIGURED)["status"] == "pass"
    assert in_force(dataclasses.replace(CONFIGURED, units_are_up=False))["status"] == "fail"
    assert "syntax" in in_force(dataclasses.replace(CONFIGURED, trial=None, refusal="syntax error"))["evidence"]


@pytest.mark.parametrize(
    "change", [{"in_force": []}, {"unconfirmed": True}, {"program_is_current": False}, {"confirmed_is_current": False}]
)
def test_other_rules_in_force_are_a_failure(change):
    assert in_force(dataclasses.replace(CONFIGURED, **change))["status"] == "fail"


def test_a_configured_host_has_no_warnings():
    assert warnings() == {}


@pytest.mark.parametrize(
    "row",
    [
        listener(22, process="sshd"),
        listener(9000, address="127.0.0.1"),
        listener(9000, address="::1"),
        listener(40000, protocol="udp"),  # the port of a client
        listener(68, protocol="udp"),  # DHCP
        listener(53, address="172.17.0.1"),  # for containers
    ],
)
def test_listeners_without_a_declaration_that_are_fine(row):
    request = text(Request()).replace('include "/run/rigwright-firewall/ssh.nft"', "tcp dport 22 jump ssh")
    assert "undeclared" not in warnings(text=request, listeners=[row], own_addresses=["172.17.0.1"])


def test_an_undeclared_listener_is_named():
    rows: Any = [listener(9000), listener(9000, address="::"), listener(631, process=None), listener(5353, "udp")]
    assert warnings(listeners=rows)["undeclared"] == (
        "listens, and no other host can reach it: tcp 631 (unknown), udp 5353 (python3), tcp 9000 (python3)"
    )


def test_local_names_of_the_distribution_need_no_declaration():
    resolved = {"process": "systemd-resolve", "unit": "systemd-resolved.service"}
    rows: Any = [listener(5355, **resolved), listener(5355, "udp", **resolved)]
    found = {row["id"]: row for row in findings(dataclasses.replace(CONFIGURED, listeners=rows))}["firewall.undeclared"]
    assert found["status"] == "pass"
    assert found["evidence"].endswith("the distribution's own: tcp 5355 (systemd-resolve), udp 5355 (systemd-resolve)")
    # The unit counts, not the name that a program gives itself.
    assert "undeclared" in warnings(listeners=[listener(5355, process="systemd-resolve", unit="user@1000.service")])


def test_a_declared_port_without_listener_is_named():
    rows: Any = [{"port": port, "networks": LAN} for port in (445, 8000, "6000-6010")]
    assert warnings(text=text(Request(allow=rows)), listeners=[listener(8000)]) == {
        "unused": "open, and nothing listens there: tcp 445"
    }


def test_other_firewalls_and_lost_docker_rules_are_named():
    assert "ufw and firewalld" in warnings(others=["ufw", "firewalld"])["others"]
    assert "docker" in warnings(docker_lost=True)


def test_the_ports_of_a_file_with_other_formatting():
    written = """
    chain declared {
        # tcp dport 1 accept
        ip saddr 10.0.0.0/8 tcp dport { 80, 443, 6000-6010 } counter accept
        udp dport 53 drop
        tcp dport ssh accept
    }
    chain published {
        tcp dport 2 accept
    }
    """
    assert opened_by(written) == {"tcp": [(80, 80), (443, 443), (6000, 6010)], "udp": []}
