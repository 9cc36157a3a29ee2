# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What GNOME's own remote login needs of a host, where it serves the desktop instead of xrdp, and what its answers prove. Pure.

A client shows the one credential of the machine, gets GDM's login screen, and there a user logs in. Both ends of that are GNOME's: the
system daemon, of which this is about, hands the connection over to a daemon in the session of GDM, and that to one in the user's.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import gnome_remote_desktop as remote

UNIT = "gnome-remote-desktop.service"
DISPLAY_MANAGER = "gdm.service"
CONFIGURATION = "/etc/gnome-remote-desktop/grd.conf"
DROP_IN = f"/etc/systemd/system/{UNIT}.d/rigwright.conf"
# Not below /etc/gnome-remote-desktop, which belongs to the daemon: what root writes would lie where the daemon says.
TLS = "/etc/rigwright/remote_desktop"
# The credential, and the settings that GNOME's own dialog writes, which go before those of /etc.
STATE = "/var/lib/gnome-remote-desktop/.local/share/gnome-remote-desktop"
DAEMON = "/usr/libexec/gnome-remote-desktop-daemon"

LEAST_PASSWORD = 12

Params = t.Mapping[str, t.Any]
Table = dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Seen:
    """What was read on the host.

    ``settings`` are what the daemon is told, None where it is not installed. ``sessions`` are users with a desktop by remote login.
    ``display_manager`` is the one that starts with the host, empty where nobody has chosen. ``managed`` is whether an earlier run has set
    the daemon up.
    """

    settings: remote.Settings | None = None
    sessions: t.Sequence[str] = ()
    display_manager: str = ""
    boots_to: str = "graphical.target"
    managed: bool = False


def certificate_paths(params: Params) -> tuple[str, str]:
    """Where the certificate and its key lie."""
    if params["tls_cert"]:
        return params["tls_cert"], params["tls_key"]
    name = "own" if params["tls_cert_content"] else "server"
    return f"{TLS}/{name}.crt", f"{TLS}/{name}.key"


def wanted(params: Params) -> remote.Settings:
    certificate, key = certificate_paths(params)
    return remote.Settings(
        enabled=True,
        port=params["port"],
        certificate=certificate,
        key=key,
        user=params["machine_user"],
        password=params["machine_password"],
    )


def configured(params: Params, seen: Seen) -> bool:
    """Whether the daemon is told what is asked for."""
    return seen.settings is not None and not remote.differences(seen.settings, wanted(params))


def units(params: Params, seen: Seen) -> list[Table]:
    """The daemon and GDM, as systemd_units takes them. A restart of either ends every desktop."""
    return [
        # It is started as the display manager of the host, which is not enabled by its own name.
        {"name": DISPLAY_MANAGER},
        {
            "name": UNIT,
            "enabled": True,
            # The state is a directory of files that the daemon reads when it starts: until then it accepts the old password.
            "restart_on": [CONFIGURATION, STATE, DROP_IN, *certificate_paths(params), DAEMON],
            "may_restart": params["allow_disruption"] or not seen.sessions,
        },
    ]


def faults(params: Params, seen: Seen) -> list[Table]:
    """What speaks against it, as the action ``require`` takes it."""
    found = []
    if not params["gnome_login"]:
        found.append(
            _fault(
                "remote_desktop_backend",
                "is gnome, whose remote login can be set up without showing its password from GNOME 47 on; this release has an older one",
                "leave it at auto, which takes xrdp here",
            )
        )
    if not params["machine_password"]:
        found.append(
            _fault(
                "xrdp_machine_password",
                "is missing: GNOME asks every client for the credential of the machine, before its login screen",
                "make one with `openssl rand -base64 15`, keep it in a vault, and give it to those who may log in",
            )
        )
    elif len(params["machine_password"]) < LEAST_PASSWORD:
        found.append(
            _fault(
                "xrdp_machine_password",
                f"is shorter than {LEAST_PASSWORD} characters, and whoever reaches the port may try as often as they like",
                "make one with `openssl rand -base64 15`",
            )
        )
    for problem in remote.find_faults(
        remote.Settings(user=params["machine_user"], password=params["machine_password"] or "-")
    ):
        name, _is, rest = problem.partition(" ")
        problem, _colon, remedy = rest.partition(": ")
        found.append(_fault(f"xrdp_machine_{name.strip('`')}", problem, remedy))
    if seen.display_manager not in ("", "gdm3", "gdm"):
        found.append(
            _fault(
                "remote_desktop_backend",
                f"is gnome, which logs users in at GDM, and the display manager of this host is {seen.display_manager}",
                "choose GDM with `dpkg-reconfigure gdm3`, or set remote_desktop_backend: xrdp",
            )
        )
    return found


