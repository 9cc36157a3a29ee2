# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reasons to refuse a remote desktop on this host: backend, users, certificate, clipboard and open sessions. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import request
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.plan import (
    SESMAN_INI,
    Decision,
    Facts,
    gnome_has_x11,
    has_x11_desktop,
    open_sessions,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.request import Params


def requirements(params: Params, facts: Facts, decision: Decision) -> list[Problem]:
    """Return the problems where xrdp serves the desktop."""
    if params["state"] == "absent":
        return _absence_problems(params, facts)
    return [
        *request.problems(params),
        *_backend_problems(params, facts, decision),
        *_user_problems(params, facts),
        *_certificate_problems(params, facts),
        *_clipboard_problems(params, facts),
    ]


def gnome_requirements(params: Params, facts: Facts) -> list[Problem]:
    """Return the problems that also apply where GNOME serves its own desktop."""
    return [*request.problems(params), *_certificate_problems(params, facts)]


def _absence_problems(params: Params, facts: Facts) -> list[Problem]:
    if not (facts.managed and open_sessions(facts)) or params["allow_disruption"]:
        return []
    return [
        problem(
            "xrdp_state",
            f"is absent, and would end the desktop of {', '.join(open_sessions(facts))}",
            "run again when nobody is logged in, or set xrdp_allow_disruption: true",
        )
    ]


def _backend_problems(params: Params, facts: Facts, decision: Decision) -> t.Iterator[Problem]:
    if decision.backend == "xrdp" and decision.gnome and not gnome_has_x11(params, facts):
        yield problem(
            "remote_desktop_backend",
            "is xrdp, and the desktop is GNOME, which has no X11 session on this release: xrdp would close right after the login",
            "leave it at auto, which uses GNOME's own remote desktop, or set xrdp_desktop: xfce",
        )
    if decision.backend == "xrdp" and decision.desktop == "host" and not has_x11_desktop(facts) and not decision.gnome:
        yield problem(
            "xrdp_desktop",
            "is host, and this host has no desktop that runs on X11",
            "leave it at auto, or set it to xfce, which the role installs",
        )


def _user_problems(params: Params, facts: Facts) -> t.Iterator[Problem]:
    named = {kind: sorted(name for name in facts.users if facts.users[name] == kind) for kind in ("empty", "root")}
    missing = sorted(name for name in params["users"] if facts.users.get(name) == "missing")
    # In check mode, an earlier task of the real run may create them.
    if missing and not facts.check_mode:
        yield problem(
            "xrdp_users", f"names no user of this host: {', '.join(missing)}", "create them first, or correct the name"
        )
    joining = sorted({*params["users"]} - {*(facts.members or ()), *facts.primary_members})
    if joining and params["allowed_group"] in request.GRANTING:
        yield problem(
            "xrdp_allowed_group",
            f"is {params['allowed_group']}, which would give {', '.join(joining)} more than a desktop",
            "name a group of its own, such as xrdp-users, or leave xrdp_users empty: its members may log in anyway",
        )
    if named["root"]:
        yield problem(
            "xrdp_users",
            f"would let in users with uid 0: {', '.join(named['root'])}",
            f"name other users, and remove root from the group {params['allowed_group']}",
        )
    if named["empty"]:
        yield problem(
            "xrdp_users",
            f"would let users in without a password: {', '.join(named['empty'])} has an empty one",
            "set a password with `passwd`, or lock the account with `passwd --lock`",
        )


def _certificate_problems(params: Params, facts: Facts) -> t.Iterator[Problem]:
    if facts.certificate and facts.certificate.problem:
        yield problem(
            "xrdp_tls_cert_content" if params["tls_cert_content"] else "xrdp_tls_cert",
            facts.certificate.problem,
            "set a certificate with its key, or leave both empty: the role then creates them",
        )


def _clipboard_problems(params: Params, facts: Facts) -> t.Iterator[Problem]:
    one_way = params["clipboard_out"] and not params["clipboard_in"]
    packaged = facts.packaged.get(SESMAN_INI)
    if one_way and packaged and "RestrictInboundClipboard" not in packaged:
        yield problem(
            "xrdp_clipboard_in",
            "is false, which this version of xrdp supports only for both directions together",
            "set xrdp_clipboard_out: false as well, which disables the clipboard",
        )
