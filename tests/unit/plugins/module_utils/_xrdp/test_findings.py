# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings of the role xrdp."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import findings
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.plan import (
    SESMAN_INI,
    XRDP_INI,
    Certificate,
    Facts,
    decide,
)

from tests.unit.support.xrdp import FRESH, OPEN, PACKAGED, REQUEST, XFCE, request


def statuses(params: Any, facts: Facts) -> dict[str, tuple[str, str]]:
    found = findings.findings(params, facts, decide(params, facts))
    return {entry["id"].removeprefix("xrdp."): (entry["status"], entry["evidence"]) for entry in found}


SERVED = dataclasses.replace(XFCE, packages={"xrdp": "0.10.1-3"})


def test_a_lost_desktop_is_a_warning():
    assert statuses(REQUEST, OPEN)["lost"][0] == "warn"
    assert "bob" in statuses(REQUEST, OPEN)["lost"][1]
    assert statuses(REQUEST, SERVED)["lost"][0] == "pass"


def test_session_type_that_is_left_out_is_named():
    own = "[Globals]\nport=3389\n[vnc-any]\nip=ask\n[Elsewhere]\nip=ask192.0.2.7\n[console]\nip=127.0.0.1\n"
    facts = dataclasses.replace(XFCE, packaged={"/etc/xrdp/xrdp.ini": own})
    assert statuses(REQUEST, dataclasses.replace(XFCE, packaged={}))["session_types"][0] == "skip"
    status, evidence = statuses(REQUEST, facts)["session_types"]
    assert (status, "elsewhere" in evidence, "vnc-any" in evidence) == ("warn", True, False)
    again = request(ini_overrides={"Elsewhere": {"ip": "192.0.2.7"}})
    assert statuses(again, facts)["session_types"][0] == "pass"


@pytest.mark.parametrize("release", PACKAGED)
def test_packages_options_are_nobodys(release: str):
    found = dataclasses.replace(XFCE, packaged=PACKAGED[release], edited=PACKAGED[release])
    assert statuses(request(max_sessions=3, port=3390), found)["overridden"][0] == "pass"


def test_option_of_the_user_that_is_replaced_is_named():
    sesman = PACKAGED["debian13"][SESMAN_INI].replace("TerminalServerUsers=tsusers", "TerminalServerUsers=lab")
    own = {
        SESMAN_INI: sesman.replace("AlwaysGroupCheck=false", "AlwaysGroupCheck=yes"),
        XRDP_INI: "[Globals]\nport=3390\n",
    }
    facts = dataclasses.replace(XFCE, packaged=PACKAGED["debian13"], edited=own)
    status, evidence = statuses(REQUEST, facts)["overridden"]
    assert (status, "alwaysgroupcheck" in evidence) == ("warn", False)
    assert "terminalserverusers=lab (/etc/xrdp/sesman.ini [security])" in evidence
    assert "port=3390 (/etc/xrdp/xrdp.ini [globals])" in evidence
    same = request(allowed_group="lab", networks=["192.0.2.0/24"], port=3390)
    assert statuses(same, facts)["overridden"][0] == "pass"
    kept = request(sesman_overrides={"Security": {"TerminalServerUsers": "lab"}}, networks=["192.0.2.0/24"], port=3390)
    assert statuses(kept, facts)["overridden"][0] == "pass"
    assert statuses(REQUEST, dataclasses.replace(XFCE, packaged={}))["overridden"][0] == "skip"


def test_value_that_may_be_a_secret_is_not_shown():
    secret = "http://u:hunter2@proxy:1"
    sesman = f"{PACKAGED['debian13'][SESMAN_INI]}\n[SessionVariables]\nhttps_proxy={secret}\nAPI=hunter2\n"
    facts = dataclasses.replace(XFCE, packaged=PACKAGED["debian13"], edited={SESMAN_INI: sesman})
    environment = {"https_proxy": "http://proxy:1", "API": "x"}
    # The first section of a name counts, and the package has one.
    facts = dataclasses.replace(facts, edited={SESMAN_INI: sesman.replace("[SessionVariables]", "", 1)})
    status, evidence = statuses(request(session_env=environment), facts)["overridden"]
    assert (status, "hunter2" in evidence) == ("warn", False)
    assert "https_proxy (/etc/xrdp/sesman.ini [sessionvariables])" in evidence
    assert "api (/etc/xrdp/sesman.ini [sessionvariables])" in evidence


def test_file_of_an_older_package_is_nobodys():
    older = {
        SESMAN_INI: "[Globals]\nListenPort=3350\nEnableUserWindowManager=yes\n[Security]\nMaxLoginRetry=4\n[X11rdp]\nparam=X11rdp\n",
        XRDP_INI: "[Globals]\nport=3389\nmax_bpp=24\ncrypt_level=low\n[Logging]\nLogLevel=DEBUG\n",
    }
    facts = dataclasses.replace(XFCE, packaged=PACKAGED["debian13"], edited=older)
    assert statuses(REQUEST, facts)["overridden"][0] == "pass"
    own = {XRDP_INI: older[XRDP_INI].replace("3389", "3390")}
    status, evidence = statuses(REQUEST, dataclasses.replace(facts, edited=own))["overridden"]
    assert (status, evidence.count(XRDP_INI), "port=3390" in evidence) == ("warn", 1, True)
    overrides = request(ini_overrides={"Logging": {"LogLevel": "INFO"}})
    assert "loglevel (/etc/xrdp/xrdp.ini [logging])" in statuses(overrides, facts)["overridden"][1]


def test_an_rdp_user_at_the_machine_is_a_warning():
    assert statuses(REQUEST, dataclasses.replace(XFCE, console=["alice"]))["console"][0] == "warn"
    assert statuses(REQUEST, dataclasses.replace(SERVED, console=["zoe"]))["console"][0] == "pass"


def test_without_a_server_nothing_passes():
    found = statuses(REQUEST, XFCE)
    assert {found[name][0] for name in ("backend", "console", "lost")} == {"skip"}


def test_a_locked_user_and_an_empty_group_are_warnings():
    assert statuses(REQUEST, dataclasses.replace(FRESH, users={"alice": "none"}))["users"][0] == "warn"
    assert statuses(request(users=[]), FRESH)["users"] == ("warn", "nobody may log in")
    assert statuses(REQUEST, FRESH)["users"] == ("pass", "may log in: alice")


@pytest.mark.parametrize(
    ("certificate", "status", "text"),
    [
        (Certificate(days=300, names=["DNS:ws.example.org"]), "pass", "300 days"),
        (Certificate(days=300, names=["IP:192.0.2.1"]), "pass", "300 days"),
        (Certificate(days=10, names=["DNS:ws.example.org"]), "warn", "ends in 10 days"),
        (Certificate(days=300, names=["DNS:other"]), "warn", "is for DNS:other"),
    ],
)
def test_a_certificate_for_another_name_or_time_is_a_warning(certificate, status, text):
    found = statuses(REQUEST, dataclasses.replace(FRESH, certificate=certificate))["certificate"]
    assert found[0] == status and text in found[1]


def test_users_with_it_as_their_primary_group_can_log_in():
    """Include primary groups: xrdp 0.9.21 and 0.10.1 read all groups of a user; the group itself lists only its other members."""
    found = dataclasses.replace(XFCE, primary_members=["bob"], users={"alice": "set", "bob": "set"})
    assert statuses(request(), found)["users"] == ("pass", "may log in: alice, bob")
