# SPDX-License-Identifier: GPL-3.0-or-later
"""A Match block is tried for a user whom it names, or judged by its lines."""

from __future__ import annotations

import ipaddress

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh import config, match
from hypothesis import given
from hypothesis import strategies as st

USERS = {"alice": {"alice", "staff"}, "bob": {"bob", "domain admins"}}
WANTED = {"passwordauthentication": frozenset({"no"}), "allowtcpforwarding": frozenset({"local"})}


def lines_of(text: str) -> list[config.Line]:
    return list(config.read_lines("main", lambda _path: text, lambda _pattern: []))


def untried(criteria: str, setting: str = "PasswordAuthentication yes") -> list[str]:
    lines = lines_of(f"Match {criteria}\n    {setting}\n")
    return [str(each) for each in match.untried(WANTED, lines, config.connections(lines, USERS), USERS)]


@pytest.mark.parametrize(
    "criteria",
    [
        'Group "domain admins"',
        'Group="domain admins"',
        'Group staff,"domain admins"',
        "User = bob",
        "User=bob",
        "User *,!alice Group *",
        "Address 10.0.0.0/8,!10.0.0.0/24",
        "Address 2001:db8::/32,!2001:db8::/64",
        "Address 10.0.0.0/8,!10.0.0.1",
        "Address 2001:db8::/32,!2001:db8::1,!2001:db8::",
        "Address 192.0.2.* Host *.example.org",
        "LocalPort 2222 LocalAddress 198.51.100.7",
        "invalid-user",
        "all",
    ],
)
def test_blocks_that_are_tried(criteria: str) -> None:
    assert untried(criteria) == []


@pytest.mark.parametrize(
    "criteria",
    [
        'Group "enterprise admins"',
        "Group students User *",
        "RDomain blue",
        "Tagged lab",
        "Address 10.0.0.0/8,!10.*",
    ],
)
def test_blocks_that_nobody_reaches(criteria: str) -> None:
    (text,) = untried(criteria)
    assert text.startswith("passwordauthentication is yes for those whom the block is for")
    assert text.endswith(f"and not no (main:2 below `Match {criteria}`)")


@pytest.mark.parametrize(
    "setting",
    [
        "PasswordAuthentication no",
        'PasswordAuthentication "no"',
        "ChrootDirectory /srv",
        "AllowTcpForwarding no",
        "MaxAuthTries 9",
    ],
)
def test_what_a_block_that_nobody_reaches_may_set(setting: str) -> None:
    assert untried("Group students", setting) == []


LISTED = match.Listed({"alice", "bob", "dora"}, {"alice", "bob", "staff", "sftponly", "uploads"})


@pytest.mark.parametrize(
    ("criteria", "refused", "unsure"),
    [
        ("Group sftponly", False, False),  # nobody is in it, or nobody whom sshd lets in
        ('Group sftponly,!"domain admins" User *', False, False),
        ("Group sftponly Address 10.0.0.0/8", False, False),
        ("User bob Group staff", False, False),
        ("Group students", False, True),  # of a directory service
        ("Group students User bob", False, True),
        ("Group sftp*", False, True),
        ("Group sftponly User dora", False, False),
        ("Group uploads", False, True),  # internal-sftp needs no shell
        ("RDomain blue", False, True),
        ("Group staff RDomain blue", False, True),
        ("Address 10.0.0.0/8,!10.*", False, True),
        ("Group remote", True, False),  # the role makes it
    ],
)
def test_whom_a_block_that_nobody_reaches_is_for(criteria: str, refused: bool, unsure: bool) -> None:
    lines = lines_of(f"Match {criteria}\n    PasswordAuthentication yes\n")
    tried = config.connections(lines, USERS)
    planned = {**USERS, "bob": {*USERS["bob"], "remote"}}
    users = match.Entering(USERS, planned, {**planned, "dora": {"dora", "uploads"}})
    found = match.sort_out(match.untried(WANTED, lines, tried, USERS), tried, users, LISTED)
    assert [bool(part) for part in found] == [refused, unsure]


NETWORKS = st.builds(
    lambda number, length: ipaddress.ip_network((number << 24, length), strict=False),
    st.integers(0, 3),
    st.integers(4, 32),
)


@given(NETWORKS, st.lists(NETWORKS, max_size=3))
def test_sample_of_a_network(network: ipaddress.IPv4Network, excluded: list[ipaddress.IPv4Network]) -> None:
    found = config.sample("address", str(network), [str(network), *(f"!{each}" for each in excluded)])
    if found:
        address = ipaddress.ip_address(found)
        assert address in network
        assert not any(address in each for each in excluded)
    else:
        rest = [network]
        for part in excluded:
            rest = [piece for each in rest for piece in without(each, part)]
        assert rest == []


def without(network: ipaddress.IPv4Network, part: ipaddress.IPv4Network) -> list[ipaddress.IPv4Network]:
    if network.subnet_of(part):
        return []
    return list(network.address_exclude(part)) if part.subnet_of(network) else [network]
