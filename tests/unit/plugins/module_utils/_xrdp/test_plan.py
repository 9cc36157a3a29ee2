# SPDX-License-Identifier: GPL-3.0-or-later
"""Which desktop is served by what, what xrdp is told, who may log in, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import plan
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.ini import sections
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.plan import (
    SESMAN_INI,
    XRDP_INI,
    Certificate,
    Seen,
    Session,
    decide,
)

FIXTURES = Path(__file__).parents[3] / "fixtures/xrdp"
PACKAGED = {
    name: {
        XRDP_INI: (FIXTURES / f"{name}-xrdp.ini").read_text(),
        SESMAN_INI: (FIXTURES / f"{name}-sesman.ini").read_text(),
    }
    for name in ("debian12", "debian13")
}
DESKTOPS = {
    "xfce": {"packages": ["xfce4", "xfce4-terminal"], "command": "startxfce4"},
    "gnome": {"packages": ["gnome-shell"], "command": "gnome-session"},
}
REQUEST: dict[str, Any] = {
    "state": "present",
    "backend": "auto",
    "desktop": "auto",
    "desktops": DESKTOPS,
    "gnome_x11": True,
    "gnome_environment": {"XDG_CURRENT_DESKTOP": "GNOME"},
    "packages": ["xrdp", "xorgxrdp"],
    "port": 3389,
    "networks": [],
    "users": ["alice"],
    "allowed_group": "xrdp-users",
    "tls_cert": "",
    "tls_key": "",
    "tls_cert_content": "",
    "tls_key_content": "",
    "tls_names": ["ws.example.org", "192.0.2.1"],
    "max_sessions": 10,
    "max_login_retry": 4,
    "kill_disconnected": False,
    "disconnected_timeout": 0,
    "idle_timeout": 0,
    "clipboard_in": True,
    "clipboard_out": True,
    "drive_redirection": False,
    "sound": True,
    "session_env": {},
    "ini_overrides": {},
    "fail2ban_bantime": "1h",
    "fail2ban_findtime": "10m",
    "fail2ban_maxretry": 5,
    "fail2ban_ignoreip": [],
    "sesman_overrides": {},
    "allow_disruption": False,
}
FRESH = Seen(users={"alice": "set"})
XFCE = Seen(x_sessions=["xfce"], manager="xfce4-session", users={"alice": "set"}, members=["alice"])
GNOME_X11 = Seen(packages={"gnome-shell": "48.4"}, x_sessions=["gnome-xorg"], manager="gnome-session")
GNOME_49 = Seen(packages={"gnome-shell": "50.1"}, wayland_sessions=["gnome"], manager="gnome-session")
BOTH = Seen(packages={"gnome-shell": "50.1"}, x_sessions=["xfce"], manager="xfce4-session")


def asked(**changes: Any) -> dict[str, Any]:
    return {**REQUEST, **changes}


def faults(params: dict[str, Any], seen: Seen) -> dict[str, str]:
    return {one["variable"]: one["problem"] for one in plan.requirements(params, seen, decide(params, seen))}


def statuses(params: dict[str, Any], seen: Seen) -> dict[str, tuple[str, str]]:
    found = plan.findings(params, seen, decide(params, seen))
    return {one["id"].removeprefix("xrdp."): (one["status"], one["evidence"]) for one in found}


# --- What is served ---


@pytest.mark.parametrize(
    ("seen", "change", "backend", "desktop"),
    [
        (FRESH, {}, "xrdp", "xfce"),
        (XFCE, {}, "xrdp", "host"),
        (GNOME_X11, {}, "xrdp", "host"),
        (GNOME_49, {}, "gnome", "gnome"),
        (GNOME_49, {"desktop": "xfce"}, "xrdp", "xfce"),
        (BOTH, {}, "xrdp", "host"),
        (BOTH, {"desktop": "gnome"}, "gnome", "gnome"),
        # Not installed yet: what the release has counts.
        (FRESH, {"desktop": "gnome"}, "xrdp", "gnome"),
        (FRESH, {"desktop": "gnome", "gnome_x11": False}, "gnome", "gnome"),
        (XFCE, {"backend": "gnome"}, "gnome", "host"),
    ],
)
def test_the_backend_follows_the_desktop_and_the_release(seen, change, backend, desktop):
    decision = decide(asked(**change), seen)
    assert (decision.backend, decision.desktop) == (backend, desktop)


@pytest.mark.parametrize(
    ("seen", "change"),
    [
        (GNOME_49, {"backend": "xrdp"}),
        (GNOME_49, {"backend": "xrdp", "desktop": "host"}),
        (FRESH, {"backend": "xrdp", "desktop": "gnome", "gnome_x11": False}),
    ],
)
def test_gnome_with_xrdp_is_refused_where_gnome_has_no_x11_session(seen, change):
    seen = dataclasses.replace(seen, users={"alice": "set"})
    found = plan.requirements(asked(**change), seen, decide(asked(**change), seen))
    assert [one["variable"] for one in found] == ["remote_desktop_backend"]
    assert "no X11 session" in found[0]["problem"] and "auto" in found[0]["remedy"]


def test_a_host_without_a_desktop_of_its_own_cannot_serve_it():
    assert "no desktop that runs on X11" in faults(asked(desktop="host"), FRESH)["xrdp_desktop"]
    assert faults(asked(desktop="host"), XFCE) == {}


def test_packages_of_the_desktop_are_installed_with_xrdp_and_only_those_that_are_missing():
    decision = decide(REQUEST, FRESH)
    seen = dataclasses.replace(FRESH, packages={"xrdp": "0.10.1", "xfce4": "4.20"})
    assert plan.missing_packages(REQUEST, FRESH, decision) == ["xrdp", "xorgxrdp", "xfce4", "xfce4-terminal"]
    assert plan.missing_packages(REQUEST, seen, decision) == ["xorgxrdp", "xfce4-terminal"]
    assert plan.missing_packages(REQUEST, XFCE, decide(REQUEST, XFCE)) == ["xrdp", "xorgxrdp"]
    assert plan.missing_packages(REQUEST, GNOME_49, decide(REQUEST, GNOME_49)) == []


# --- What xrdp is told ---


@pytest.fixture(params=sorted(PACKAGED))
def packaged(request: pytest.FixtureRequest) -> Seen:
    return dataclasses.replace(FRESH, packaged=PACKAGED[request.param])


def told(params: dict[str, Any], seen: Seen) -> tuple[dict[str, Any], dict[str, Any]]:
    decision = decide(params, seen)
    return sections(plan.xrdp_ini(params, seen)), sections(plan.sesman_ini(params, seen, decision))


def test_tls_alone_on_loopback_alone(packaged):
    found = told(REQUEST, packaged)[0]["globals"]
    assert found["port"] == ["tcp://127.0.0.1:3389"]
    assert found["security_layer"] == ["tls"]
    assert found["ssl_protocols"] == ["TLSv1.2, TLSv1.3"]
    assert (found["certificate"], found["key_file"]) == (["/etc/xrdp/tls/server.crt"], ["/etc/xrdp/tls/server.key"])


def test_with_networks_it_listens_everywhere_and_on_the_port_that_is_asked_for(packaged):
    assert told(asked(networks=["192.168.1.0/24"], port=3390), packaged)[0]["globals"]["port"] == ["3390"]


def test_no_session_type_lets_a_client_name_another_host(packaged):
    names = told(REQUEST, packaged)[0]
    assert "xorg" in names
    assert not any(options.get("ip") == ["ask"] for options in names.values())
    assert any(
        "ip" in options and options["ip"] == ["ask"] for options in sections(packaged.packaged[XRDP_INI]).values()
    )


def test_root_and_strangers_stay_out(packaged):
    security = told(REQUEST, packaged)[1]["security"]
    assert security["allowrootlogin"] == ["false"]
    assert security["terminalserverusers"] == ["xrdp-users"]
    assert security["alwaysgroupcheck"] == ["true"]
    assert security["terminalserveradmins"] == ["root"]
    assert security["maxloginretry"] == ["4"]


def test_training_goes_on_when_nobody_is_connected(packaged):
    found = told(REQUEST, packaged)[1]["sessions"]
    assert (found["killdisconnected"], found["disconnectedtimelimit"], found["idletimelimit"]) == (
        ["false"],
        ["0"],
        ["0"],
    )


def test_sesman_is_for_this_host_alone_and_its_sockets_for_xrdp_in_each_version():
    old, new = (told(REQUEST, dataclasses.replace(FRESH, packaged=PACKAGED[name]))[1] for name in sorted(PACKAGED))
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
def test_each_way_of_the_clipboard_is_closed_by_itself(packaged, change, cliprdr, outbound, inbound):
    xrdp, sesman = told(asked(**change), packaged)
    assert xrdp["channels"]["cliprdr"] == [cliprdr]
    assert sesman["security"]["restrictoutboundclipboard"] == [outbound]
    assert sesman["security"]["restrictinboundclipboard"] == [inbound]


def test_drives_and_sound_are_switched_as_asked(packaged):
    xrdp, sesman = told(REQUEST, packaged)
    assert (xrdp["channels"]["rdpdr"], xrdp["channels"]["rdpsnd"]) == (["false"], ["true"])
    assert sesman["chansrv"]["enablefusemount"] == ["false"]
    xrdp, sesman = told(asked(drive_redirection=True, sound=False), packaged)
    assert (xrdp["channels"]["rdpdr"], xrdp["channels"]["rdpsnd"]) == (["true"], ["false"])
    assert (sesman["chansrv"]["enablefusemount"], sesman["chansrv"]["fileumask"]) == (["true"], ["077"])


def test_an_old_xrdp_cannot_close_the_clipboard_to_the_host_alone():
    seen = dataclasses.replace(FRESH, packaged={SESMAN_INI: "[Security]\nRestrictOutboundClipboard=false\n"})
    assert "only together" in faults(asked(clipboard_in=False), seen)["xrdp_clipboard_in"]
    assert faults(asked(clipboard_in=False, clipboard_out=False), seen) == {}


def test_a_chosen_desktop_has_a_start_script_and_the_hosts_own_has_none():
    chosen = told(asked(desktop="xfce"), dataclasses.replace(FRESH, packaged=PACKAGED["debian13"]))[1]
    own = told(REQUEST, dataclasses.replace(XFCE, packaged=PACKAGED["debian13"]))[1]
    assert chosen["globals"]["defaultwindowmanager"] == ["/etc/xrdp/rigwright-startwm.sh"]
    assert own["globals"]["defaultwindowmanager"] == ["startwm.sh"]


def test_a_bare_host_is_planned_before_the_installation_as_after_it():
    before, after = (plan.command(REQUEST, decide(REQUEST, seen)) for seen in (FRESH, XFCE))
    assert before == after == ""
    assert plan.command(asked(desktop="xfce"), decide(asked(desktop="xfce"), XFCE)) == "startxfce4"


def test_gnome_has_its_variables_and_the_users_come_last():
    seen = dataclasses.replace(GNOME_X11, packaged=PACKAGED["debian13"])
    found = told(asked(session_env={"LANG": "C"}), seen)[1]["sessionvariables"]
    assert (found["xdg_current_desktop"], found["lang"]) == (["GNOME"], ["C"])
    found = told(asked(session_env={"XDG_CURRENT_DESKTOP": "X"}), seen)[1]["sessionvariables"]
    assert found["xdg_current_desktop"] == ["X"]
    assert (
        "xdg_current_desktop"
        not in told(REQUEST, dataclasses.replace(XFCE, packaged=PACKAGED["debian13"]))[1]["sessionvariables"]
    )


def test_further_options_are_set_and_gone_when_no_longer_asked(packaged):
    overrides = {"ini_overrides": {"Globals": {"max_bpp": "24"}}, "sesman_overrides": {"Xorg": {"param": ["a", "b"]}}}
    xrdp, sesman = told(asked(**overrides), packaged)
    assert xrdp["globals"]["max_bpp"] == ["24"] and sesman["xorg"]["param"] == ["a", "b"]
    assert told(REQUEST, packaged)[0]["globals"]["max_bpp"] == ["32"]


def test_only_what_is_read_at_the_start_asks_for_a_restart(packaged):
    def listener(**change: Any) -> list[str]:
        return plan.listener(plan.xrdp_ini(asked(**change), packaged))

    assert (
        listener(clipboard_in=False, sound=False, tls_cert="/a", ini_overrides={"Globals": {"max_bpp": "16"}})
        == listener()
    )
    assert listener(port=3390) != listener()
    assert listener(ini_overrides={"Logging": {"LogLevel": "DEBUG"}}) != listener()
    assert "port=tcp://127.0.0.1:3389" in listener()


# --- The group ---


def group(seen: Seen, **change: Any) -> list[dict[str, Any]]:
    return plan.groups(asked(**change), seen)


def recorded(seen: Seen, **change: Any) -> Seen:
    """The host after a run."""
    params = asked(**change)
    members = plan.allowed(params, seen)
    record = plan.record(params, seen)
    return dataclasses.replace(seen, members=members, former_members=members, record=record, managed=True)


def test_a_group_is_made_and_goes_with_the_role():
    assert group(FRESH) == [{"name": "xrdp-users", "system": True, "members": ["alice"], "append": False}]
    after = recorded(FRESH)
    assert after.record == {"group": "xrdp-users", "made": True, "added": ["alice"]}
    assert group(after) == []
    assert plan.record(REQUEST, after) == after.record
    assert group(after, state="absent") == [{"name": "xrdp-users", "state": "absent"}]
    assert plan.allowed(asked(state="absent"), after) == []


def test_who_is_taken_off_the_list_leaves_the_group_and_others_stay():
    seen = recorded(dataclasses.replace(FRESH, members=["bob"]), users=["alice", "carol"])
    assert seen.record == {"group": "xrdp-users", "made": False, "added": ["alice", "carol"]}
    assert group(seen, users=["carol"])[0]["members"] == ["bob", "carol"]
    assert plan.record(asked(users=["carol"]), seen)["added"] == ["carol"]
    assert group(seen, state="absent") == [{"name": "xrdp-users", "members": ["bob"], "append": False}]


def test_a_member_from_before_the_role_is_not_the_roles_to_remove():
    seen = recorded(dataclasses.replace(FRESH, members=["alice"]))
    assert seen.record["added"] == []
    assert group(seen, users=[]) == [] == group(seen, state="absent")


def test_another_group_gives_the_former_one_back():
    seen = dataclasses.replace(recorded(FRESH), members=None)
    assert group(seen, allowed_group="rdp") == [
        {"name": "xrdp-users", "state": "absent"},
        {"name": "rdp", "system": True, "members": ["alice"], "append": False},
    ]


def test_a_group_that_others_use_by_now_stays_without_the_roles_members():
    seen = recorded(FRESH)
    seen = dataclasses.replace(seen, members=["alice", "dora"], former_members=["alice", "dora"])
    assert group(seen, state="absent") == [{"name": "xrdp-users", "members": ["dora"], "append": False}]


# --- Sessions ---

OPEN = dataclasses.replace(XFCE, sessions=[Session("alice"), Session("bob", lost=True)], running=True, managed=True)


def units(seen: Seen, **change: Any) -> dict[str, dict[str, Any]]:
    params = asked(**change)
    return {unit["name"]: unit for unit in plan.units(params, seen, decide(params, seen))}


def test_a_restart_waits_for_open_sessions_and_a_reload_does_not():
    assert units(OPEN)["xrdp.service"]["may_restart"] is False
    assert units(OPEN, allow_disruption=True)["xrdp.service"]["may_restart"] is True
    assert units(dataclasses.replace(OPEN, sessions=OPEN.sessions[1:]))["xrdp.service"]["may_restart"] is True
    assert units(OPEN)["xrdp-sesman.service"]["reload_on"] == [SESMAN_INI]
    assert "restart_on" not in units(OPEN)["xrdp-sesman.service"]


def test_a_running_sesman_is_reloaded_first_and_a_stopped_one_starts_with_xrdp():
    assert list(units(OPEN)) == ["xrdp-sesman.service", "xrdp.service"]
    assert list(units(dataclasses.replace(OPEN, running=False))) == ["xrdp.service", "xrdp-sesman.service"]


def test_taking_the_role_away_ends_nobodys_session():
    assert "desktop of alice" in faults(asked(state="absent"), OPEN)["xrdp_state"]
    assert faults(asked(state="absent", allow_disruption=True), OPEN) == {}
    assert faults(asked(state="absent"), XFCE) == {}


def test_an_xrdp_that_the_role_never_managed_is_not_stopped():
    assert units(XFCE, state="absent") == {}
    assert {unit["state"] for unit in units(OPEN, state="absent").values()} == {"stopped"}


def test_a_lost_desktop_is_told():
    assert statuses(REQUEST, OPEN)["lost"][0] == "warn"
    assert "bob" in statuses(REQUEST, OPEN)["lost"][1]
    assert statuses(REQUEST, XFCE)["lost"][0] == "pass"


def test_who_sits_at_the_machine_and_may_log_in_by_rdp_is_told():
    assert statuses(REQUEST, dataclasses.replace(XFCE, console=["alice"]))["console"][0] == "warn"
    assert statuses(REQUEST, dataclasses.replace(XFCE, console=["zoe"]))["console"][0] == "pass"


# --- Users and certificates ---


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("missing", "no user of this host: alice"),
        ("root", "who is root: alice"),
        ("empty", "without a password: alice"),
    ],
)
def test_a_user_who_must_not_get_in_is_refused(kind, words):
    assert words in faults(REQUEST, dataclasses.replace(FRESH, users={"alice": kind}))["xrdp_users"]


def test_a_member_of_the_group_counts_as_one_who_is_named():
    seen = dataclasses.replace(XFCE, users={"alice": "set", "toor": "root"}, members=["alice", "toor"])
    assert "toor" in faults(REQUEST, seen)["xrdp_users"]


def test_in_check_mode_an_earlier_task_may_make_the_user():
    assert faults(REQUEST, dataclasses.replace(FRESH, users={"alice": "missing"}, check_mode=True)) == {}


def test_a_locked_user_and_an_empty_group_are_told():
    assert statuses(REQUEST, dataclasses.replace(FRESH, users={"alice": "none"}))["users"][0] == "warn"
    assert statuses(asked(users=[]), FRESH)["users"] == ("warn", "nobody may log in")
    assert statuses(REQUEST, FRESH)["users"] == ("pass", "may log in: alice")


def test_a_certificate_that_cannot_serve_is_refused_by_the_variable_it_came_with():
    seen = dataclasses.replace(FRESH, certificate=Certificate("has ended on 2026-01-01"))
    assert faults(asked(tls_cert="/a", tls_key="/b"), seen) == {"xrdp_tls_cert": "has ended on 2026-01-01"}
    content = {"tls_cert_content": "A", "tls_key_content": "B"}
    assert list(faults(asked(**content), seen)) == ["xrdp_tls_cert_content"]


@pytest.mark.parametrize(
    ("certificate", "status", "words"),
    [
        (Certificate(days=300, names=["DNS:ws.example.org"]), "pass", "300 days"),
        (Certificate(days=300, names=["IP:192.0.2.1"]), "pass", "300 days"),
        (Certificate(days=10, names=["DNS:ws.example.org"]), "warn", "ends in 10 days"),
        (Certificate(days=300, names=["DNS:other"]), "warn", "is for DNS:other"),
    ],
)
def test_a_certificate_that_ends_soon_or_is_anothers_is_told(certificate, status, words):
    found = statuses(REQUEST, dataclasses.replace(FRESH, certificate=certificate))["certificate"]
    assert found[0] == status and words in found[1]


def test_the_certificate_lies_where_it_was_put():
    assert plan.certificate_paths(asked(tls_cert="/a", tls_key="/b")) == ("/a", "/b")
    assert plan.certificate_paths(asked(tls_cert_content="PEM"))[0] == "/etc/xrdp/tls/own.crt"


def test_what_is_written_is_the_same_for_the_same_request(packaged):
    decision = decide(REQUEST, packaged)
    first, second = (plan.files(REQUEST, packaged, decision) for _time in range(2))
    assert first == second
    assert [file["path"] for file in first] == [XRDP_INI, SESMAN_INI, plan.RECORD]
    assert json.loads(first[2]["content"])["group"] == "xrdp-users"
    assert plan.files(REQUEST, GNOME_49, decide(REQUEST, GNOME_49)) == []


def test_who_has_the_group_as_their_own_is_let_in_and_looked_at():
    """Both versions of xrdp, 0.9.21 and 0.10.1, ask for all groups of a user; the group lists its further members alone."""
    seen = dataclasses.replace(XFCE, primary_members=["bob"], users={"alice": "set", "bob": "set"})
    assert faults(asked(), seen) == {}
    assert statuses(asked(), seen)["users"] == ("pass", "may log in: alice, bob")
    assert "bob" in faults(asked(), dataclasses.replace(seen, users={"alice": "set", "bob": "empty"}))["xrdp_users"]


def test_a_group_that_gives_more_than_a_desktop_is_not_filled():
    assert "more than a desktop" in faults(asked(allowed_group="sudo"), FRESH)["xrdp_allowed_group"]
    assert "xrdp_allowed_group" not in faults(asked(allowed_group="sudo"), XFCE)
    assert "xrdp_allowed_group" not in faults(asked(allowed_group="sudo", users=[]), FRESH)
