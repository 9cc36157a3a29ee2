# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports read back, and compared: the newest run of each host counts."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.plugin_utils import _report_fleet
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report import Report
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report_fleet import Change, clean, parse, shorten

from tests.unit.support.report import MONDAY, TUESDAY, WEDNESDAY, finding, host, report, work


def read(data):
    return parse(json.dumps(data).encode())


def changes(before, after):
    """Return what `fleet` finds between two runs of a host, each given as {id: status}."""
    runs = [
        read(report(time, ws=host(*(finding(id_, status) for id_, status in statuses.items()))))
        for time, statuses in ((MONDAY, before), (TUESDAY, after))
    ]
    found = _report_fleet.fleet(runs[1:], runs[:1]).hosts[0]
    return found.changes, found.unchecked


def test_what_the_callback_writes_is_read_back():
    written = Report("site.yml", "2.21.5", True, MONDAY, 3.5, [{"name": "Provision", "seconds": 3.0}])
    written.host("ws").add_findings([finding("ssh.login", "warn")])
    written.host("ws").failures.append({"role": None, "task": "Break"})
    written.host("ws").stats = {"ok": 1, "failures": 1}
    written.add_module_run({"host": "ws", "role": "ssh", "verify": True})
    assert read(written.as_data()) == written


def test_keys_of_a_later_release_are_ignored():
    later: Any = {**finding("ssh.login"), "since": "yesterday"}
    data = report(ws=host(later)) | {"colour": "green"}
    assert read(data) == read(report(ws=host(finding("ssh.login"))))


HOST = host(finding("ssh.login"), failures=("x",), ssh=work())


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is not JSON, or not all of it"),
        (b'{"schema": 1, "playb', "is not JSON, or not all of it"),
        (b"\xff\xfe\xfd", "is not JSON, or not all of it"),
        (b"[" * 100_000, "is not JSON, or not all of it"),
        (b'{"schema": 1, "schema": 1}', "it has a key twice"),
        (b'{"schema": NaN}', "it has NaN for a number"),
        (b"[]", "it is no mapping"),
        (b"{}", "schema is missing or no whole number"),
        (b'{"schema": true}', "schema is missing or no whole number"),
        (b'{"schema": 2}', "has schema 2, and this release reads schema 1"),
        (b'{"schema": 0}', "has schema 0, and this release reads schema 1"),
        # gpu_health's file has the same name.
        (b'{"schema": 1, "gpus": []}', "playbook is missing or no string"),
    ],
)
def test_content_that_is_no_report_is_refused(content, problem):
    with pytest.raises(ValueError, match=re.escape(problem)):
        parse(content)


@pytest.mark.parametrize(
    ("flaw", "problem"),
    [
        ({"started": "hunter2"}, "started is no time"),
        ({"started": "0001-01-01T00:00:00+14:00"}, "started is no time"),
        ({"seconds": "hunter2"}, "seconds is missing or no number"),
        ({"seconds": float("nan")}, "it has NaN for a number"),
        ({"seconds": 10**400}, "it has a number of 401 digits"),
        ({"seconds": 10**20}, "seconds is out of range"),
        ({"seconds": True}, "seconds is missing or no number"),
        ({"hosts": {"ws\n\u202e": None}}, "hosts.ws??.stats is missing or no mapping"),
        ({"hosts": {"ws\x01": HOST, "ws\x02": HOST}}, "two names differ by control characters alone"),
        ({"plays": [1]}, "plays.name is missing"),
        ({"hosts": ["hunter2"]}, "hosts is missing or no mapping"),
        ({"hosts": {"ws": None}}, "hosts.ws.stats is missing or no mapping"),
        ({"hosts": {"ws": HOST | {"findings": ["hunter2"]}}}, "a finding of hosts.ws is no mapping"),
        ({"hosts": {"ws": HOST | {"findings": [finding("<b>")]}}}, "a finding of hosts.ws: id of a finding must be"),
        ({"hosts": {"ws": HOST | {"findings": [finding("ssh.login", "hunter2")]}}}, "ssh.login: status must be"),
        ({"hosts": {"ws": HOST | {"failures": [{"role": 3, "task": "x"}]}}}, "hosts.ws.role is missing or no string"),
        ({"hosts": {"ws": HOST | {"roles": {"ssh": {}}}}}, "hosts.ws.module_runs is missing or no whole number"),
        ({"hosts": {"ws": HOST | {"stats": {"failures": -1}}}}, "hosts.ws.failures is out of range"),
    ],
)
def test_flaw_of_a_report_is_named_without_its_value(flaw, problem):
    with pytest.raises(ValueError, match=re.escape(problem)) as refused:
        read(report(ws=HOST) | flaw)
    assert "hunter2" not in str(refused.value)


