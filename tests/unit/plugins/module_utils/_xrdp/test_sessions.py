# SPDX-License-Identifier: GPL-3.0-or-later
"""Desktops and their users, from processes as they were on Debian 12 and 13."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.plan import Session
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.sessions import Login, Process, find_sessions

DEBIAN_12 = [
    Process(1, 0, "systemd", "root"),
    Process(1844, 1, "xrdp-sesman", "root"),
    Process(1854, 1, "xrdp", "xrdp"),
    Process(3315, 1844, "xrdp-sesman", "root"),
    Process(3323, 3315, "openbox", "alice"),
    Process(3324, 3315, "Xorg", "alice"),
    Process(3326, 3315, "xrdp-chansrv", "alice"),
]
DEBIAN_13 = [
    Process(1, 0, "systemd", "root"),
    Process(1763, 1, "xrdp-sesman", "root"),
    Process(1764, 1, "xrdp", "xrdp"),
    Process(3103, 1763, "xrdp-sesexec", "root"),
    Process(3118, 3103, "Xorg", "alice"),
    Process(3127, 3103, "xrdp-chansrv", "alice"),
]


def test_a_desktop_is_found_in_both_versions():
    assert find_sessions(DEBIAN_12) == find_sessions(DEBIAN_13) == [Session("alice")]


def test_a_failed_login_is_not_a_desktop():
    assert find_sessions([*DEBIAN_13[:3], Process(5303, 1763, "xrdp-sesexec", "root")]) == []


def test_a_restart_of_sesman_loses_the_desktop():
    # In 0.9 the process that waits stays without a parent; in 0.10 it ends.
    orphaned_12 = [p._replace(parent=1) if p.pid == 3315 else p for p in DEBIAN_12 if p.pid != 1844]
    orphaned_13 = [p._replace(parent=1) for p in DEBIAN_13 if p.name != "xrdp-sesexec" and p.pid != 1763]
    assert find_sessions(orphaned_12) == find_sessions(orphaned_13) == [Session("alice", lost=True)]
    again = [
        *orphaned_13,
        Process(3193, 1, "xrdp-sesman", "root"),
        Process(3200, 3193, "xrdp-sesexec", "root"),
        Process(3216, 3200, "xrdp-chansrv", "alice"),
    ]
    assert find_sessions(again) == [Session("alice"), Session("alice", lost=True)]


def test_desktop_without_the_channel_server_is_found():
    without = [[p for p in host if p.name != "xrdp-chansrv"] for host in (DEBIAN_12, DEBIAN_13)]
    assert [find_sessions(host) for host in without] == [[Session("alice")]] * 2


def test_desktop_that_only_logind_lists_is_found():
    logins = [Login("alice", 3103, "xrdp-sesman"), Login("bob", 9, "gdm-password"), Login("carol", 7, "xrdp-sesman")]
    assert find_sessions(DEBIAN_13[:4], logins) == [Session("alice"), Session("carol", lost=True)]
    assert find_sessions(DEBIAN_13, logins[:2]) == [Session("alice")]


def test_program_of_pam_during_a_login_is_no_desktop():
    login = Process(5303, 1763, "xrdp-sesexec", "root")
    assert find_sessions([*DEBIAN_13[:3], login, Process(5304, 5303, "unix_chkpwd", "root")]) == []


def test_users_cannot_hold_a_desktop_by_a_name():
    fake = [
        Process(70, 1, "xrdp-sesman", "mallory"),
        Process(71, 70, "xrdp-sesman", "mallory"),
        Process(72, 71, "sleep", "mallory"),
    ]
    assert find_sessions(fake) == []
