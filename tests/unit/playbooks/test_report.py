# SPDX-License-Identifier: GPL-3.0-or-later
"""The real playbook after real runs."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

REPORT = [{"import_playbook": "rigwright.workstation.report"}]


def record(status):
    finding = {"id": "web.open", "status": status, "evidence": "<script>alert(1)</script>", "remedy": "open it"}
    return [{"name": "Record", "rigwright.workstation.finding": finding}]


def test_page_shows_the_last_run_and_what_changed(run_tasks, run_plays, tmp_path):
    for status in ("pass", "fail"):
        last = run_tasks(record(status), hosts=("ws1", "ws2")).report
    run = run_plays(REPORT, hosts=("ws1", "ws2", "new"))
    assert run.rc == 0, run.output
    assert "3 hosts: 2 with failed findings, 1 without a report" in run.output
    assert all(f"{tmp_path}/report.{suffix}" in run.output for suffix in ("html", "xml"))
    page = (tmp_path / "report.html").read_text()
    assert "pass → <b" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script" not in page
    suites = ET.parse(tmp_path / "report.xml").getroot()  # noqa: S314 - the test wrote it
    assert [(suite.get("name"), suite.get("failures")) for suite in suites] == [
        ("ws1", "1"),
        ("ws2", "1"),
        ("new", "0"),
    ]
    # The run that reads the report leaves it as it was.
    assert run.report == last


def test_variables_name_the_files(run_plays, tmp_path):
    (tmp_path / "lab.json").write_text(json.dumps({"schema": 3}))
    run = run_plays(REPORT, "-e", "report_file=lab.json,none.json")
    output = " ".join(run.output.split())
    assert run.rc == 2
    assert f"report_file: {tmp_path}/lab.json has schema 3" in output
    assert f"report_file: {tmp_path}/none.json is missing" in output


def test_playbook_that_also_does_other_work_is_reported(run_plays, tmp_path):
    work = {"hosts": "all", "gather_facts": False, "tasks": record("pass")}
    run = run_plays([work, *REPORT])
    assert run.rc == 2
    assert "report.json is missing; run site.yml or verify first" in " ".join(run.output.split())
    assert [finding["id"] for finding in run.report["hosts"]["localhost"]["findings"]] == ["web.open"]
