# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages through a real socket: what comes out is what a reader can show, whatever went in."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown
from ansible_collections.rigwright.workstation.plugins.module_utils._system import notify
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        found.bind(path)
        found.setblocking(False)
        yield found, path


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(title=st.text(max_size=400), text=st.text(max_size=4000))
def test_message_arrives_short_and_printable(receiver: tuple[socket.socket, str], title: str, text: str) -> None:
    assert notify.send(title, text, receiver[1]) == ""
    found = notify.parse(receiver[0].recv(notify.LIMIT))
    expected = shown(title.replace("\n", " "), notify.TITLE), shown(text, notify.TEXT, keep="\n")
    assert found == expected
    assert all(each.isprintable() for each in "".join(found).replace("\n", ""))


def test_longest_message_fits(receiver: tuple[socket.socket, str]) -> None:
    # JSON writes a character beyond the first plane as two escape sequences.
    title, text = "\U0001f525" * notify.TITLE, "\U0001f525" * notify.TEXT
    assert notify.send(title, text, receiver[1]) == ""
    assert notify.parse(receiver[0].recv(notify.LIMIT)) == (title, text)


def test_missing_notifier_is_a_reason(tmp_path: Path) -> None:
    assert "No such file or directory" in notify.send("title", "text", str(tmp_path / "nowhere"))


def test_full_socket_holds_up_nobody(receiver: tuple[socket.socket, str]) -> None:
    # As many as the kernel takes (net.unix.max_dgram_qlen), and memory for them, are fewer.
    problems = (notify.send("title", "text", receiver[1]) for _number in range(100_000))
    assert "Resource temporarily unavailable" in next(filter(None, problems))


@pytest.mark.parametrize(
    "datagram", [b"", b"\xff", b"[]", b'"text"', b'{"title": "t"}', b'{"title": 1, "text": "t"}', b"[" * 16000]
)
def test_what_is_no_message_is_refused(datagram: bytes) -> None:
    with pytest.raises(ValueError, match="."):
        notify.parse(datagram)
