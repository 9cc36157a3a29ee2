# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program `workstation-notify`: send messages by apprise to the addresses of `workstation_notify_urls`.

Without an option it sends its input, for root. With `--serve` it sends what other units have handed to its sockets, and ends.
No output has an address: the log of apprise has parts of them, and errors of the network show whole ones.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import json
import logging
import os
import re
import socket
import sys
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import json_text
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import read_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown
from ansible_collections.rigwright.workstation.plugins.module_utils._system import notify

ENVIRONMENT = "/opt/rigwright/notify"
ADDRESSES = "/etc/workstation-notify.json"
# The unit's own user has the file as a credential.
CREDENTIAL = "notify.json"
VARIABLE = "workstation_notify_urls"
NOBODY = 65534
FIRST_SOCKET = 3  # sd_listen_fds(3)
ROOTS = "rigwright-notify.socket"
BATCH = 50
_SCHEME = 30
# Mail and chat services block senders of many messages.
MOST, WINDOW_S = 20, 3600
FULL = f"\n\nThis is the last of {MOST} messages in an hour. The journal of rigwright-notify.service has further ones."

# What chats take for a mention of a user, of everybody or of a channel; `backup@home.service` is none.
_MENTION = re.compile(r"(?<![\w.-])@(?=\w)|@(?=everyone|here|channel|all\b|room)|<(?=[!@#]|at\b)", re.IGNORECASE)
_NO_WIDTH = "\u200b"

# Takes a title and a text, and returns the reason why the message was not sent, or an empty text.
Target = t.Callable[[str, str], str]


class Unready(Exception):
    """The role has not installed all of it; the text has a remedy and no address."""


def read_addresses() -> list[str]:
    """Read the addresses: root from the file of the role, the unit's user from its credential.

    :raises Unready: there are none.
    """
    root = os.geteuid() == 0
    path = ADDRESSES if root else os.path.join(os.environ.get("CREDENTIALS_DIRECTORY", ""), CREDENTIAL)
    try:
        content = json_text.parse(read_file(path, {0, os.geteuid()}))
        return [str(address) for address in content["urls"]]
    except PermissionError:
        raise Unready(f"{path} cannot be read: run this as root") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise Unready(f"{path} is missing or damaged: set {VARIABLE}, and apply the roles again") from None


def drop_rights() -> None:
    """Become nobody: neither apprise nor the answer of a server needs root."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


class Statuses(logging.Handler):
    """The HTTP statuses in the log of apprise. All else of the log is dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found += re.findall(r"\berror=(\d{3})\b", record.getMessage())


def targets(addresses: t.Sequence[str]) -> dict[str, Target | None]:
    """Return the targets by the names that messages about them have; None for an address that apprise cannot read."""
    apprise: t.Any = importlib.import_module("apprise")
    statuses = Statuses()
    root = logging.getLogger()
    root.handlers[:] = [statuses]
    logging.getLogger("apprise").handlers[:] = []
    asset = apprise.AppriseAsset(app_id="Rigwright", app_desc="Rigwright", app_url="")

    def target_of(address: str) -> Target | None:
        plugin = apprise.Apprise.instantiate(address, asset=asset)
        if not plugin:
            return None
        # It catches all that a plugin raises, and puts it into the log.
        service = apprise.Apprise(plugin, asset=asset)
        return lambda title, text: _deliver(service, statuses, title, text)

    return {
        f"{VARIABLE}[{number}] ({shown(address.partition(':')[0], _SCHEME)}://)": target_of(address)
        for number, address in enumerate(addresses)
    }


def _deliver(service: t.Any, statuses: Statuses, title: str, text: str) -> str:
    statuses.found.clear()
    # Not to be read as HTML or Markdown: names of files and processes are those of other users.
    if service.notify(body=without_mentions(text), title=without_mentions(title), body_format="text"):
        return ""
    return (
        f"it answers {statuses.found[-1]}" if statuses.found else "it cannot be reached, or does not take the message"
    )


def without_mentions(text: str) -> str:
    """Return a text that looks the same, and mentions nobody."""
    return _MENTION.sub(lambda found: f"{found[0]}{_NO_WIDTH}", text)


def send(receivers: t.Mapping[str, Target | None], title: str, text: str) -> list[str]:
    """Send a message to all addresses; return a line for each that has not taken it."""
    outcomes = {name: target(title, text) if target else "apprise cannot read it" for name, target in receivers.items()}
    return [f"{name}: {problem}" for name, problem in outcomes.items() if problem]


def unreadable(receivers: t.Mapping[str, Target | None]) -> list[str]:
    """Return a line for each address that apprise cannot read."""
    return [
        f"{name} is no address that apprise can read: write it as its documentation (appriseit.com/services) says"
        for name, target in receivers.items()
        if target is None
    ]


