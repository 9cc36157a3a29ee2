# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet as JUnit XML, as Jenkins' junit-10.xsd describes it: a test suite a host, a test case a finding or a failed task."""

from __future__ import annotations

import datetime
from xml.etree import ElementTree as ET

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report import OUTSIDE
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report_fleet import (
    NO_REPORT,
    Fleet,
    Host,
    clean,
    shorten,
    started,
)


def junit(fleet: Fleet) -> str:
    """Return the XML of *fleet*; a warning is a test that passed, with its text as output."""
    root = ET.Element("testsuites", name="rigwright")
    root.extend(_suite(host) for host in fleet.hosts)
    for name in fleet.missing:
        suite = ET.SubElement(root, "testsuite", name=name, hostname=name)
        ET.SubElement(_case(suite, OUTSIDE, NO_REPORT), "skipped", message="no report names this host of the inventory")
        _count(suite)
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(host: Host) -> ET.Element:
    # Without a zone: the schema of Ant, which others check against, allows none.
    time = started(host.report).astimezone(datetime.UTC).replace(tzinfo=None).isoformat(timespec="seconds")
    seconds = sum(work.seconds for _role, work in host.works)
    suite = ET.Element("testsuite", name=host.name, hostname=host.name, timestamp=time, time=f"{seconds:.3f}")
    properties = {
        "playbook": host.report.playbook,
        "check_mode": str(host.report.check_mode).lower(),
        **{f"{role}.module_runs": str(work.module_runs) for role, work in host.works},
        **{f"{role}.changed": str(work.changed) for role, work in host.works},
        **{f"{role}.seconds": f"{work.seconds:.3f}" for role, work in host.works},
    }
    holder = ET.SubElement(suite, "properties")
    for name, value in properties.items():
        ET.SubElement(holder, "property", name=name, value=value)
    for failure in host.result.failures:
        _failed_task(_case(suite, failure["role"] or OUTSIDE, f"task: {failure['task']}"), host.result.failed)
    if host.result.failed and not host.result.failures:
        _failed_task(_case(suite, OUTSIDE, "run"), failed=True)
    for finding in host.result.findings:
        _finding(_case(suite, finding["id"].partition(".")[0], finding["id"]), finding)
    _count(suite)
    return suite


def _case(suite: ET.Element, role: str, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=role, name=clean(name), time="0")


def _failed_task(case: ET.Element, failed: bool) -> None:
    # A report has the name of a failed task, not its message.
    if failed:
        ET.SubElement(case, "error", type="failed", message="the task failed; the output of the run has its message")
    else:
        ET.SubElement(case, "system-out").text = "the task failed, and a rescue caught it"


def _finding(case: ET.Element, finding: Finding) -> None:
    evidence = shorten(finding["evidence"])
    text = f"{evidence}\nremedy: {shorten(finding['remedy'])}"
    if finding["status"] == "fail":
        ET.SubElement(case, "failure", type="fail", message=_line(evidence)).text = text
    elif finding["status"] == "warn":
        ET.SubElement(case, "system-out").text = f"warning: {text}"
    elif finding["status"] == "skip":
        ET.SubElement(case, "skipped", message=_line(evidence))


def _line(text: str) -> str:
    return " ".join(text.split())


def _count(suite: ET.Element) -> None:
    """Set the counts of *suite* by its test cases."""
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(key, str(sum(case.find(tag) is not None for case in cases)))
