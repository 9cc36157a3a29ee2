# SPDX-License-Identifier: GPL-3.0-or-later
"""The JUnit XML of a fleet, read as a CI server reads it."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest
from ansible_collections.rigwright.workstation.plugins.plugin_utils import _report_fleet
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report_junit import junit

from tests.unit.support.report import HOSTILE, finding, host, hostile, large, report, work

# Jenkins' junit-10.xsd: attributes that an element must have and may have, and its children.
SCHEMA = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"time", "skipped", "timestamp", "hostname", "id", "package"},
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": ({"name"}, {"time", "classname"}, {"skipped", "error", "failure", "system-out", "system-err"}),
    "skipped": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "failure": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}


def assert_valid(root):
    for element in root.iter():
        needed, allowed, children = SCHEMA[element.tag]
        assert needed <= set(element.keys()) <= needed | allowed
        assert {child.tag for child in element} <= children
    for key, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
        assert [int(suite.get(key)) for suite in root] == [len(list(suite.iter(tag))) for suite in root]
        assert int(root.get(key)) == len(list(root.iter(tag)))


def written(*reports, **options):
    parsed = [_report_fleet.parse(json.dumps(data).encode()) for data in reports]
    root = ET.fromstring(junit(_report_fleet.fleet(parsed, **options)).encode())  # noqa: S314 - the test wrote it
    assert_valid(root)
    return root


def case(root, name):
    """Return role, children, message and text of a test case."""
    element = root.find(f".//testcase[@name='{name}']")
    result = element[0] if len(element) else None
    return (
        element.get("classname"),
        [child.tag for child in element],
        None if result is None else result.get("message"),
        None if result is None else result.text,
    )


def test_finding_is_a_test_of_its_host_and_role():
    root = written(
        report(
            ws=host(
                finding("ssh.login", "fail", "no key\nof owner", "add one"),
                finding("ssh.port", "warn", "22", "another"),
                finding("samba.login", "skip", "no users"),
                finding("samba.port"),
            )
        )
    )
    assert case(root, "ssh.login") == ("ssh", ["failure"], "no key of owner", "no key\nof owner\nremedy: add one")
    assert case(root, "ssh.port") == ("ssh", ["system-out"], None, "warning: 22\nremedy: another")
    assert case(root, "samba.login") == ("samba", ["skipped"], "no users", None)
    assert case(root, "samba.port") == ("samba", [], None, None)
    suite = root[0]
    assert (suite.get("name"), suite.get("hostname"), suite.get("timestamp")) == ("ws", "ws", "2026-11-24T10:00:00")
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "1", "1")


def test_failed_task_is_an_error():
    root = written(report(a=host(failures=("Restart sshd",), failed=True), b=host(failed=True)))
    assert case(root, "task: Restart sshd")[:2] == ("ssh", ["error"])
    assert case(root, "run")[:2] == ("(outside roles)", ["error"])
    assert root.get("errors") == "2"


def test_task_that_a_rescue_caught_is_no_error():
    assert case(written(report(ws=host(failures=("Try",)))), "task: Try")[1] == ["system-out"]


def test_host_without_report_is_skipped():
    root = written(report(ws=host()), inventory=["ws", "new"])
    assert [(suite.get("name"), suite.get("skipped")) for suite in root] == [("ws", "0"), ("new", "1")]


def test_module_runs_are_properties():
    root = written(report(ws=host(ssh=work(2, 3.25))))
    properties = {element.get("name"): element.get("value") for element in root.iter("property")}
    assert properties["ssh.module_runs"] == "3"
    assert properties["ssh.changed"] == "2"
    assert properties["ssh.seconds"] == root[0].get("time") == "3.250"


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_comes_from_hosts_is_text(text):
    root = written(hostile(text), inventory=[f"no {text}"])
    clean = _report_fleet.clean(text)
    assert [suite.get("name") for suite in root] == [clean, f"no {clean}"]
    assert case(root, "ssh.login")[3] == f"{clean}\nremedy: {clean}"


def test_evidence_of_100_kb_is_cut():
    root = written(report(ws=host(finding("ssh.login", "fail", "x" * 100_000))))
    assert len(case(root, "ssh.login")[3]) < 5000


def test_fleet_is_counted():
    root = written(large())
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3000", "5", "0")
