# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan, checks and findings of GNOME's own remote login, which can serve the desktop instead of xrdp. Pure.

A client sends the credential of the machine and gets GDM's login screen, where a user logs in. This module is about the system daemon. It
hands the connection over to a daemon in the session of GDM, which hands it over to a daemon in the session of the user.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import (
    Finding,
    Problem,
    finding,
    problem,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import UnitRow
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import gnome_remote_desktop as remote
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import probe
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.request import Params

UNIT = "gnome-remote-desktop.service"
DISPLAY_MANAGER = "gdm.service"
CONFIGURATION = "/etc/gnome-remote-desktop/grd.conf"
DROP_IN = f"/etc/systemd/system/{UNIT}.d/rigwright.conf"
# Not below /etc/gnome-remote-desktop: that directory belongs to the daemon, which could redirect root's writes.
TLS = "/etc/rigwright/remote_desktop"
# The credential, and the settings that GNOME's own dialog writes; these take precedence over those in /etc.
STATE = "/var/lib/gnome-remote-desktop/.local/share/gnome-remote-desktop"
DAEMON = "/usr/libexec/gnome-remote-desktop-daemon"

MINIMUM_PASSWORD_LENGTH = 12


@dataclasses.dataclass(frozen=True)
class Facts:
    """Facts of the host.

    ``settings``: the daemon's settings, None where it is not installed. ``sessions``: users with a desktop by remote login.
    ``display_manager``: the one that starts at boot, empty where nobody has chosen one. ``managed``: whether an earlier run has configured
    the daemon.
    """

    settings: remote.Settings | None = None
    sessions: t.Sequence[str] = ()
    display_manager: str = ""
    boots_to: str = "graphical.target"
    managed: bool = False


def certificate_paths(params: Params) -> tuple[str, str]:
    """Return the paths of the certificate and its key."""
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


def configured(params: Params, facts: Facts) -> bool:
    """Return whether the daemon has the requested settings."""
    return facts.settings is not None and not remote.differences(facts.settings, wanted(params))


def units(params: Params, facts: Facts) -> list[UnitRow]:
    """Return the daemon and GDM as systemd_units takes them. A restart of either ends every desktop."""
    return [
        # It starts as display-manager.service and is not enabled by its own name.
        {"name": DISPLAY_MANAGER},
        {
            "name": UNIT,
            "enabled": True,
            # The daemon reads the files in STATE when it starts, and accepts the old password until then.
            "restart_on": [CONFIGURATION, STATE, DROP_IN, *certificate_paths(params), DAEMON],
            "may_restart": params["allow_disruption"] or not facts.sessions,
        },
    ]


def problems(params: Params, facts: Facts) -> list[Problem]:
    """Return the problems where GNOME serves its own desktop."""
    found = []
    if not params["gnome_login"]:
        found.append(
            problem(
                "remote_desktop_backend",
                "is gnome, which can hide the password of its remote login only since GNOME 47; this release has an older one",
                "leave it at auto, which uses xrdp here",
            )
        )
    if not params["machine_password"]:
        found.append(
            problem(
                "xrdp_machine_password",
                "is missing: GNOME asks every client for the credential of the machine before its login screen",
                "create one with `openssl rand -base64 15`, keep it in a vault, and give it to the users",
            )
        )
    elif len(params["machine_password"]) < MINIMUM_PASSWORD_LENGTH:
        found.append(
            problem(
                "xrdp_machine_password",
                f"is shorter than {MINIMUM_PASSWORD_LENGTH} characters, and clients can guess it without a limit",
                "create one with `openssl rand -base64 15`",
            )
        )
    for text in remote.find_problems(
        remote.Settings(user=params["machine_user"], password=params["machine_password"] or "-")
    ):
        name, _space, rest = text.partition(" ")
        text, _colon, remedy = rest.partition(": ")
        found.append(problem(f"xrdp_machine_{name.strip('`')}", text, remedy))
    if facts.display_manager not in ("", "gdm3", "gdm"):
        found.append(
            problem(
                "remote_desktop_backend",
                f"is gnome, which logs users in at GDM, and the display manager of this host is {facts.display_manager}",
                "choose GDM with `dpkg-reconfigure gdm3`, or set remote_desktop_backend: xrdp",
            )
        )
    return found


def absence_problems(params: Params, facts: Facts) -> list[Problem]:
    """Return the problems of an end of the remote login."""
    if params["allow_disruption"] or not (facts.managed and facts.sessions):
        return []
    return [
        problem(
            "xrdp_state",
            f"would end the desktop of {', '.join(facts.sessions)}",
            "run again when nobody is logged in, or set xrdp_allow_disruption: true",
        )
    ]


def findings(params: Params, facts: Facts) -> list[Finding]:
    """Return what is left to do."""
    boots = facts.boots_to == "graphical.target"
    named = ", ".join(params["users"])
    return [
        finding(
            "xrdp.users",
            "warn" if named else "pass",
            f"GDM lets in every user of this host with a password, not only {named}"
            if named
            else "every user of this host with a password can log in, after the credential of the machine",
            "lock the passwords of other users (`passwd --lock NAME`), or use xrdp, which requires a group",
        ),
        finding(
            "xrdp.boot",
            "pass" if boots else "warn",
            f"the host boots to {facts.boots_to}"
            + ("" if boots else ", which starts neither GDM nor the remote login"),
            "`systemctl set-default graphical.target`",
        ),
    ]


class Answers(t.NamedTuple):
    """The daemon's answers. ``plain``, ``tls``: to a client without authentication first. ``nla``: whether one with it is accepted.
    ``fingerprint``: its certificate. ``reached``: whether it answers at ``address``, the host's own one."""

    plain: str
    tls: str
    nla: bool
    fingerprint: str
    address: str = ""
    reached: bool = False


def proof_findings(params: Params, facts: Facts, answers: Answers, deployed: str) -> list[Finding]:
    """Return what the answers and the settings prove."""
    lost = remote.differences(facts.settings or remote.Settings(), wanted(params))
    return [
        finding(
            "xrdp.nla",
            rated(answers.nla),
            "a client needs the credential of the machine before it sees anything"
            if answers.nla
            else "the daemon does not answer a client that can authenticate first",
            f"see `journalctl -u {UNIT} -u gdm`: the daemon listens only while GDM runs",
        ),
        finding(
            "xrdp.plain",
            rated(answers.plain in (*probe.REASONS.values(), probe.CLOSED) and answers.tls != "TLS"),
            f"a client without authentication first: {answers.plain}; with TLS alone: {answers.tls}",
            "upgrade gnome-remote-desktop",
        ),
        finding(
            "xrdp.fingerprint",
            rated(bool(deployed) and answers.fingerprint == deployed),
            f"the daemon's certificate: {answers.fingerprint or 'none'}; deployed: {deployed or 'none'}",
            "run the role again when nobody is logged in",
        ),
        finding(
            "xrdp.settings",
            rated(not lost),
            f"changed since the role set it: {', '.join(lost)}" if lost else "grdctl shows the settings of the role",
            "run the role again",
        ),
        _reach_finding(params, answers),
    ]


def _reach_finding(params: Params, answers: Answers) -> Finding:
    """Return whether systemd's address filter works: the daemon listens on all addresses, and a kernel may lack the filter."""
    if not answers.address:
        return finding("xrdp.reach", "skip", "this host has no address except loopback", "")
    own = ipaddress.ip_address(answers.address)
    allowed = any(
        own in network
        for network in (ipaddress.ip_network(text, strict=False) for text in params["networks"])
        if network.version == own.version
    )
    return finding(
        "xrdp.reach",
        rated(answers.reached == allowed),
        f"a client at {own} is {'answered' if answers.reached else 'not answered'}, and should {'' if allowed else 'not '}be",
        f"see `journalctl -b --grep 'IP firewall'` and `systemctl cat {UNIT}`; without BPF in the kernel, use the role firewall",
    )


def rated(good: bool) -> str:
    """Return the status of a proof."""
    return "pass" if good else "fail"
