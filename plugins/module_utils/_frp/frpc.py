# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the state of a running frpc: its proxies, and whether its visitors reach the other end."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import selectors
import socket
import struct
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.rigwright.workstation.plugins.module_utils._system.port_owner import ForeignOwner

UNIT = "frpc.service"
# Of frpc's own interface, and the file with the password that the unit makes at each start.
LOOPBACK = "127.0.0.1"
USER = "admin"
PASSWORD = "/run/frpc/admin"  # noqa: S105 - a path
_PASSWORD = re.compile(r"FRPC_ADMIN_PASSWORD=([0-9a-f]{64})\n")
PAUSE = 0.5
TIMEOUT = 10.0
# Longer than the ten seconds that frpc gives the server to answer, and the server the other client.
SILENCE = 12.0
# Seconds in which a service that speaks first does so, also through a slow tunnel: sshd would count a probe as a failed login.
PATIENCE = 2
# MS-SMB2 2.2.1.2 and 2.2.3 behind the length that 2.1 asks for: the dialects of a client that knows 2.0.2 alone.
_SMB = b"\xfeSMB" + struct.pack("<H6xHH48x", 64, 0, 1) + struct.pack("<HHH2x4x16x8xH", 36, 1, 1, 0x0202)
# Requests that make a service answer if it waits for its client.
QUESTIONS = (
    b"HEAD / HTTP/1.0\r\n\r\n",
    # MS-RDPBCGR 2.2.1.1: X.224 Connection Request, with a request for TLS or CredSSP.
    bytes.fromhex("030000130ee000000000000100080003000000"),
    struct.pack(">I", len(_SMB)) + _SMB,
)
# client/proxy/proxy_wrapper.go: the phases of a proxy that may still come up.
UNDECIDED = ("new", "wait start")


class NoAnswer(Exception):
    """The interface of frpc gave no usable answer."""


def read_password(path: str = PASSWORD) -> str:
    """Return the password of frpc's own interface; empty text while frpc does not run."""
    with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
        found = _PASSWORD.fullmatch(file.read(200))
        return found[1] if found else ""
    return ""


