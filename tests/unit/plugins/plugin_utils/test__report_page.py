# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTML page of a fleet: what it shows, and that it runs and requests nothing."""

from __future__ import annotations

import datetime
import html.parser
import json

import pytest
from ansible_collections.rigwright.workstation.plugins.plugin_utils import _report_fleet
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report_page import page, summary

from tests.unit.support.report import HOSTILE, MONDAY, TUESDAY, finding, host, hostile, large, report, work

NOW = datetime.datetime(2026, 11, 24, 13, 5, tzinfo=datetime.UTC)
# What the template uses. None of them runs or requests something.
TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "header",
    "main",
    "section",
    "h1",
    "h2",
    "h3",
    "p",
    "b",
    "a",
    "ul",
    "li",
    "code",
    "samp",
    "span",
    "details",
    "summary",
    "div",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
}
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "id", "href"}
VOID = {"meta"}


def read(data):
    return _report_fleet.parse(json.dumps(data).encode())


def fleet(*reports, **options):
    return _report_fleet.fleet([read(data) for data in reports], **options)


class Page(html.parser.HTMLParser):
    """The elements of a page, the text of each, and all text in order; tags must be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._data: list[str] = []
        self._texts: list[str] = []
        self._open: list[int] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self._open.append(len(self.elements))
        self.elements.append((tag, dict(attrs)))
        self._texts.append("")

    def handle_endtag(self, tag):
        assert self.elements[self._open.pop()][0] == tag

    def handle_data(self, data):
        if self._open:
            self._texts[self._open[-1]] += data
            self._data.append(data)

    def handle_comment(self, data):
        pytest.fail(f"a comment: {data}")

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._data).split())

    def of(self, tag: str) -> list[str]:
        """Return the text of each element *tag*."""
        return [text for (kind, _attributes), text in zip(self.elements, self._texts, strict=True) if kind == tag]


def shown(*reports, notes=(), **options):
    return Page(page(fleet(*reports, **options), NOW, notes))


def assert_runs_and_requests_nothing(page):
    assert {tag for tag, _attributes in page.elements} <= TAGS
    assert {name for _tag, attributes in page.elements for name in attributes} <= ATTRIBUTES
    links = [attributes["href"] for _tag, attributes in page.elements if "href" in attributes]
    targets = {f"#{attributes['id']}" for _tag, attributes in page.elements if "id" in attributes}
    assert set(links) <= targets
    style = "".join(page.of("style"))
    assert style != ""
    assert [request for request in ("url(", "@import", "image-set", "\\") if request in style] == []


def test_page_names_its_policy_first():
    head = page(fleet(report()), NOW).partition("<title>")[0]
    assert "default-src 'none'; style-src 'unsafe-inline'" in head


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_comes_from_hosts_is_text(text):
    earlier = [read(hostile(text) | {"started": MONDAY})]
    page = shown(hostile(text), notes=[text], earlier=earlier, inventory=[f"no {text}"])
    assert_runs_and_requests_nothing(page)
    clean = _report_fleet.clean(text)
    # Evidence of four findings, remedies of two, the failed task and the play.
    assert page.of("samp").count(clean) == 4 + 2 + 1 + 1
    assert f"no {clean}" in page.of("td")


def test_evidence_of_100_kb_is_cut():
    data = report(ws=host(finding("ssh.login", "fail", "x" * 100_000)))
    text = page(fleet(data), NOW)
    assert len(text) < 20_000
    assert "… (96000 more characters in the report)" in text


def test_page_of_50_hosts_is_small():
    text = page(fleet(large()), NOW)
    assert len(text.encode()) < 600_000
    read = Page(text)
    assert_runs_and_requests_nothing(read)
    assert len([text for text in read.of("samp") if text.startswith("check")]) == 50 * 60


def test_findings_have_evidence_and_remedy_and_passes_are_closed():
    page = shown(report(ws=host(finding("ssh.login", "fail", "no key", "add one"), finding("ssh.port"))))
    assert "✘ fail ssh.login no key remedy: add one" in page.text
    assert "1 finding passed ssh.port rc 0" in page.text
    assert "open" not in {name for _tag, attributes in page.elements for name in attributes}


def test_failed_tasks_are_shown_with_their_role():
    assert "Failed tasks ✘ ssh Restart sshd" in shown(report(ws=host(failures=("Restart sshd",), failed=True))).text
    assert "ssh Restart sshd (a rescue caught it)" in shown(report(ws=host(failures=("Restart sshd",)))).text
    assert "reported no task" in shown(report(ws=host(failed=True))).text


def test_changes_since_the_run_before_are_shown():
    before = read(report(MONDAY, ws=host(finding("ssh.login"), finding("samba.login"))))
    after = report(ws=host(finding("ssh.login", "fail"), finding("ssh.new"), ssh=work(2)))
    text = shown(after, earlier=[before]).text
    assert "Since 2026-11-23 10:00 UTC (site.yml)" in text
    assert "pass → ✘ fail ssh.login" in text
    assert "new → ✔ pass ssh.new" in text
    assert "1 finding of that run not checked by this one." in text
    assert "Changed: ssh (2 tasks)" in text
    assert "Since" not in shown(after).text
    assert "No finding has another status." in shown(after, earlier=[read(after | {"started": MONDAY})]).text


def test_check_mode_is_marked():
    text = shown(report(check_mode=True, ws=host(ssh=work(1), samba=work(1)))).text
    assert "Check mode: the run changed nothing" in text
    assert "Would change: ssh (1 task), samba (1 task)" in text


@pytest.mark.parametrize(
    ("started", "age"),
    [
        (TUESDAY, "3 hours"),
        (MONDAY, "27 hours"),
        ("2026-11-20T10:00:00+00:00", "4 days"),
        ("2026-11-24T13:04:59+00:00", "1 second"),
        ("2026-11-24T12:00:00+00:00", "65 minutes"),
        ("2026-11-25T10:00:00+00:00", "0 seconds"),
    ],
)
def test_age_of_a_report_is_shown(started, age):
    assert f"{age} old" in shown(report(started, ws=host())).text


def test_host_without_report_is_listed():
    page = shown(report(ws=host()), inventory=["ws", "new"])
    assert "new ! no report" in page.text
    assert page.of("h1") == ["2 hosts: 1 passed, 1 without a report"]


def test_summary_of_a_run_without_hosts():
    assert summary(fleet(report())) == "0 hosts"
    assert_runs_and_requests_nothing(shown(report()))