def absence_faults(params: Params, seen: Seen) -> list[Table]:
    if params["allow_disruption"] or not (seen.managed and seen.sessions):
        return []
    return [
        _fault(
            "xrdp_state",
            f"would end the desktop of {', '.join(seen.sessions)}",
            "run again when nobody is logged in, or set xrdp_allow_disruption: true",
        )
    ]


def _fault(variable: str, problem: str, remedy: str) -> Table:
    return {"ok": False, "variable": variable, "problem": problem, "remedy": remedy}


def findings(params: Params, seen: Seen) -> list[dict[str, str]]:
    """What is left to do, as the action ``finding`` takes it."""
    boots = seen.boots_to == "graphical.target"
    named = ", ".join(params["users"])
    return [
        _finding(
            "users",
            "warn" if named else "pass",
            f"GDM lets in every user of this host who has a password, not {named} alone"
            if named
            else "every user of this host who has a password may log in, with the credential of the machine before it",
            "lock the passwords of others (`passwd --lock NAME`), or use xrdp, which asks for a group",
        ),
        _finding(
            "boot",
            "pass" if boots else "warn",
            f"the host starts up to {seen.boots_to}"
            + ("" if boots else ", where GDM and so the remote login do not run"),
            "`systemctl set-default graphical.target`",
        ),
    ]


class Answers(t.NamedTuple):
    """What the daemon said to a client that can do no more than RDP's own security, or TLS, and to one that can authenticate first
    (NLA); the certificate that it showed; and whether it answers at the host's own address, as it does to others at that address."""

    plain: str
    tls: str
    nla: bool
    fingerprint: str
    address: str = ""
    reached: bool = False


def proven(params: Params, seen: Seen, answers: Answers, deployed: str) -> list[dict[str, str]]:
    """What answers and settings prove."""
    lost = remote.differences(seen.settings or remote.Settings(), wanted(params))
    return [
        _finding(
            "nla",
            _rated(answers.nla),
            "a client has to know the credential of the machine before it sees anything"
            if answers.nla
            else "a client that can authenticate first is not answered so",
            f"see `journalctl -u {UNIT} -u gdm`: the daemon listens only while GDM runs",
        ),
        _finding(
            "plain",
            _rated(answers.plain not in ("RDP's own security", "TLS") and answers.tls != "TLS"),
            f"a client without authentication in advance: {answers.plain}; with TLS alone: {answers.tls}",
            "upgrade gnome-remote-desktop",
        ),
        _finding(
            "fingerprint",
            _rated(bool(deployed) and answers.fingerprint == deployed),
            f"the certificate that is shown: {answers.fingerprint or 'none'}; deployed: {deployed or 'none'}",
            "run the role again when nobody is logged in",
        ),
        _finding(
            "settings",
            _rated(not lost),
            f"not as the role has it: {', '.join(lost)}" if lost else "grdctl tells what the role has set",
            "run the role again",
        ),
        _reach_finding(params, answers),
    ]


def _reach_finding(params: Params, answers: Answers) -> dict[str, str]:
    """The daemon listens at all addresses; who reaches it, systemd decides, with a filter that kernels may lack."""
    if not answers.address:
        return _finding("reach", "skip", "this host has no address beside loopback", "")
    own = ipaddress.ip_address(answers.address)
    asked = any(
        own in network
        for network in (ipaddress.ip_network(text, strict=False) for text in params["networks"])
        if network.version == own.version
    )
    return _finding(
        "reach",
        _rated(answers.reached == asked),
        f"whoever comes from {own} is {'answered' if answers.reached else 'not answered'}, and should {'' if asked else 'not '}be",
        f"see `journalctl -b --grep 'IP firewall'` and `systemctl cat {UNIT}`; without BPF in the kernel, the role firewall has to do it",
    )


def _rated(good: bool) -> str:
    return "pass" if good else "fail"


def _finding(name: str, status: str, evidence: str, remedy: str) -> dict[str, str]:
    return {"id": f"xrdp.{name}", "status": status, "evidence": evidence, "remedy": "" if status == "pass" else remedy}
