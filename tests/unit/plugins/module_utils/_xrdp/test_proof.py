# SPDX-License-Identifier: GPL-3.0-or-later
"""The findings of each answer, and that each of them can fail."""

from __future__ import annotations

import socket

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import proof
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.probe import Answer
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.proof import (
    Answers,
    findings,
    is_answer,
    retry,
)

GOOD = Answers(Answer(-1, "TLS is required"), Answer(1, "TLS"), "AB:CD", False)
FILES = {"/etc/xrdp/xrdp.ini": True, "/etc/xrdp/sesman.ini": True}


def statuses(answers: Answers, deployed: str = "AB:CD", files: dict[str, bool] | None = None) -> dict[str, str]:
    found = findings(answers, deployed, FILES if files is None else files)
    return {finding["id"].removeprefix("xrdp."): finding["status"] for finding in found}


def test_a_secure_server_passes():
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


def test_an_impossible_probe_is_skipped():
    assert statuses(GOOD._replace(old_tls=None))["old_tls"] == "skip"


def test_no_deployed_certificate_and_an_edited_file_fail():
    assert statuses(GOOD._replace(fingerprint=""), deployed="")["fingerprint"] == "fail"
    assert statuses(GOOD, files={"/etc/xrdp/xrdp.ini": False})["settings"] == "fail"
    assert statuses(GOOD, files={})["settings"] == "fail"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TLS is required", True),
        ("nobody answers: Connection reset by peer", False),
        ("the server closes the connection", False),
    ],
)
def test_a_closed_connection_is_not_an_answer(text: str, expected: bool):
    assert is_answer(text) is expected


def test_a_closed_connection_is_tried_five_times():
    answers = iter(["the server closes the connection", "the server closes the connection", "TLS", "not read"])
    assert retry(lambda: next(answers), is_answer, pause=0) == "TLS"
    closed = iter(["the server closes the connection"] * 5)
    assert retry(lambda: next(closed), is_answer, pause=0) == "the server closes the connection"
    assert list(closed) == []


def test_answers_of_another_users_program_are_no_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof.time, "sleep", lambda _seconds: None)
    places: list[tuple[str, int]] = []

    def mallory(address: str, port: int) -> str:
        places.append((address, port))
        return "the user mallory listens there, and not the service"

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        answers, of_gnome = proof.ask(port, mallory), proof.ask_gnome(port, mallory)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert {*places} == {("127.0.0.1", port)}
    found = {row["id"]: row["status"] for row in proof.findings(answers, "AB", {"/etc/xrdp/xrdp.ini": True})}
    assert {name for name, status in found.items() if status == "pass"} == {"xrdp.settings"}
    assert (of_gnome.nla, of_gnome.fingerprint, of_gnome.plain) == (False, "", answers.plain.text)
