# SPDX-License-Identifier: GPL-3.0-or-later
"""The action write_report: which reports it takes, and which files it writes."""

from __future__ import annotations

import json
import os
import stat

import pytest

from tests.unit.support.report import MONDAY, TUESDAY, WEDNESDAY, finding, host, report

WRITE = "rigwright.workstation.write_report"


@pytest.fixture
def folder(tmp_path):
    """Return a folder with the reports of two controllers, `lab.json` and `office.json`."""
    folder = tmp_path / "reports"
    folder.mkdir()
    save(folder / "lab.json", report(TUESDAY, ws1=host(finding("ssh.login", "fail")), ws2=host()))
    save(folder / "office.json", report(WEDNESDAY, ws1=host(finding("ssh.login")), ws3=host()))
    return folder


def save(path, data):
    path.write_text(json.dumps(data))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_reports_of_two_controllers_make_one_page(run_tasks, folder):
    files = [str(folder / name) for name in ("lab.json", "office.json")]
    run = run_tasks([{WRITE: {"file": files, "html": str(folder / "www/fleet.html"), "hosts": ["ws3", "ws4"]}}], "-v")
    assert run.rc == 0, run.output
    assert "4 hosts: 3 passed, 1 without a report" in run.output
    page = (folder / "www/fleet.html").read_text()
    assert "fail → <b" in page
    assert all(f">ws{number}<" in page for number in (1, 2, 3, 4))
    assert (folder / "www/fleet.html").stat().st_mode & 0o777 == 0o600
    # The JUnit file is next to the first report.
    assert names(folder) == ["lab.json", "lab.xml", "office.json", "www"]


def test_mode_of_an_existing_file_is_kept(run_tasks, folder):
    (folder / "fleet.html").touch(mode=0o644)
    write = {"file": str(folder / "lab.json"), "html": str(folder / "fleet.html"), "junit": ""}
    run = run_tasks([{WRITE: write}])
    assert run.rc == 0, run.output
    assert (folder / "fleet.html").stat().st_mode & 0o777 == 0o644
    assert (folder / "fleet.html").stat().st_size > 1000
    assert names(folder) == ["fleet.html", "lab.json", "office.json"]


@pytest.mark.parametrize("mode", [0o777, 0o666, 0o4644])
def test_rights_that_others_could_use_do_not_stay(run_tasks, folder, mode):
    (folder / "lab.html").touch()
    (folder / "lab.html").chmod(mode)
    run = run_tasks([{WRITE: {"file": str(folder / "lab.json")}}])
    assert run.rc == 0, run.output
    assert (folder / "lab.html").stat().st_mode & 0o7777 == 0o600


def test_link_in_place_of_a_page_is_replaced(run_tasks, folder):
    theirs = folder / "theirs"
    theirs.write_text("theirs")
    theirs.chmod(0o644)
    (folder / "lab.html").symlink_to(theirs)
    os.mkfifo(folder / "lab.xml")
    run = run_tasks([{WRITE: {"file": str(folder / "lab.json")}}])
    assert run.rc == 0, run.output
    for name in ("lab.html", "lab.xml"):
        assert stat.S_ISREG((folder / name).lstat().st_mode) and (folder / name).stat().st_mode & 0o777 == 0o600
    assert theirs.read_text() == "theirs"


def test_fifo_in_place_of_a_report_is_not_waited_for(run_tasks, folder):
    os.mkfifo(folder / "pipe.json")
    run = run_tasks([{WRITE: {"file": [str(folder / "pipe.json")]}}])
    assert run.rc == 2
    assert f"report_file: {folder}/pipe.json: is no regular file; name a file that you can read." in " ".join(
        run.output.split()
    )


def test_check_mode_writes_nothing(run_tasks, folder):
    run = run_tasks([{WRITE: {"file": str(folder / "lab.json")}}], "--check")
    assert run.rc == 0, run.output
    assert "changed=1" in run.output
    assert names(folder) == ["lab.json", "office.json"]


def test_reports_that_cannot_be_used_are_refused_at_once(run_tasks, folder):
    save(folder / "new.json", report() | {"schema": 2})
    save(folder / "moved.json.previous", report(MONDAY))
    (folder / "cut.json").write_text('{"schema": 1, "hosts": {"ws": {"find')
    bad = ["new.json", "moved.json", "cut.json", "none.json", "."]
    before = names(folder)
    run = run_tasks([{WRITE: {"file": [str(folder / name) for name in ["lab.json", *bad]]}}])
    output = " ".join(run.output.split())
    assert run.rc == 2
    assert f"report_file: {folder}/new.json has schema 2, and this release reads schema 1; write it again" in output
    assert f"report_file: {folder}/moved.json is missing: the run after {folder}/moved.json.previous" in output
    assert f"report_file: {folder}/cut.json is not JSON, or not all of it (" in output
    assert f"report_file: {folder}/none.json is missing; run site.yml or verify first" in output
    assert f"report_file: {folder}: is no regular file; name a file that you can read." in output
    assert names(folder) == before


def test_earlier_report_that_cannot_be_used_is_marked(run_tasks, folder):
    save(folder / "lab.json.previous", report(MONDAY) | {"schema": 0})
    run = run_tasks([{WRITE: {"file": str(folder / "lab.json")}}])
    problem = "lab.json.previous has schema 0, and this release reads schema 1; nothing is compared with it."
    assert run.rc == 0, run.output
    assert problem in " ".join(run.output.split())
    assert problem in (folder / "lab.html").read_text()


def test_report_from_the_future_is_marked(run_tasks, folder):
    save(folder / "lab.json", report("2999-01-01T00:00:00+00:00", ws=host()))
    run = run_tasks([{WRITE: {"file": str(folder / "lab.json")}}])
    assert run.rc == 0, run.output
    assert "begins later than this page; check the controllers" in (folder / "lab.html").read_text()


def test_no_report_is_overwritten(run_tasks, folder):
    lab = str(folder / "lab.json")
    run = run_tasks([{WRITE: {"file": [lab], "html": lab, "junit": f"{folder}/www/../lab.json"}}])
    assert run.rc == 2
    assert f"report_html: {lab} is a report, or the file of another format; name a file of its own." in run.output
    assert f"report_junit: {lab} is a report" in run.output
    assert json.loads((folder / "lab.json").read_text())["schema"] == 1


def test_no_report_is_overwritten_by_another_way(run_tasks, folder):
    (folder / "www").symlink_to(folder)
    write = {"file": [f"{folder}/lab.json"], "html": f"{folder}/www/lab.json", "junit": ""}
    run = run_tasks([{WRITE: write}])
    assert run.rc == 2
    assert f"report_html: {folder}/www/lab.json is a report" in run.output
    assert json.loads((folder / "lab.json").read_text())["schema"] == 1


def test_file_that_cannot_be_written_is_named(run_tasks, folder):
    write = {"file": str(folder / "lab.json"), "html": str(folder), "junit": str(folder / "office.json/x.xml")}
    output = " ".join(run_tasks([{WRITE: write}]).output.split())
    assert f"report_html: {folder} cannot be written: Is a directory; name a file" in output
    assert f"report_junit: {folder}/office.json/x.xml cannot be written: File exists; name a file" in output
