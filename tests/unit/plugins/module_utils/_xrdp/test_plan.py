# SPDX-License-Identifier: GPL-3.0-or-later
"""The served desktop, and the files, group and units of xrdp."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import plan
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.ini import sections
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.plan import (
    SESMAN_INI,
    XRDP_INI,
    Facts,
    decide,
)

from tests.unit.support.xrdp import BOTH, FRESH, GNOME_49, GNOME_X11, OPEN, PACKAGED, REQUEST, XFCE, request

# --- The served desktop ---


@pytest.mark.parametrize(
    ("facts", "change", "backend", "desktop"),
    [
        (FRESH, {}, "xrdp", "xfce"),
        (XFCE, {}, "xrdp", "host"),
        (GNOME_X11, {}, "xrdp", "host"),
        (GNOME_49, {}, "gnome", "gnome"),
        (GNOME_49, {"desktop": "xfce"}, "xrdp", "xfce"),
        (BOTH, {}, "xrdp", "host"),
        (BOTH, {"desktop": "gnome"}, "gnome", "gnome"),
        # Not installed yet: the GNOME of the release counts.
        (FRESH, {"desktop": "gnome"}, "xrdp", "gnome"),
        (FRESH, {"desktop": "gnome", "gnome_x11": False}, "gnome", "gnome"),
        (XFCE, {"backend": "gnome"}, "gnome", "host"),
    ],
)
def test_the_backend_follows_the_desktop_and_the_release(facts, change, backend, desktop):
    decision = decide(request(**change), facts)
    assert (decision.backend, decision.desktop) == (backend, desktop)


def test_only_missing_packages_are_installed():
    decision = decide(REQUEST, FRESH)
    facts = dataclasses.replace(FRESH, packages={"xrdp": "0.10.1", "xfce4": "4.20"})
    assert plan.missing_packages(REQUEST, FRESH, decision) == ["xrdp", "xorgxrdp", "xfce4", "xfce4-terminal"]
    assert plan.missing_packages(REQUEST, facts, decision) == ["xorgxrdp", "xfce4-terminal"]
    assert plan.missing_packages(REQUEST, XFCE, decide(REQUEST, XFCE)) == ["xrdp", "xorgxrdp"]
    assert plan.missing_packages(REQUEST, GNOME_49, decide(REQUEST, GNOME_49)) == []


# --- The files of xrdp ---


@pytest.fixture(params=sorted(PACKAGED))
def packaged(request: pytest.FixtureRequest) -> Facts:
    return dataclasses.replace(FRESH, packaged=PACKAGED[request.param])


def written(params: Any, facts: Facts) -> tuple[Any, dict[str, Any]]:
    decision = decide(params, facts)
    return sections(plan.xrdp_ini(params, facts)), sections(plan.sesman_ini(params, facts, decision))


def test_the_default_is_tls_on_loopback(packaged):
    found = written(REQUEST, packaged)[0]["globals"]
    assert found["port"] == ["tcp://127.0.0.1:3389"]
    assert found["security_layer"] == ["tls"]
    assert found["ssl_protocols"] == ["TLSv1.2, TLSv1.3"]
    assert (found["certificate"], found["key_file"]) == (["/etc/xrdp/tls/server.crt"], ["/etc/xrdp/tls/server.key"])


def test_with_networks_xrdp_listens_on_all_addresses(packaged):
    assert written(request(networks=["192.168.1.0/24"], port=3390), packaged)[0]["globals"]["port"] == ["3390"]


def test_no_session_type_lets_a_client_name_a_host(packaged):
    names = written(REQUEST, packaged)[0]
    assert "xorg" in names
    assert not any(options.get("ip") == ["ask"] for options in names.values())
    assert any(
        "ip" in options and options["ip"] == ["ask"] for options in sections(packaged.packaged[XRDP_INI]).values()
    )


def test_root_and_users_outside_of_the_group_cannot_log_in(packaged):
    security = written(REQUEST, packaged)[1]["security"]
    assert security["allowrootlogin"] == ["false"]
    assert security["terminalserverusers"] == ["xrdp-users"]
    assert security["alwaysgroupcheck"] == ["true"]
    assert security["terminalserveradmins"] == ["root"]
    assert security["maxloginretry"] == ["4"]


def test_sessions_survive_a_disconnect(packaged):
    found = written(REQUEST, packaged)[1]["sessions"]
    assert (found["killdisconnected"], found["disconnectedtimelimit"], found["idletimelimit"]) == (
        ["false"],
        ["0"],
        ["0"],
    )


def test_sesman_listens_for_xrdp_alone_in_each_version():
    old, new = (written(REQUEST, dataclasses.replace(FRESH, packaged=PACKAGED[name]))[1] for name in sorted(PACKAGED))
    assert old["globals"]["listenaddress"] == ["127.0.0.1"] and "sessionsockdirgroup" not in old["security"]
    assert "listenaddress" not in new["globals"] and new["security"]["sessionsockdirgroup"] == ["xrdp"]


@pytest.mark.parametrize(
    ("change", "cliprdr", "outbound", "inbound"),
    [
        ({}, "true", "false", "false"),
        ({"clipboard_out": False}, "true", "true", "false"),
        ({"clipboard_in": False}, "true", "false", "true"),
        ({"clipboard_in": False, "clipboard_out": False}, "false", "true", "true"),
    ],
)
def test_each_direction_of_the_clipboard_has_an_option(packaged, change, cliprdr, outbound, inbound):
    xrdp, sesman = written(request(**change), packaged)
    assert xrdp["channels"]["cliprdr"] == [cliprdr]
    assert sesman["security"]["restrictoutboundclipboard"] == [outbound]
    assert sesman["security"]["restrictinboundclipboard"] == [inbound]


def test_drives_and_sound_have_options(packaged):
    xrdp, sesman = written(REQUEST, packaged)
    assert (xrdp["channels"]["rdpdr"], xrdp["channels"]["rdpsnd"]) == (["false"], ["true"])
    assert sesman["chansrv"]["enablefusemount"] == ["false"]
    xrdp, sesman = written(request(drive_redirection=True, sound=False), packaged)
    assert (xrdp["channels"]["rdpdr"], xrdp["channels"]["rdpsnd"]) == (["true"], ["false"])
    assert (sesman["chansrv"]["enablefusemount"], sesman["chansrv"]["fileumask"]) == (["true"], ["077"])


def test_only_a_chosen_desktop_has_a_start_script():
    chosen = written(request(desktop="xfce"), dataclasses.replace(FRESH, packaged=PACKAGED["debian13"]))[1]
    own = written(REQUEST, dataclasses.replace(XFCE, packaged=PACKAGED["debian13"]))[1]
    assert chosen["globals"]["defaultwindowmanager"] == ["/etc/xrdp/rigwright-startwm.sh"]
    assert own["globals"]["defaultwindowmanager"] == ["startwm.sh"]


def test_the_plan_is_the_same_after_the_installation():
    before, after = (plan.command(REQUEST, decide(REQUEST, facts)) for facts in (FRESH, XFCE))
    assert before == after == ""
    assert plan.command(request(desktop="xfce"), decide(request(desktop="xfce"), XFCE)) == "startxfce4"


def test_variables_of_the_user_override_those_of_gnome():
    facts = dataclasses.replace(GNOME_X11, packaged=PACKAGED["debian13"])
    found = written(request(session_env={"LANG": "C"}), facts)[1]["sessionvariables"]
    assert (found["xdg_current_desktop"], found["lang"]) == (["GNOME"], ["C"])
    found = written(request(session_env={"XDG_CURRENT_DESKTOP": "X"}), facts)[1]["sessionvariables"]
    assert found["xdg_current_desktop"] == ["X"]
    assert (
        "xdg_current_desktop"
        not in written(REQUEST, dataclasses.replace(XFCE, packaged=PACKAGED["debian13"]))[1]["sessionvariables"]
    )


def test_overrides_are_set_and_removed_again(packaged):
    overrides = {"ini_overrides": {"Globals": {"max_bpp": "24"}}, "sesman_overrides": {"Xorg": {"param": ["a", "b"]}}}
    xrdp, sesman = written(request(**overrides), packaged)
    assert xrdp["globals"]["max_bpp"] == ["24"] and sesman["xorg"]["param"] == ["a", "b"]
    assert written(REQUEST, packaged)[0]["globals"]["max_bpp"] == ["32"]


def test_only_options_read_at_start_need_a_restart(packaged):
    def listener(**change: Any) -> list[str]:
        return plan.listener(plan.xrdp_ini(request(**change), packaged))

    assert (
        listener(clipboard_in=False, sound=False, tls_cert="/a", ini_overrides={"Globals": {"max_bpp": "16"}})
        == listener()
    )
    assert listener(port=3390) != listener()
    assert listener(ini_overrides={"Logging": {"LogLevel": "DEBUG"}}) != listener()
    assert "port=tcp://127.0.0.1:3389" in listener()


# --- The group ---


def group(facts: Facts, **change: Any) -> list[Any]:
    return plan.groups(request(**change), facts)


def recorded(facts: Facts, **change: Any) -> Facts:
    """Return the facts after a run."""
    params = request(**change)
    members = plan.allowed(params, facts)
    record = plan.record(params, facts)
    return dataclasses.replace(facts, members=members, former_members=members, record=record, managed=True)


def test_a_group_is_created_and_removed_with_the_role():
    assert group(FRESH) == [{"name": "xrdp-users", "system": True, "members": ["alice"], "append": False}]
    after = recorded(FRESH)
    assert after.record == {"group": "xrdp-users", "made": True, "added": ["alice"]}
    assert group(after) == []
    assert plan.record(REQUEST, after) == after.record
    assert group(after, state="absent") == [{"name": "xrdp-users", "state": "absent"}]
    assert plan.allowed(request(state="absent"), after) == []


def test_a_user_removed_from_the_list_leaves_the_group():
    facts = recorded(dataclasses.replace(FRESH, members=["bob"]), users=["alice", "carol"])
    assert facts.record == {"group": "xrdp-users", "made": False, "added": ["alice", "carol"]}
    assert group(facts, users=["carol"])[0]["members"] == ["bob", "carol"]
    assert plan.record(request(users=["carol"]), facts)["added"] == ["carol"]
    assert group(facts, state="absent") == [{"name": "xrdp-users", "members": ["bob"], "append": False}]


def test_the_role_does_not_remove_earlier_members():
    facts = recorded(dataclasses.replace(FRESH, members=["alice"]))
    assert facts.record and facts.record["added"] == []
    assert group(facts, users=[]) == [] == group(facts, state="absent")


def test_another_group_restores_the_former_one():
    facts = dataclasses.replace(recorded(FRESH), members=None)
    assert group(facts, allowed_group="rdp") == [
        {"name": "xrdp-users", "state": "absent"},
        {"name": "rdp", "system": True, "members": ["alice"], "append": False},
    ]


def test_a_group_with_other_members_is_not_removed():
    facts = recorded(FRESH)
    facts = dataclasses.replace(facts, members=["alice", "dora"], former_members=["alice", "dora"])
    assert group(facts, state="absent") == [{"name": "xrdp-users", "members": ["dora"], "append": False}]


# --- Sessions ---


def units(facts: Facts, **change: Any) -> dict[str, Any]:
    params = request(**change)
    return {unit["name"]: unit for unit in plan.units(params, facts, decide(params, facts))}


def test_a_restart_waits_for_open_sessions():
    assert units(OPEN)["xrdp.service"]["may_restart"] is False
    assert units(OPEN, allow_disruption=True)["xrdp.service"]["may_restart"] is True
    assert units(dataclasses.replace(OPEN, sessions=OPEN.sessions[1:]))["xrdp.service"]["may_restart"] is True
    assert units(OPEN)["xrdp-sesman.service"]["reload_on"] == [SESMAN_INI]
    assert "restart_on" not in units(OPEN)["xrdp-sesman.service"]


def test_a_running_sesman_is_reloaded_first():
    assert list(units(OPEN)) == ["xrdp-sesman.service", "xrdp.service"]
    assert list(units(dataclasses.replace(OPEN, running=False))) == ["xrdp.service", "xrdp-sesman.service"]


def test_an_unmanaged_xrdp_is_not_stopped():
    assert units(XFCE, state="absent") == {}
    assert {unit["state"] for unit in units(OPEN, state="absent").values()} == {"stopped"}


def test_the_paths_of_the_certificate():
    assert plan.certificate_paths(request(tls_cert="/a", tls_key="/b")) == ("/a", "/b")
    assert plan.certificate_paths(request(tls_cert_content="PEM"))[0] == "/etc/xrdp/tls/own.crt"


def test_the_same_request_has_the_same_files(packaged):
    decision = decide(REQUEST, packaged)
    first, second = (plan.files(REQUEST, packaged, decision) for _time in range(2))
    assert first == second
    assert [file["path"] for file in first] == [XRDP_INI, SESMAN_INI, plan.RECORD]
    assert json.loads(first[2]["content"])["group"] == "xrdp-users"
    assert plan.files(REQUEST, GNOME_49, decide(REQUEST, GNOME_49)) == []
