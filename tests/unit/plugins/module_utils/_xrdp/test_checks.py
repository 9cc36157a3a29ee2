# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests for a remote desktop that are refused on a host."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import checks
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.plan import (
    SESMAN_INI,
    Certificate,
    Facts,
    decide,
)

from tests.unit.support.xrdp import FRESH, GNOME_49, OPEN, REQUEST, XFCE, request


def problems(params: Any, facts: Facts) -> dict[str, str]:
    return {entry["variable"]: entry["problem"] for entry in checks.requirements(params, facts, decide(params, facts))}


@pytest.mark.parametrize(
    ("facts", "change"),
    [
        (GNOME_49, {"backend": "xrdp"}),
        (GNOME_49, {"backend": "xrdp", "desktop": "host"}),
        (FRESH, {"backend": "xrdp", "desktop": "gnome", "gnome_x11": False}),
    ],
)
def test_xrdp_is_refused_for_a_gnome_without_x11_session(facts, change):
    facts = dataclasses.replace(facts, users={"alice": "set"})
    found = checks.requirements(request(**change), facts, decide(request(**change), facts))
    assert [entry["variable"] for entry in found] == ["remote_desktop_backend"]
    assert "no X11 session" in found[0]["problem"] and "auto" in found[0]["remedy"]


def test_a_host_without_a_desktop_cannot_serve_its_own():
    assert "no desktop that runs on X11" in problems(request(desktop="host"), FRESH)["xrdp_desktop"]
    assert problems(request(desktop="host"), XFCE) == {}


def test_an_old_xrdp_cannot_close_a_single_direction():
    facts = dataclasses.replace(FRESH, packaged={SESMAN_INI: "[Security]\nRestrictOutboundClipboard=false\n"})
    assert "only for both directions" in problems(request(clipboard_in=False), facts)["xrdp_clipboard_in"]
    assert problems(request(clipboard_in=False, clipboard_out=False), facts) == {}


def test_the_removal_ends_no_session():
    assert "desktop of alice" in problems(request(state="absent"), OPEN)["xrdp_state"]
    assert problems(request(state="absent", allow_disruption=True), OPEN) == {}
    assert problems(request(state="absent"), XFCE) == {}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("missing", "no user of this host: alice"),
        ("root", "with uid 0: alice"),
        ("empty", "without a password: alice"),
    ],
)
def test_an_unsuitable_user_is_refused(kind, text):
    assert text in problems(REQUEST, dataclasses.replace(FRESH, users={"alice": kind}))["xrdp_users"]


def test_members_of_the_group_are_checked():
    facts = dataclasses.replace(XFCE, users={"alice": "set", "toor": "root"}, members=["alice", "toor"])
    assert "toor" in problems(REQUEST, facts)["xrdp_users"]


def test_check_mode_accepts_a_missing_user():
    assert problems(REQUEST, dataclasses.replace(FRESH, users={"alice": "missing"}, check_mode=True)) == {}


def test_an_unusable_certificate_is_refused_by_its_variable():
    facts = dataclasses.replace(FRESH, certificate=Certificate("has ended on 2026-01-01"))
    assert problems(request(tls_cert="/a", tls_key="/b"), facts) == {"xrdp_tls_cert": "has ended on 2026-01-01"}
    content = {"tls_cert_content": "A", "tls_key_content": "B"}
    assert list(problems(request(**content), facts)) == ["xrdp_tls_cert_content"]


def test_a_group_with_root_rights_gets_no_members():
    assert "more than a desktop" in problems(request(allowed_group="sudo"), FRESH)["xrdp_allowed_group"]
    assert "xrdp_allowed_group" not in problems(request(allowed_group="sudo"), XFCE)
    assert "xrdp_allowed_group" not in problems(request(allowed_group="sudo", users=[]), FRESH)


def test_users_with_it_as_their_primary_group_are_checked():
    found = dataclasses.replace(XFCE, primary_members=["bob"], users={"alice": "set", "bob": "set"})
    assert problems(request(), found) == {}
    assert (
        "bob" in problems(request(), dataclasses.replace(found, users={"alice": "set", "bob": "empty"}))["xrdp_users"]
    )
