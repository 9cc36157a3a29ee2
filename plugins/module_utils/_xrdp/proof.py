# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What xrdp's answers prove: that a login is protected by TLS and by nothing older, with the certificate that was deployed."""

from __future__ import annotations

import contextlib
import socket
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import gnome as xrdp_gnome
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import probe

T = t.TypeVar("T")

DOOR = "127.0.0.1"
# For documentation, and nowhere (RFC 5737).
ELSEWHERE = "192.0.2.1"


class Answers(t.NamedTuple):
    """What a server said to each client."""

    plain: probe.Answer
    tls: probe.Answer
    fingerprint: str
    old_tls: bool | None


def ask(port: int) -> Answers:
    """Be each of the clients, on the host itself."""
    return Answers(
        probe.negotiate(DOOR, port, probe.PLAIN),
        probe.negotiate(DOOR, port, probe.TLS),
        probe.certificate(DOOR, port),
        probe.speaks_old_tls(DOOR, port),
    )


def ask_gnome(port: int) -> xrdp_gnome.Answers:
    """The same at GNOME's own door. A client says that it can do TLS and NLA; the server takes the latter."""
    address = own_address()
    return xrdp_gnome.Answers(
        patiently(lambda: probe.negotiate(DOOR, port, probe.PLAIN).said, is_word),
        patiently(lambda: probe.negotiate(DOOR, port, probe.TLS).said, is_word),
        patiently(lambda: probe.negotiate(DOOR, port, probe.NLA).security, {probe.NLA}.__contains__) == probe.NLA,
        patiently(lambda: probe.certificate(DOOR, port, probe.NLA), bool),
        address,
        bool(address) and probe.connects(address, port),
    )


def is_word(said: str) -> bool:
    """Whether it is an answer at all."""
    return not said.startswith("nobody answers") and said != "it hangs up"


def patiently(ask_once: t.Callable[[], T], is_answer: t.Callable[[T], bool], pause: float = 1.0) -> T:
    """The daemon hangs up on who knocks again before it is done with his last call, as a protection against floods."""
    for _attempt in range(5):
        answer = ask_once()
        if is_answer(answer):
            break
        time.sleep(pause)
    return answer


def own_address() -> str:
    """An address by which others know this host. To take one, no packet is sent."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        door.connect((ELSEWHERE, 9))
        return str(door.getsockname()[0])
    return ""


def findings(answers: Answers, deployed: str, in_force: t.Mapping[str, bool]) -> list[dict[str, str]]:
    """What the answers and the files prove, as the action ``finding`` takes it."""
    changed = sorted(path for path, same in in_force.items() if not same)
    shown = answers.fingerprint or "none"
    return [
        _finding(
            "tls",
            answers.tls.security == probe.TLS,
            f"a client that can do TLS: {answers.tls.said}",
            "look at /var/log/xrdp.log",
        ),
        _finding(
            "plain",
            answers.plain.security < 0 and answers.plain.said in (probe.REASONS[1], "it hangs up"),
            f"a client that can do no more than RDP's own security: {answers.plain.said}",
            "run the role again: security_layer of /etc/xrdp/xrdp.ini must be tls",
        ),
        _finding(
            "fingerprint",
            bool(deployed) and answers.fingerprint == deployed,
            f"the certificate that is shown: {shown}; deployed: {deployed or 'none'}",
            "run the role again",
        ),
        {
            "id": "xrdp.old_tls",
            "status": {True: "fail", False: "pass", None: "skip"}[answers.old_tls],
            "evidence": {
                True: "TLS 1.1 or older is spoken",
                False: "TLS 1.1 and older are refused",
                None: "the OpenSSL of this host cannot ask for TLS 1.1",
            }[answers.old_tls],
            "remedy": "run the role again: ssl_protocols of /etc/xrdp/xrdp.ini must be TLSv1.2, TLSv1.3",
        },
        _finding(
            "settings",
            bool(in_force) and not changed,
            f"not as the role has it: {', '.join(changed)}"
            if changed
            else "xrdp.ini and sesman.ini are as the role has them",
            "run the role again",
        ),
    ]


def _finding(name: str, ok: bool, evidence: str, remedy: str) -> dict[str, str]:
    return {"id": f"xrdp.{name}", "status": "pass" if ok else "fail", "evidence": evidence, "remedy": remedy}
