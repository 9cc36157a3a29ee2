# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report import Report, short_role, summary, table


@pytest.fixture
def report():
    return Report(playbook="site.yml", ansible_core="2.21.5", check_mode=False, started="2026-11-21T10:00:00+00:00")


def run(host="ws", role="ssh", verify=False):
    return {"host": host, "role": role, "verify": verify}


def test_module_runs_are_kept_by_host_role_and_purpose(report):
    for first in [run(), run(), run(verify=True), run(role="common"), run(role=None), run(host="gw")]:
        report.add_module_run(first)
    assert report.hosts["ws"].roles["ssh"].module_runs == 2
    assert report.hosts["ws"].roles["ssh"].verify_module_runs == 1
    assert report.hosts["ws"].roles["common"].module_runs == 1
    assert report.hosts["ws"].outside_roles.module_runs == 1
    assert report.hosts["gw"].roles["ssh"].module_runs == 1


@pytest.mark.parametrize(
    ("stats", "failed"),
    [({}, False), ({"failures": 0, "rescued": 1}, False), ({"failures": 1}, True), ({"unreachable": 1}, True)],
)
def test_host_failed_when_ansible_reports_it(report, stats, failed):
    report.host("ws").stats = stats
    assert report.as_data()["hosts"]["ws"]["failed"] is failed


def test_data_is_json_with_its_schema(report):
    report.add_module_run(run())
    report.host("ws").work("ssh").seconds = 1.23456
    data = json.loads(json.dumps(report.as_data()))
    assert data["schema"] == 1
    assert data["hosts"]["ws"]["roles"]["ssh"]["seconds"] == 1.235


@pytest.mark.parametrize(
    ("name", "short"),
    [("rigwright.workstation.ssh", "ssh"), ("ssh", "ssh"), ("other.collection.ssh", "other.collection.ssh")],
)
def test_short_role(name, short):
    assert short_role(name) == short


def test_table_shows_findings_then_work(report):
    report.add_module_run(run(role="mirrors"))
    report.add_module_run(run(role=None))
    report.host("ws").work("mirrors").seconds = 0.31
    report.host("ws").add_findings(
        [
            {"id": "ssh.key_login", "status": "pass", "evidence": "ssh as owner: rc 0", "remedy": "add a key"},
            {"id": "ssh.root", "status": "fail", "evidence": "root got\nin", "remedy": "set it"},
        ]
    )
    report.host("ws").stats = {"failures": 1}
    assert list(table(report)) == [
        ("ws FAILED", "fail"),
        ("  ✔ ssh.key_login  ssh as owner: rc 0", "pass"),
        ("  ✘ ssh.root       root got in", "fail"),
        ("                   remedy: set it", "fail"),
        ("  role             module runs  verify  changed  seconds", ""),
        ("  mirrors                    1       0        0      0.3", ""),
        ("  (outside roles)            1       0        0      0.0", ""),
    ]


def test_table_of_a_run_without_hosts_is_empty(report):
    assert list(table(report)) == []


def test_summary_shows_what_is_no_pass_and_counts_the_rest(report):
    for host, seconds in (("ws", 1.0), ("gw", 3.0), ("off", 0.0)):
        report.host(host).work("ssh").seconds = seconds
        report.host(host).work("ssh").changed = 1
        report.host(host).add_findings(
            [{"id": f"ssh.{number}", "status": "pass", "evidence": "fine", "remedy": ""} for number in range(2)]
        )
    report.host("ws").add_findings(
        [
            {"id": "ssh.fail2ban", "status": "warn", "evidence": "no  jail", "remedy": "add the port"},
            {"id": "gpu.card", "status": "pass", "evidence": "one", "remedy": ""},
            {"id": "gpu.mig", "status": "skip", "evidence": "no MIG", "remedy": ""},
        ]
    )
    report.host("off").stats = {"unreachable": 1}
    report.host("off").failures = [{"role": "ssh", "task": "ssh : Configure"}]
    report.host("gw").outside_roles.changed = 2
    report.host("gw").failures = [{"role": "ssh", "task": "ssh : Try"}]
    assert [*summary(report)] == [
        ("ws", ""),
        ("  ! ssh.fail2ban  no jail", "warn"),
        ("                  remedy: add the port", "warn"),
        ("  - gpu.mig       no MIG", "skip"),
        ("gw", ""),
        ("  ! task: ssh : Try (a rescue caught it)", "warn"),
        ("off FAILED", "fail"),
        ("  ✘ task: ssh : Configure", "fail"),
        ("role             hosts  pass  changed  seconds", ""),
        ("ssh                  3     6        3      3.0", ""),
        ("gpu                  1     1        0      0.0", ""),
        ("(outside roles)      1     0        2      0.0", ""),
    ]
