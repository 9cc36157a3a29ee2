# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that sends messages, up to apprise itself: molecule/gpu_usage has that."""

from __future__ import annotations

import io
import json
import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.bundle import bundle
from ansible_collections.rigwright.workstation.plugins.module_utils._system import notifier


class Service:
    """A service that takes messages, or gives a reason why it does not."""

    def __init__(self, problem: str = "") -> None:
        self.problem = problem
        self.taken: list[tuple[str, str]] = []

    def __call__(self, title: str, text: str) -> str:
        self.taken.append((title, text))
        return self.problem


@pytest.fixture
def limit(tmp_path: Path) -> notifier.Limit:
    return notifier.Limit(str(tmp_path / "sent.json"), lambda: 10_000.0)


def message(title: str, text: str) -> bytes:
    return json.dumps({"title": title, "text": text}).encode()


def test_message_goes_to_all_and_a_failure_is_counted(limit: notifier.Limit) -> None:
    good, bad = Service(), Service("it answers 401")
    lines: list[str] = []
    lost = notifier.serve({"a": good, "b": bad, "c": None}, [message("title", "text")], limit, "ws1", lines.append)
    assert (lost, good.taken, bad.taken) == (1, [("ws1: title", "text")], [("ws1: title", "text")])
    assert lines == ["received: title: text", "not sent (b: it answers 401; c: apprise cannot read it): title"]


def test_message_is_in_the_journal_before_it_is_sent(limit: notifier.Limit) -> None:
    lines: list[str] = []
    taken = []

    def killed(title: str, _text: str) -> str:
        taken.append(title)
        raise KeyboardInterrupt

    datagrams = iter([message("disk", "it is full"), message("next", "text")])
    with pytest.raises(KeyboardInterrupt):
        notifier.serve({"a": killed}, datagrams, limit, "ws1", lines.append)
    assert lines == ["received: disk: it is full"]
    # The unit starts again with what is left, and the one that was cut off counts.
    assert notifier.serve({"a": Service()}, datagrams, limit, "ws1", lines.append) == 0
    assert lines[-1] == "sent to 1: next" and taken == ["ws1: disk"]
    assert len(json.loads(Path(limit.path).read_text())) == 2


def test_full_disk_loses_no_message_to_the_journal(tmp_path: Path) -> None:
    lines: list[str] = []
    limit = notifier.Limit(str(tmp_path / "nowhere/sent.json"))
    assert notifier.serve({"a": Service()}, [message("disk", "it is full")], limit, "ws1", lines.append) == 1
    assert lines[0] == "received: disk: it is full"
    assert lines[1] == "not sent (messages cannot be counted: No such file or directory): disk"


def test_wrong_datagram_stops_no_other(limit: notifier.Limit) -> None:
    good = Service()
    lines: list[str] = []
    assert notifier.serve({"a": good}, [b"{", message("title", "text")], limit, "ws1", lines.append) == 1
    assert [title for title, _text in good.taken] == ["ws1: title"]
    assert lines[0].startswith("what was received is no message") and lines[1:] == [
        "received: title: text",
        "sent to 1: title",
    ]


def test_messages_of_an_hour_are_limited(limit: notifier.Limit) -> None:
    good = Service()
    lines: list[str] = []
    datagrams = [message(f"title {number}", "text") for number in range(notifier.MOST + 2)]
    assert notifier.serve({"a": good}, datagrams, limit, "ws1", lines.append) == 2
    assert len(good.taken) == notifier.MOST
    assert [text for _title, text in good.taken[-2:]] == ["text", "text" + notifier.FULL]
    # No message is lost to the journal.
    last = f"title {notifier.MOST + 1}"
    assert lines[-2:] == [
        f"received: {last}: text",
        f"not sent (there were {notifier.MOST} messages within the hour): {last}",
    ]


@pytest.mark.parametrize("content", ["{", "[1]", json.dumps([0.0] * 20), json.dumps([20_000.0] * 20), '["x"]', "7"])
def test_hour_starts_again_after_old_or_wrong_times(limit: notifier.Limit, content: str) -> None:
    Path(limit.path).write_text(content)
    assert limit.take() == notifier.MOST - 1


def test_datagrams_of_all_sockets_are_received() -> None:
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _number in range(2)]
    try:
        pairs[0][0].send(b"one")
        pairs[1][0].send(b"two")
        pairs[1][0].send(b"three")
        assert [each for pair in pairs for each in notifier.received(pair[1])] == [b"one", b"two", b"three"]
    finally:
        for each in (each for pair in pairs for each in pair):
            each.close()


