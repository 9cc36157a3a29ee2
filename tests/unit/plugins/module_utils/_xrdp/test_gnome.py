# SPDX-License-Identifier: GPL-3.0-or-later
"""What GNOME's own remote login needs of a host, and what its answers prove."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import gnome
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.gnome import Answers, Seen
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.gnome_remote_desktop import Settings

PARAMS: dict[str, Any] = {
    "port": 3389,
    "networks": [],
    "users": [],
    "tls_cert": "",
    "tls_key": "",
    "tls_cert_content": "",
    "gnome_login": True,
    "machine_user": "workstation",
    "machine_password": 'Trees "%$ grün 1',
    "allow_disruption": False,
}
TOLD = Settings(
    True, 3389, f"{gnome.TLS}/server.crt", f"{gnome.TLS}/server.key", "workstation", PARAMS["machine_password"]
)
REQUIRED = "network level authentication is required"


def variables(params: dict[str, Any], seen: Seen | None = None) -> list[str]:
    return [fault["variable"] for fault in gnome.faults({**PARAMS, **params}, seen or Seen())]


def statuses(found: list[dict[str, str]]) -> dict[str, str]:
    return {finding["id"].partition(".")[2]: finding["status"] for finding in found}


def test_a_whole_request_is_accepted() -> None:
    assert gnome.faults(PARAMS, Seen(display_manager="gdm3")) == []


@pytest.mark.parametrize(
    ("params", "variable", "problem"),
    [
        ({"gnome_login": False}, "remote_desktop_backend", "from GNOME 47 on"),
        ({"machine_password": ""}, "xrdp_machine_password", "is missing"),
        ({"machine_password": "elevenchars"}, "xrdp_machine_password", "is shorter than 12 characters"),
        ({"machine_password": "twelve chars\n1"}, "xrdp_machine_password", "has a line break"),
        ({"machine_user": ""}, "xrdp_machine_user", "is empty"),
    ],
)
def test_what_would_not_work_is_refused_with_variable_and_remedy(
    params: dict[str, Any], variable: str, problem: str
) -> None:
    (fault,) = gnome.faults({**PARAMS, **params}, Seen())
    assert fault["variable"] == variable
    assert problem in fault["problem"]
    assert fault["remedy"]
    assert not (params.get("machine_password") and params["machine_password"] in str(fault))


def test_another_display_manager_is_refused_and_none_is_not() -> None:
    assert variables({}, Seen(display_manager="lightdm")) == ["remote_desktop_backend"]
    assert variables({}, Seen(display_manager="")) == []


def test_a_daemon_that_is_told_all_of_it_is_configured() -> None:
    assert gnome.configured(PARAMS, Seen(settings=TOLD))
    assert not gnome.configured(PARAMS, Seen())
    assert not gnome.configured({**PARAMS, "machine_password": "another one of them"}, Seen(settings=TOLD))
    assert not gnome.configured({**PARAMS, "port": 3390}, Seen(settings=TOLD))


def test_the_credential_is_among_what_a_restart_is_for() -> None:
    display_manager, daemon = gnome.units(PARAMS, Seen())
    assert "restart_on" not in display_manager
    assert {gnome.CONFIGURATION, gnome.STATE, gnome.DROP_IN, f"{gnome.TLS}/server.crt"} <= {*daemon["restart_on"]}


@pytest.mark.parametrize(
    ("sessions", "allowed", "may"), [([], False, True), (["alice"], False, False), (["alice"], True, True)]
)
def test_a_restart_waits_for_users_to_leave(sessions: list[str], allowed: bool, may: bool) -> None:
    units = gnome.units({**PARAMS, "allow_disruption": allowed}, Seen(sessions=sessions))
    assert units[-1]["may_restart"] is may


def test_taking_it_away_waits_for_users_to_leave() -> None:
    busy = Seen(sessions=["alice"], managed=True)
    (fault,) = gnome.absence_faults(PARAMS, busy)
    assert "alice" in fault["problem"]
    assert gnome.absence_faults({**PARAMS, "allow_disruption": True}, busy) == []
    assert gnome.absence_faults(PARAMS, Seen(managed=True)) == []
    assert gnome.absence_faults(PARAMS, Seen(sessions=["alice"])) == []


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({}, f"{gnome.TLS}/server.crt"),
        ({"tls_cert_content": "PEM"}, f"{gnome.TLS}/own.crt"),
        ({"tls_cert": "/etc/ssl/ws.crt", "tls_key": "/etc/ssl/ws.key"}, "/etc/ssl/ws.crt"),
    ],
)
def test_the_certificate_lies_where_root_alone_writes(params: dict[str, Any], path: str) -> None:
    assert gnome.certificate_paths({**PARAMS, **params})[0] == path


def test_that_users_are_not_picked_here_and_that_nothing_starts_at_boot_is_told() -> None:
    found = gnome.findings({**PARAMS, "users": ["alice"]}, Seen(boots_to="multi-user.target"))
    assert statuses(found) == {"users": "warn", "boot": "warn"}
    assert statuses(gnome.findings(PARAMS, Seen())) == {"users": "pass", "boot": "pass"}


def proven(answers: Answers, networks: tuple[str, ...] = (), settings: Settings = TOLD) -> dict[str, str]:
    return statuses(gnome.proven({**PARAMS, "networks": list(networks)}, Seen(settings=settings), answers, "AB:CD"))


GOOD = Answers(REQUIRED, REQUIRED, True, "AB:CD", "10.0.0.5", reached=False)


def test_a_daemon_that_asks_for_authentication_and_for_nobody_else_is_proven() -> None:
    assert proven(GOOD) == dict.fromkeys(("nla", "plain", "fingerprint", "settings", "reach"), "pass")


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        ({"nla": False}, "nla"),
        ({"plain": "RDP's own security"}, "plain"),
        ({"tls": "TLS"}, "plain"),
        ({"fingerprint": "EF"}, "fingerprint"),
        ({"fingerprint": ""}, "fingerprint"),
        ({"reached": True}, "reach"),
    ],
)
def test_each_answer_that_is_wrong_fails(change: dict[str, Any], failed: str) -> None:
    found = proven(GOOD._replace(**change))
    assert [name for name, status in found.items() if status == "fail"] == [failed]


def test_settings_that_somebody_else_has_changed_fail() -> None:
    assert proven(GOOD, settings=Settings())["settings"] == "fail"


@pytest.mark.parametrize(
    ("networks", "reached", "status"),
    [
        (["10.0.0.0/24"], True, "pass"),
        (["10.0.0.0/24"], False, "fail"),
        (["10.0.1.0/24", "fd00::/8"], True, "fail"),
        (["0.0.0.0/0"], True, "pass"),
    ],
)
def test_who_is_answered_is_who_was_asked_for(networks: list[str], reached: bool, status: str) -> None:
    assert proven(GOOD._replace(reached=reached), tuple(networks))["reach"] == status


def test_a_host_without_another_address_has_nobody_to_keep_out() -> None:
    assert proven(GOOD._replace(address=""))["reach"] == "skip"
