# SPDX-License-Identifier: GPL-3.0-or-later
"""Which mirrors are used, in which order, and why others are not."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.mirrors import (
    DEAD,
    FIT,
    STALE,
    Mirror,
    Missing,
    NoMirror,
    Request,
    Unreachable,
    choose,
    examine,
    examine_all,
    from_json,
    mirror_list,
    release_date,
    to_json,
)

NOW = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
OLD = "Origin: Debian\nDate: Sat, 11 Jul 2026 10:16:37 UTC\n"
FRESH = "Origin: Debian\nDate: Fri, 20 Nov 2026 12:00:00 UTC\n"
A, B = "https://a.example/debian", "https://b.example/debian"


def request(*urls: str, suites: dict[str, str] | None = None) -> Request:
    return Request(urls or (A,), "bookworm", suites or {"bookworm": ""}, False, True, 7)


def serve(pages: dict[str, str | Exception]) -> Callable[[str], str]:
    """Return a fetch function for which only these pages exist."""

    def fetch(url: str) -> str:
        page = pages.get(url, Missing("404 Not Found"))
        if isinstance(page, Exception):
            raise page
        return page

    return fetch


def test_age_of_a_mirror_is_that_of_the_updates_suite() -> None:
    fetch = serve({f"{A}/dists/bookworm/InRelease": OLD, f"{A}/dists/bookworm-updates/InRelease": FRESH})

    assert examine(A, request(), fetch, NOW) == Mirror(A, FIT, "", 1.0)


def test_stale_mirror_has_its_age_and_the_limit_as_reason() -> None:
    fetch = serve({f"{A}/dists/bookworm/InRelease": OLD, f"{A}/dists/bookworm-updates/InRelease": OLD})

    found = examine(A, request(), fetch, NOW)

    assert (found.status, found.age_days) == (STALE, 133.1)
    assert found.reason == "its newest release is 133.1 days old, the limit is 7 days"


def test_a_mirror_that_does_not_answer_is_dead() -> None:
    fetch = serve({f"{A}/dists/bookworm-updates/InRelease": Unreachable("connect (111: Connection refused)")})

    assert examine(A, request(), fetch, NOW) == Mirror(A, DEAD, "connect (111: Connection refused)")


def test_a_mirror_without_a_suite_of_this_host_is_dead() -> None:
    fetch = serve({f"{A}/dists/bookworm/InRelease": OLD, f"{A}/dists/bookworm-updates/InRelease": FRESH})

    found = examine(A, request(suites={"bookworm": "", "bookworm-backports": ""}), fetch, NOW)

    assert found.status == DEAD
    assert found.reason == "no bookworm-backports (404 Not Found)"


def test_a_login_page_is_no_mirror() -> None:
    fetch = serve({f"{A}/dists/bookworm-updates/InRelease": "<html>Please log in</html>"})

    assert examine(A, request(), fetch, NOW) == Mirror(A, DEAD, "what it serves is no Release file")


def test_security_suite_is_next_to_the_archive() -> None:
    fetch = serve({
        f"{A}/dists/bookworm/InRelease": OLD,
        f"{A}/dists/bookworm-updates/InRelease": FRESH,
        f"{A}-security/dists/bookworm-security/InRelease": FRESH,
    })  # fmt: skip

    assert examine(A, request(suites={"bookworm": "", "bookworm-security": "-security"}), fetch, NOW).status == FIT


def test_mirrors_keep_the_order_in_which_they_were_asked_for() -> None:
    urls = tuple(f"https://{name}.example/debian" for name in "abcdefghijkl")
    fetch = serve(
        {f"{url}/dists/{suite}/InRelease": FRESH for url in urls for suite in ("bookworm", "bookworm-updates")}
    )

    assert [mirror.url for mirror in examine_all(request(*urls), fetch, NOW)] == list(urls)


@pytest.mark.parametrize("text", ["", "Date: \n", "Date: soon\n", "Dates: Fri, 20 Nov 2026 12:00:00 UTC\n"])
def test_a_release_without_a_date_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Release file"):
        release_date(text)


def test_dead_mirrors_are_tried_last_and_stale_ones_never() -> None:
    dead, stale, fit = Mirror(A, DEAD, "refused"), Mirror(B, STALE, "old"), Mirror("https://c.example/debian", FIT)

    choice = choose(request(A, B, fit.url), [dead, stale, fit])

    assert choice.order == (fit, dead)
    assert choice.left_out == (stale,)


def test_no_fit_mirror_raises_every_reason() -> None:
    with pytest.raises(NoMirror, match=rf"{A}: refused; {B}: 41 days old"):
        choose(request(A, B), [Mirror(A, DEAD, "refused"), Mirror(B, STALE, "41 days old")])


def test_a_choice_is_remembered_whole_but_for_ages() -> None:
    choice = choose(
        request(A, B), [Mirror(A, FIT, "", 0.4), Mirror(B, DEAD, "refused")], ["http://archive.example/debian-security"]
    )

    remembered = from_json(to_json(choice))

    assert remembered is not None
    assert remembered.request == choice.request
    assert remembered.order == (Mirror(A, FIT), Mirror(B, DEAD, "refused"))
    assert remembered.security_uris == ("http://archive.example/debian-security",)


def test_asking_again_a_day_later_remembers_the_same_words() -> None:
    def remembered(age: float) -> str:
        return to_json(
            choose(request(A, B), [Mirror(A, FIT, "", age), Mirror(B, STALE, f"{age + 30:g} days old", age + 30)])
        )

    assert remembered(0.4) == remembered(1.4)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"request": {"urls": []}}'])
def test_a_damaged_memory_means_choosing_again(text: str) -> None:
    assert from_json(text) is None


def test_apt_reads_the_order_from_priorities() -> None:
    assert mirror_list([A, B]) == f"{A}\tpriority:1\n{B}\tpriority:2\n"