def test_flood_of_one_socket_leaves_the_messages_of_root(tmp_path: Path) -> None:
    good = Service()
    lines: list[str] = []
    roots, others = (socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _number in range(2))
    sockets = {"rigwright-gpu-usage-notify.socket": others[1], notifier.ROOTS: roots[1]}
    try:
        for _round in range(4):
            for number in range(8):
                others[0].send(message(f"idle {number}", "text"))
            notifier.serve_all({"a": good}, sockets, str(tmp_path), "ws1", lines.append)
        roots[0].send(message("backup failed", "text\n<0>line"))
        others[0].send(message("idle", "text"))
        assert notifier.serve_all({"a": good}, sockets, str(tmp_path), "ws1", lines.append) == 1
    finally:
        for each in (*roots, *others):
            each.close()
    assert len(good.taken) == notifier.MOST + 1
    assert good.taken[-1][0] == "ws1: backup failed"
    assert "received: backup failed: text\n  <0>line" in lines and "sent to 1: backup failed" in lines


def test_addresses_are_read_by_root_or_from_the_credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / notifier.CREDENTIAL
    monkeypatch.setattr(notifier, "ADDRESSES", str(path))
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    for text in ("", "{", "[]", '{"urls": 1}'):
        path.write_text(text)
        with pytest.raises(notifier.Unready, match="set workstation_notify_urls, and apply the roles again"):
            notifier.read_addresses()
    path.write_text('{"urls": ["json://host"]}')
    assert notifier.read_addresses() == ["json://host"]
    monkeypatch.setattr(notifier, "ADDRESSES", str(tmp_path / "nowhere"))
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid or 4242)
    if path.stat().st_uid:
        assert notifier.read_addresses() == ["json://host"]


def test_only_statuses_of_the_log_are_kept() -> None:
    found = notifier.Statuses()
    for text in ("Failed to send: Unauthorized, error=401.", "POST json://robot:Password-1@host error=Password-1"):
        found.handle(logging.LogRecord("apprise", logging.WARNING, "", 0, text, None, None))
    assert found.found == ["401"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@everyone", "@|everyone"),
        ("x@everyone and @bob", "x@|everyone and @|bob"),
        ("<!channel> <@U1> <#C1> <at id=all>", "<|!channel> <|@|U1> <|#C1> <|at id=all>"),
        ("backup@home.service, a <config/>, <attr>, owner@example.org", None),
        ("3 @ 4 GHz, @ and <", None),
    ],
)
def test_nobody_is_mentioned(text: str, expected: str | None) -> None:
    assert notifier.without_mentions(text) == (text if expected is None else expected.replace("|", "\u200b"))


def test_message_is_plain_text_for_apprise() -> None:
    taken: dict[str, str] = {}

    class Apprise:
        def notify(self, **options: str) -> bool:
            taken.update(options)
            return True

    assert notifier._deliver(Apprise(), notifier.Statuses(), "@all <b>", "<config/>") == ""
    assert taken == {"title": "@\u200ball <b>", "body": "<config/>", "body_format": "text"}


def test_unreadable_address_is_named_by_its_place() -> None:
    (line,) = notifier.unreadable(
        {"workstation_notify_urls[0] (json://)": Service(), "workstation_notify_urls[1] (x://)": None}
    )
    assert line.startswith("workstation_notify_urls[1] (x://) is no address that apprise can read")


def test_any_bytes_of_the_input_are_sent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    good = Service()
    for name, value in (
        ("in_environment", None),
        ("drop_rights", None),
        ("read_addresses", []),
        ("targets", {"a": good}),
    ):
        monkeypatch.setattr(notifier, name, lambda *_arguments, value=value: value)
    monkeypatch.setattr(sys, "argv", ["workstation-notify", "ws1:\ndisk" + "\udcff" * 400])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9\x1b[2J\n" + b"x" * 9999), "ascii"))
    assert notifier.main() == 0
    ((title, text),) = good.taken
    assert (title[:11], len(title), text[:10], len(text)) == ("ws1: disk??", 200, "caf\ufffd?[2J\nx", 2000)
    assert "1 of 1 addresses took the message" in capsys.readouterr().out


def test_program_without_apprise_names_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "workstation-notify"
    path.write_bytes(bundle("_system.notifier"))
    done = subprocess.run([sys.executable, "-IB", str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, "give a title" in done.stderr) == (2, True)
    done = subprocess.run([sys.executable, "-IB", str(path), "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "/opt/rigwright/notify/bin/python3" in done.stderr
