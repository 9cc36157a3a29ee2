# SPDX-License-Identifier: GPL-3.0-or-later
"""What is a difference between two moments of a host, and what a package may leave behind."""

from __future__ import annotations

from harness.sandbox.fingerprint import State, difference, units, without_packages

FRESH: State = {
    "package openssh-server": "1",
    "file /etc/ssh/sshd_config": "0644 0:0 abc +openssh-server",
    "unit ssh.service": "running +openssh-server",
}
FAIL2BAN: State = {
    "package fail2ban": "1",
    "file /etc/fail2ban/jail.conf": "0644 0:0 def +fail2ban",
    "unit fail2ban.service": "running +fail2ban",
}


def remaining(after: State) -> list[str]:
    return difference(FRESH, without_packages(FRESH, after))


def test_files_of_a_new_package_may_stay():
    assert remaining(FRESH | FAIL2BAN) == []


def test_unit_or_file_of_no_package_may_not_stay():
    assert remaining(FRESH | FAIL2BAN | {"unit frps.service": "running", "file /etc/frps": "0755 0:0 directory"}) == [
        "new: file /etc/frps",
        "new: unit frps.service",
    ]


def test_a_unit_that_a_known_package_brings_may_not():
    assert remaining(FRESH | {"unit ssh@.service": "running +openssh-server"}) == ["new: unit ssh@.service"]


def test_a_unit_that_was_there_has_to_be_as_it_was():
    assert remaining({name: kind for name, kind in FRESH.items() if name != "unit ssh.service"}) == [
        "gone: unit ssh.service"
    ]


def test_a_new_package_that_shares_a_file_changes_nothing():
    assert remaining(FRESH | FAIL2BAN | {"file /etc/ssh/sshd_config": "0644 0:0 abc +fail2ban +openssh-server"}) == []


def test_removed_entries_are_named():
    assert remaining({name: kind for name, kind in FRESH.items() if not name.startswith("file")}) == [
        "gone: file /etc/ssh/sshd_config"
    ]


def test_units_of_packages_that_stay_are_listed():
    at_boot = "file /etc/systemd/system/multi-user.target.wants/cron.service"
    after = FRESH | FAIL2BAN | {at_boot: "-> /usr/lib/systemd/system/cron.service +cron"}
    assert units(after) - units(FRESH) == {"fail2ban.service", "cron.service"}


def test_an_upgrade_of_a_known_package_changes_nothing():
    assert remaining(FRESH | {"package openssh-server": "1+deb13u1"}) == []


def test_a_file_that_an_upgrade_brings_may_stay():
    new = {"file /etc/ssh/moduli": "0644 0:0 as shipped +openssh-server"}
    assert remaining(FRESH | {"package openssh-server": "2"} | new) == []
    assert remaining(FRESH | new) == ["new: file /etc/ssh/moduli"]


def test_an_edited_file_is_a_difference_after_an_upgrade_too():
    after = FRESH | {"package openssh-server": "2", "file /etc/ssh/sshd_config": "0644 0:0 edited +openssh-server"}
    assert [line.partition(": 0644")[0] for line in remaining(after)] == ["changed: file /etc/ssh/sshd_config"]


def test_a_lower_version_is_a_difference():
    assert remaining(FRESH | {"package openssh-server": "1~rc1"}) == ["changed: package openssh-server: 1 -> 1~rc1"]