def test_text_is_made_clean():
    assert clean("a\0b\x1b\ud800\uffff") == "a\ufffdb\ufffd\ufffd\ufffd"
    assert clean("one\r\ntwo\tthree") == "one\ntwo\tthree"
    assert clean("ümlaut, 漢字, 🚀") == "ümlaut, 漢字, 🚀"


def test_long_text_is_cut():
    assert shorten("x" * 4000) == "x" * 4000
    assert shorten("x" * 100_000) == "x" * 4000 + " … (96000 more characters in the report)"


def test_newest_run_of_a_host_counts():
    monday = read(report(MONDAY, a=host(finding("ssh.login", "fail")), b=host(finding("ssh.login", "warn"))))
    tuesday = read(report(TUESDAY, a=host(finding("ssh.login"))))
    for order in ([monday, tuesday], [tuesday, monday]):
        fleet = _report_fleet.fleet(order, inventory=["a", "b", "c"])
        states = [(entry.name, entry.state, entry.report.started) for entry in fleet.hosts]
        assert states == [("b", "warn", MONDAY), ("a", "pass", TUESDAY)]
        assert fleet.missing == ["c"]


def test_times_of_other_zones_are_compared():
    utc = read(report("2026-11-24T10:00:00+00:00", a=host(finding("ssh.login", "fail"))))
    east = read(report("2026-11-24T11:30:00+02:00", a=host(finding("ssh.login"))))
    bare = read(report("2026-11-24T09:00:00", a=host(finding("ssh.login"))))
    assert _report_fleet.fleet([east, utc, bare]).hosts[0].state == "fail"


def test_host_is_compared_with_its_run_before():
    runs = [
        read(report(time, a=host(finding("ssh.login", status))))
        for time, status in ((MONDAY, "pass"), (TUESDAY, "fail"), (WEDNESDAY, "warn"))
    ]
    entry = _report_fleet.fleet(runs[2:], [runs[0], runs[1], runs[2]]).hosts[0]
    assert entry.earlier == runs[1]
    assert entry.changes == [Change("ssh.login", "fail", "warn")]


def test_host_of_one_run_has_no_changes():
    entry = _report_fleet.fleet([read(report(a=host(finding("ssh.login"))))]).hosts[0]
    assert (entry.earlier, entry.changes) == (None, [])


def test_changes_are_found_worst_first():
    before = {"ssh.login": "fail", "ssh.port": "pass", "ssh.root": "warn", "ssh.old": "pass"}
    after = {"ssh.login": "pass", "ssh.port": "fail", "ssh.root": "warn", "ssh.new": "skip"}
    assert changes(before, after)[0] == [
        Change("ssh.port", "pass", "fail"),
        Change("ssh.login", "fail", "pass"),
        Change("ssh.new", "", "skip"),
        Change("ssh.old", "pass", "gone"),
    ]


def test_findings_of_roles_left_out_are_not_gone():
    assert changes({"ssh.login": "pass", "samba.login": "fail"}, {"ssh.login": "pass"}) == ([], 1)


@pytest.mark.parametrize(
    ("statuses", "failed", "state"),
    [
        ([], False, "pass"),
        (["pass", "skip"], False, "pass"),
        (["skip"], False, "skip"),
        (["pass", "warn"], False, "warn"),
        (["warn", "fail"], False, "fail"),
        (["pass"], True, "failed"),
    ],
)
def test_state_of_a_host(statuses, failed, state):
    findings: Any = [finding(f"ssh.check_{number}", status) for number, status in enumerate(statuses)]
    assert _report_fleet.fleet([read(report(ws=host(*findings, failed=failed)))]).hosts[0].state == state


def test_failed_hosts_come_first():
    hosts: Any = {"a": host(), "b": host(finding("ssh.login", "fail")), "c": host(failed=True), "d": host(failed=True)}
    fleet = _report_fleet.fleet([read(report(**hosts))])
    assert [entry.name for entry in fleet.hosts] == ["c", "d", "b", "a"]
    assert fleet.states == {"failed": 2, "fail": 1, "pass": 1}


def test_work_of_roles_is_summed():
    data = report(a=host(ssh=work(1, 2.0)), b=host(ssh=work(0, 5.0), samba=work()))
    roles = _report_fleet.fleet([read(data)]).roles
    assert list(roles) == ["ssh", "samba"]
    assert (roles["ssh"].hosts, roles["ssh"].module_runs, roles["ssh"].changed) == (2, 6, 1)
    assert (roles["ssh"].longest, roles["ssh"].slowest) == (5.0, "b")