def read_proxies(port: int, user: str, password: str) -> dict[str, dict[str, str]]:
    """Return the proxies by name, as frpc's interface has them.

    :raises NoAnswer: frpc cannot be asked.
    """
    login = base64.b64encode(f"{user}:{password}".encode()).decode()
    # http.client uses no proxy of the environment, as a connection to loopback requires.
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=5)
    try:
        connection.request("GET", "/api/status", headers={"Authorization": f"Basic {login}"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise NoAnswer(f"frpc answers with status {answer.status}")
        by_type = json.loads(answer.read())
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswer(f"frpc does not answer on port {port}: {error}") from error
    except ValueError:
        raise NoAnswer(f"what answers on port {port} is not frpc") from None
    finally:
        connection.close()
    return {proxy["name"]: proxy for proxies in by_type.values() for proxy in proxies}


def problems_of(expected: t.Sequence[str], proxies: t.Mapping[str, t.Mapping[str, str]]) -> dict[str, str]:
    """Return why each of the expected proxies does not run; an empty text for one that runs."""
    verdicts = {}
    for name in expected:
        proxy = proxies.get(name, {"status": "not started", "err": ""})
        verdicts[name] = "" if proxy["status"] == "running" else proxy["err"] or proxy["status"]
    return verdicts


def undecided(expected: t.Sequence[str], proxies: t.Mapping[str, t.Mapping[str, str]]) -> bool:
    return any(name not in proxies or proxies[name]["status"] in UNDECIDED for name in expected)


def reach(place: str, foreign_owner: ForeignOwner, timeout: float, silence: float) -> str:
    """Connect to ``address:port`` until the other end answers; return why the last attempt failed, or an empty text."""
    address, _colon, port = place.rpartition(":")
    end = time.monotonic() + timeout
    while True:
        problem = foreign_owner(address, int(port)) or probe(place, silence)
        if not problem or time.monotonic() > end:
            return problem
        time.sleep(PAUSE)


def probe(place: str, silence: float) -> str:
    """Return an empty text if the other end sends data, or if a connection on which nothing is sent stays open."""
    address, _colon, port = place.rpartition(":")
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:

        def connect(question: bytes) -> None:
            connection = stack.enter_context(socket.create_connection((address, int(port)), timeout=5))
            connection.sendall(question)
            selector.register(connection, selectors.EVENT_READ, question)

        try:
            connect(b"")
            answered = listen(selector, min(PATIENCE, silence))
            if answered is None and silence > PATIENCE:
                for question in QUESTIONS:
                    connect(question)
                answered = listen(selector, silence - PATIENCE)
        except OSError as error:
            return error.strerror or str(error)
    return "the connection is closed at once" if answered is False else ""


def listen(selector: selectors.BaseSelector, seconds: float) -> bool | None:
    """Return True if data arrives, False if the connection on which nothing was sent is closed, None if neither happens in time."""
    end = time.monotonic() + seconds
    while (remaining := end - time.monotonic()) > 0:
        for key, _events in selector.select(remaining):
            received = b""
            with contextlib.suppress(OSError):
                received = t.cast("socket.socket", key.fileobj).recv(1)
            if received or not key.data:
                return bool(received)
            # The service does not speak this protocol.
            selector.unregister(key.fileobj)
    return None


def visitor_problem(journal: str, visitor: str) -> str:
    """Return the last error about a visitor, without its time and place; empty text if there is none.

    If no service listens behind the other client, the server may close before it has answered: frpc reports that as EOF, and
    ``probe`` as a connection that is closed.
    """
    found = re.findall(rf"\[{re.escape(visitor)}\].*\berror: (.+)$", journal, re.MULTILINE)
    return found[-1] if found and found[-1] != "EOF" else ""


def login_problem(journal: str) -> str:
    """Return why the server refused the login of frpc; empty text if the last attempt succeeded."""
    attempts = re.findall(r"login to server success|connect to server error: .+$", journal, re.MULTILINE)
    _what, _colon, why = attempts[-1].partition(": ") if attempts else ("", "", "")
    return f"no login at the server: {why}" if why else ""


class Report(t.NamedTuple):
    """What a running frpc reports.

    ``error``: what keeps frpc as a whole from working. ``proxies``: for each an empty text when the server accepted it, or else why
    it does not run. ``visitors``: for each an empty text when it reached the other end, or else why not.
    """

    error: str
    proxies: dict[str, str]
    visitors: dict[str, str]


def gather(
    port: int, read_secret: t.Callable[[], str], foreign_owner: ForeignOwner, expected: t.Sequence[str], timeout: float
) -> tuple[str, dict[str, str]]:
    """Return why frpc itself, and each proxy, does not run; wait for proxies that are still starting."""
    end = time.monotonic() + timeout
    while True:
        try:
            problem = foreign_owner(LOOPBACK, port)
            if problem:
                raise NoAnswer(f"frpc does not answer on port {port}: {problem}")
            error, proxies = "", read_proxies(port, USER, read_secret())
        except NoAnswer as refusal:
            error, proxies = str(refusal), {}
        if not (error or undecided(expected, proxies)) or time.monotonic() > end:
            return error, problems_of(expected, proxies)
        time.sleep(PAUSE)


def read_state(
    run: t.Callable[..., tuple[int, str, str]],
    port: int,
    foreign_owner: ForeignOwner,
    expected: t.Sequence[str],
    doors: t.Mapping[str, str],
    timeout: float = TIMEOUT,
    silence: float = SILENCE,
    read_secret: t.Callable[[], str] = read_password,
) -> Report:
    """Ask frpc for the expected proxies, and open a connection to each visitor's ``address:port``.

    :param foreign_owner: says why a port is not frpc's. It is asked before the password is sent, and before a visitor's port is believed.
    :param timeout: seconds to wait for proxies and visitors that were just configured.
    :param silence: seconds after which an open connection counts as one to the other end, although no data arrived.
    """
    with ThreadPoolExecutor(max_workers=len(doors) + 1) as pool:
        attempts = {name: pool.submit(reach, place, foreign_owner, timeout, silence) for name, place in doors.items()}
        error, proxies = gather(port, read_secret, foreign_owner, expected, timeout)
    visitors = {name: attempt.result() for name, attempt in attempts.items()}
    if error or any(proxies.values()) or any(visitors.values()):
        _rc, journal, _err = run(["journalctl", f"--unit={UNIT}", "--lines=200", "--no-pager", "--output=cat"])
        error = error or login_problem(journal)
        visitors = {name: problem and (visitor_problem(journal, name) or problem) for name, problem in visitors.items()}
    return Report(error, proxies, visitors)