class Limit:
    """The number of messages in the last hour, kept in a file between two starts of the unit."""

    def __init__(self, path: str, now: t.Callable[[], float] = time.time) -> None:
        self.path = path
        self.now = now

    def take(self) -> int:
        """Count a message; return how many may follow within the hour, and -1 where this one is too many."""
        now = self.now()
        try:
            kept = json_text.parse(read_file(self.path, {os.geteuid()}))
            times = [moment for moment in kept if now - WINDOW_S < moment <= now]
        except (OSError, ValueError, TypeError):
            times = []
        if len(times) >= MOST:
            return -1
        replace_file(self.path, json.dumps([*times, now]))
        return MOST - len(times) - 1


def serve(
    receivers: t.Mapping[str, Target | None],
    datagrams: t.Iterable[bytes],
    limit: Limit,
    host: str,
    report: t.Callable[[str], object],
) -> int:
    """Send messages, and report each for the journal: before it is sent, and what became of it.

    Return the number of those that not all addresses have taken.
    """
    lost = 0
    for datagram in datagrams:
        try:
            title, text = notify.parse(datagram)
        except ValueError as error:
            report(f"what was received is no message: {error}")
            lost += 1
            continue
        # It is gone from its socket. Whatever ends this process while it sends, the journal has it, and it is not sent twice.
        # A further line of a message does not look like another report.
        report(f"received: {title}: {text}".replace("\n", "\n  "))
        problems = _problems(receivers, limit, f"{host}: {title}", text)
        lost += bool(problems)
        outcome = f"not sent ({'; '.join(problems)})" if problems else f"sent to {len(receivers)}"
        report(f"{outcome}: {title}")
    return lost


def _problems(receivers: t.Mapping[str, Target | None], limit: Limit, title: str, text: str) -> list[str]:
    """Send a message if the hour has room for it; return why it has not reached all addresses."""
    try:
        remaining = limit.take()
    except OSError as error:
        # Uncounted messages would have no limit.
        return [f"messages cannot be counted: {error.strerror}"]
    if remaining < 0:
        return [f"there were {MOST} messages within the hour"]
    return send(receivers, title, text if remaining else text + FULL)


def serve_all(
    receivers: t.Mapping[str, Target | None],
    sockets: t.Mapping[str, socket.socket],
    folder: str,
    host: str,
    report: t.Callable[[str], object],
) -> int:
    """Serve root's socket first. Each socket has its own limit: another account cannot use up that of root.

    What is left in a socket starts the unit again.
    """
    lost = 0
    for name in sorted(sockets, key=lambda each: each != ROOTS):
        datagrams = itertools.islice(received(sockets[name]), BATCH)
        lost += serve(receivers, datagrams, Limit(os.path.join(folder, f"{name}.json")), host, report)
    return lost


def received(listening: socket.socket) -> t.Iterator[bytes]:
    """Yield the datagrams that wait, and those that come while others are sent."""
    listening.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            yield listening.recv(notify.LIMIT)


def report(line: str) -> None:
    """Write a line for the journal."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def arguments_of(arguments: t.Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="workstation-notify",
        description=f"Send a message, read from the input, to the addresses of {VARIABLE}.",
        epilog="Example: echo 'The disk was replaced.' | workstation-notify 'ws1: maintenance'",
    )
    parser.add_argument("title", nargs="?")
    parser.add_argument("--check", action="store_true", help="only check whether apprise can read the addresses")
    parser.add_argument("--serve", action="store_true", help="send what units have handed over (the unit does it)")
    found = parser.parse_args(arguments)
    if not (found.title or found.check or found.serve):
        parser.error("give a title, and the text as input")
    return found


def in_environment() -> None:
    """Start again with the Python that has apprise.

    :raises Unready: the host has none.
    """
    python = f"{ENVIRONMENT}/bin/python3"
    if sys.executable != python:
        try:
            os.execv(python, [python, "-I", "-B", *sys.argv])  # noqa: S606
        except OSError as error:
            raise Unready(f"{python}: {error.strerror}: apply the roles again") from None


def main() -> int:
    """Send, check or serve. The status is 1 where a message was not sent to all addresses, or one of them cannot be read."""
    chosen = arguments_of(sys.argv[1:])
    try:
        in_environment()
        addresses = read_addresses()
    except Unready as error:
        sys.stderr.write(f"workstation-notify: {error}\n")
        return 1
    drop_rights()
    receivers = targets(addresses)
    if chosen.serve:
        # systemd names each descriptor by its socket unit.
        names = os.environ.get("LISTEN_FDNAMES", "").split(":")
        count = int(os.environ.get("LISTEN_FDS", "0"))
        sockets = {names[number]: socket.socket(fileno=FIRST_SOCKET + number) for number in range(count)}
        return int(serve_all(receivers, sockets, os.environ["RUNTIME_DIRECTORY"], socket.gethostname(), report) > 0)
    problems = unreadable(receivers)
    if not chosen.check:
        # The output of a program may have any bytes.
        text = sys.stdin.buffer.read().decode("utf-8", errors="replace")
        title = shown(chosen.title.replace("\n", " "), notify.TITLE)
        problems = send(receivers, title, shown(text, notify.TEXT, keep="\n"))
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    if not chosen.check:
        report(f"{len(receivers) - len(problems)} of {len(receivers)} addresses took the message")
    return int(bool(problems))
