# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The proof of xrdp: a login is protected by TLS alone, in its present versions, with the deployed certificate."""

from __future__ import annotations

import contextlib
import socket
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._system.port_owner import ForeignOwner
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import gnome as xrdp_gnome
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import probe

T = t.TypeVar("T")

LOOPBACK = "127.0.0.1"
# An address for documentation, which no host has (RFC 5737).
UNUSED_ADDRESS = "192.0.2.1"


class Answers(t.NamedTuple):
    """The answers of a server to each kind of client."""

    plain: probe.Answer
    tls: probe.Answer
    fingerprint: str
    old_tls: bool | None


def ask(port: int, foreign_owner: ForeignOwner) -> Answers:
    """Probe xrdp as each kind of client, on the host itself. What another user's program answers is no answer."""
    problem = retry(lambda: foreign_owner(LOOPBACK, port), lambda text: not text)
    if problem:
        nobody = probe.Answer(-1, problem)
        return Answers(nobody, nobody, "", None)
    return Answers(
        probe.negotiate(LOOPBACK, port, probe.PLAIN),
        probe.negotiate(LOOPBACK, port, probe.TLS),
        probe.certificate(LOOPBACK, port),
        probe.speaks_old_tls(LOOPBACK, port),
    )


def ask_gnome(port: int, foreign_owner: ForeignOwner) -> xrdp_gnome.Answers:
    """Probe GNOME's remote login in the same way. A client that offers TLS and NLA gets the latter."""
    problem = retry(lambda: foreign_owner(LOOPBACK, port), lambda text: not text)
    if problem:
        return xrdp_gnome.Answers(problem, problem, False, "")
    address = own_address()
    return xrdp_gnome.Answers(
        retry(lambda: probe.negotiate(LOOPBACK, port, probe.PLAIN).text, is_answer),
        retry(lambda: probe.negotiate(LOOPBACK, port, probe.TLS).text, is_answer),
        retry(lambda: probe.negotiate(LOOPBACK, port, probe.NLA).security, {probe.NLA}.__contains__) == probe.NLA,
        retry(lambda: probe.certificate(LOOPBACK, port, probe.NLA), bool),
        address,
        bool(address) and probe.connects(address, port),
    )


def is_answer(text: str) -> bool:
    """Return whether a server answered."""
    return not text.startswith("nobody answers") and text != probe.CLOSED


def retry(ask_once: t.Callable[[], T], accepts: t.Callable[[T], bool], pause: float = 1.0) -> T:
    """Repeat a probe: the daemon closes a connection that comes while it handles the last one, against floods."""
    for _attempt in range(5):
        answer = ask_once()
        if accepts(answer):
            break
        time.sleep(pause)
    return answer


def own_address() -> str:
    """Return an address of this host in the network. No packet is sent."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe_socket:
        probe_socket.connect((UNUSED_ADDRESS, 9))
        return str(probe_socket.getsockname()[0])
    return ""


def findings(answers: Answers, deployed: str, in_force: t.Mapping[str, bool]) -> list[Finding]:
    """Return what the answers and the files prove."""
    changed = sorted(path for path, same in in_force.items() if not same)
    shown = answers.fingerprint or "none"
    return [
        finding(
            "xrdp.tls",
            xrdp_gnome.rated(answers.tls.security == probe.TLS),
            f"a client with TLS: {answers.tls.text}",
            "see /var/log/xrdp.log",
        ),
        finding(
            "xrdp.plain",
            xrdp_gnome.rated(answers.plain.security < 0 and answers.plain.text in (probe.REASONS[1], probe.CLOSED)),
            f"a client with RDP's own security alone: {answers.plain.text}",
            "run the role again: security_layer of /etc/xrdp/xrdp.ini must be tls",
        ),
        finding(
            "xrdp.fingerprint",
            xrdp_gnome.rated(bool(deployed) and answers.fingerprint == deployed),
            f"the server's certificate: {shown}; deployed: {deployed or 'none'}",
            "run the role again",
        ),
        finding(
            "xrdp.old_tls",
            {True: "fail", False: "pass", None: "skip"}[answers.old_tls],
            {
                True: "the server accepts TLS 1.1 or older",
                False: "the server refuses TLS 1.1 and older",
                None: "the OpenSSL of this host cannot try TLS 1.1",
            }[answers.old_tls],
            "run the role again: ssl_protocols of /etc/xrdp/xrdp.ini must be TLSv1.2, TLSv1.3",
        ),
        finding(
            "xrdp.settings",
            xrdp_gnome.rated(bool(in_force) and not changed),
            f"changed since the role wrote it: {', '.join(changed)}"
            if changed
            else "xrdp.ini and sesman.ini are as the role wrote them",
            "run the role again",
        ),
    ]
