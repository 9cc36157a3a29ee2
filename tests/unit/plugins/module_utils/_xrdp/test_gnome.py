# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan, checks and findings of GNOME's own remote login."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import gnome
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.gnome import Answers, Facts
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.gnome_remote_desktop import Settings

PARAMS: Any = {
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
SETTINGS = Settings(
    True, 3389, f"{gnome.TLS}/server.crt", f"{gnome.TLS}/server.key", "workstation", PARAMS["machine_password"]
)
REQUIRED = "network level authentication is required"


def variables(params: Any, facts: Facts | None = None) -> list[str]:
    return [problem["variable"] for problem in gnome.problems(PARAMS | params, facts or Facts())]


def statuses(found: list[Finding]) -> dict[str, str]:
    return {finding["id"].partition(".")[2]: finding["status"] for finding in found}


def test_a_whole_request_is_accepted() -> None:
    assert gnome.problems(PARAMS, Facts(display_manager="gdm3")) == []


@pytest.mark.parametrize(
    ("params", "variable", "problem"),
    [
        ({"gnome_login": False}, "remote_desktop_backend", "only since GNOME 47"),
        ({"machine_password": ""}, "xrdp_machine_password", "is missing"),
        ({"machine_password": "elevenchars"}, "xrdp_machine_password", "is shorter than 12 characters"),
        ({"machine_password": "twelve chars\n1"}, "xrdp_machine_password", "has a line break"),
        ({"machine_user": ""}, "xrdp_machine_user", "is empty"),
    ],
)
def test_an_impossible_request_is_refused_with_its_variable(params: Any, variable: str, problem: str) -> None:
    (found,) = gnome.problems(PARAMS | params, Facts())
    assert found["variable"] == variable
    assert problem in found["problem"]
    assert found["remedy"]
    assert not (params.get("machine_password") and params["machine_password"] in str(found))


def test_another_display_manager_is_refused_and_none_is_not() -> None:
    assert variables({}, Facts(display_manager="lightdm")) == ["remote_desktop_backend"]
    assert variables({}, Facts(display_manager="")) == []


def test_a_daemon_with_all_settings_is_configured() -> None:
    assert gnome.configured(PARAMS, Facts(settings=SETTINGS))
    assert not gnome.configured(PARAMS, Facts())
    assert not gnome.configured(PARAMS | {"machine_password": "another one of them"}, Facts(settings=SETTINGS))
    assert not gnome.configured(PARAMS | {"port": 3390}, Facts(settings=SETTINGS))


def test_a_new_credential_restarts_the_daemon() -> None:
    display_manager, daemon = gnome.units(PARAMS, Facts())
    assert "restart_on" not in display_manager
    assert {gnome.CONFIGURATION, gnome.STATE, gnome.DROP_IN, f"{gnome.TLS}/server.crt"} <= {*daemon["restart_on"]}


@pytest.mark.parametrize(
    ("sessions", "allowed", "may"), [([], False, True), (["alice"], False, False), (["alice"], True, True)]
)
def test_a_restart_waits_for_users_to_leave(sessions: list[str], allowed: bool, may: bool) -> None:
    units = gnome.units(PARAMS | {"allow_disruption": allowed}, Facts(sessions=sessions))
    assert units[-1]["may_restart"] is may


def test_the_removal_waits_for_users_to_leave() -> None:
    busy = Facts(sessions=["alice"], managed=True)
    (problem,) = gnome.absence_problems(PARAMS, busy)
    assert "alice" in problem["problem"]
    assert gnome.absence_problems(PARAMS | {"allow_disruption": True}, busy) == []
    assert gnome.absence_problems(PARAMS, Facts(managed=True)) == []
    assert gnome.absence_problems(PARAMS, Facts(sessions=["alice"])) == []


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({}, f"{gnome.TLS}/server.crt"),
        ({"tls_cert_content": "PEM"}, f"{gnome.TLS}/own.crt"),
        ({"tls_cert": "/etc/ssl/ws.crt", "tls_key": "/etc/ssl/ws.key"}, "/etc/ssl/ws.crt"),
    ],
)
def test_the_certificate_is_in_a_directory_of_root(params: Any, path: str) -> None:
    assert gnome.certificate_paths(PARAMS | params)[0] == path


def test_users_without_effect_and_a_text_boot_are_warnings() -> None:
    found = gnome.findings(PARAMS | {"users": ["alice"]}, Facts(boots_to="multi-user.target"))
    assert statuses(found) == {"users": "warn", "boot": "warn"}
    assert statuses(gnome.findings(PARAMS, Facts())) == {"users": "pass", "boot": "pass"}


def proof(answers: Answers, networks: tuple[str, ...] = (), settings: Settings = SETTINGS) -> dict[str, str]:
    return statuses(
        gnome.proof_findings(PARAMS | {"networks": list(networks)}, Facts(settings=settings), answers, "AB:CD")
    )


GOOD = Answers(REQUIRED, REQUIRED, True, "AB:CD", "10.0.0.5", reached=False)


def test_a_daemon_that_requires_authentication_passes() -> None:
    assert proof(GOOD) == dict.fromkeys(("nla", "plain", "fingerprint", "settings", "reach"), "pass")


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        ({"nla": False}, "nla"),
        ({"plain": "RDP's own security"}, "plain"),
        ({"tls": "TLS"}, "plain"),
        ({"plain": "the user mallory listens there, and not the service"}, "plain"),
        ({"fingerprint": "EF"}, "fingerprint"),
        ({"fingerprint": ""}, "fingerprint"),
        ({"reached": True}, "reach"),
    ],
)
def test_each_wrong_answer_fails(change: Any, failed: str) -> None:
    found = proof(GOOD._replace(**change))
    assert [name for name, status in found.items() if status == "fail"] == [failed]


def test_settings_changed_by_others_fail() -> None:
    assert proof(GOOD, settings=Settings())["settings"] == "fail"


@pytest.mark.parametrize(
    ("networks", "reached", "status"),
    [
        (["10.0.0.0/24"], True, "pass"),
        (["10.0.0.0/24"], False, "fail"),
        (["10.0.1.0/24", "fd00::/8"], True, "fail"),
        (["0.0.0.0/0"], True, "pass"),
    ],
)
def test_only_the_requested_networks_are_answered(networks: list[str], reached: bool, status: str) -> None:
    assert proof(GOOD._replace(reached=reached), tuple(networks))["reach"] == status


def test_a_host_with_loopback_alone_is_skipped() -> None:
    assert proof(GOOD._replace(address=""))["reach"] == "skip"
