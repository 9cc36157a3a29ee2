# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build problems, which refuse a request, and findings, which a person is shown."""

from __future__ import annotations

import typing as t


class Problem(t.TypedDict):
    """A requirement, as the action ``require`` takes it; a problem where it is not met."""

    ok: bool
    variable: str
    problem: str
    remedy: str


class Finding(t.TypedDict):
    """What a person is shown, as the action ``finding`` takes it. The status is pass, warn, fail or skip."""

    id: str
    status: str
    evidence: str
    remedy: str


class Refused(Exception):
    """A refused request; nothing was changed."""


def problem(variable: str, text: str, remedy: str) -> Problem:
    """Return a problem as the action ``require`` takes it.

    :param variable: the variable that the user has to set.
    :param text: what is wrong, as the end of a sentence that begins with the variable: "is missing".
    :param remedy: what the user should do.
    """
    return {"ok": False, "variable": variable, "problem": text, "remedy": remedy}


def finding(identifier: str, status: str, evidence: str, remedy: str = "") -> Finding:
    """Return a finding as the action ``finding`` takes it.

    :param identifier: ``<role>.<subject>``, such as ``ssh.key_login``.
    :param status: pass, warn, fail or skip.
    :param remedy: what the user should do; a finding that passes has none.
    """
    return {"id": identifier, "status": status, "evidence": evidence, "remedy": "" if status == "pass" else remedy}
