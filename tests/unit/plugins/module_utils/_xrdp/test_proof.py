# SPDX-License-Identifier: GPL-3.0-or-later
"""What is proven by which answer, and that each proof can fail."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.probe import Answer
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.proof import (
    Answers,
    findings,
    is_word,
    patiently,
)

GOOD = Answers(Answer(-1, "TLS is required"), Answer(1, "TLS"), "AB:CD", False)
FILES = {"/etc/xrdp/xrdp.ini": True, "/etc/xrdp/sesman.ini": True}


def statuses(answers: Answers, deployed: str = "AB:CD", files: dict[str, bool] | None = None) -> dict[str, str]:
    found = findings(answers, deployed, FILES if files is None else files)
    return {finding["id"].removeprefix("xrdp."): finding["status"] for finding in found}


def test_a_server_as_it_should_be_passes_everywhere():
    assert set(statuses(GOOD).values()) == {"pass"}


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        ({"plain": Answer(0, "RDP's own security")}, {"plain"}),
        ({"plain": Answer(-1, "nobody answers: Connection refused")}, {"plain"}),
        ({"tls": Answer(0, "RDP's own security")}, {"tls"}),
        (
            {"tls": Answer(-1, "the server has no certificate that it can read"), "fingerprint": ""},
            {"tls", "fingerprint"},
        ),
        ({"fingerprint": "EF:01"}, {"fingerprint"}),
        ({"old_tls": True}, {"old_tls"}),
    ],
)
def test_each_weakness_fails_its_own_proof(change, failed):
    found = statuses(GOOD._replace(**change))
    assert {name for name, status in found.items() if status == "fail"} == failed


def test_what_cannot_be_asked_is_skipped_and_not_passed():
    assert statuses(GOOD._replace(old_tls=None))["old_tls"] == "skip"


def test_no_deployed_certificate_and_an_edited_file_fail():
    assert statuses(GOOD._replace(fingerprint=""), deployed="")["fingerprint"] == "fail"
    assert statuses(GOOD, files={"/etc/xrdp/xrdp.ini": False})["settings"] == "fail"
    assert statuses(GOOD, files={})["settings"] == "fail"


@pytest.mark.parametrize(
    ("said", "expected"),
    [("TLS is required", True), ("nobody answers: Connection reset by peer", False), ("it hangs up", False)],
)
def test_being_hung_up_on_is_no_answer(said: str, expected: bool):
    assert is_word(said) is expected


def test_who_is_hung_up_on_knocks_again_and_gives_up_in_the_end():
    answers = iter(["it hangs up", "it hangs up", "TLS", "never asked"])
    assert patiently(lambda: next(answers), is_word, pause=0) == "TLS"
    hung_up = iter(["it hangs up"] * 5)
    assert patiently(lambda: next(hung_up), is_word, pause=0) == "it hangs up"
    assert list(hung_up) == []
