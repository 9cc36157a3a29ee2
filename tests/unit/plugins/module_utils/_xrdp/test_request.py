# SPDX-License-Identifier: GPL-3.0-or-later
"""Invalid requests are refused with the variable and a remedy."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.request import OWN, problems, texts

from tests.unit.support import xrdp

REQUEST: Any = {
    **xrdp.REQUEST,
    "session_env": {"LANG": "de_DE.UTF-8"},
    "ini_overrides": {"Globals": {"max_bpp": "24"}},
    "sesman_overrides": {"Xorg": {"param": ["Xorg", "-nolisten"]}},
}


def test_a_valid_request_is_not_refused():
    assert problems(REQUEST) == []


@pytest.mark.parametrize(
    ("change", "variable", "text"),
    [
        ({"port": 3350}, "xrdp_port", "on which xrdp-sesman listens"),
        ({"networks": ["192.168.1.7/24"]}, "xrdp_networks", "host bits"),
        ({"networks": ["office"]}, "xrdp_networks", "is wrong"),
        ({"allowed_group": "root"}, "xrdp_allowed_group", "cannot be the group"),
        ({"allowed_group": "xrdp"}, "xrdp_allowed_group", "cannot be the group"),
        ({"allowed_group": ""}, "xrdp_allowed_group", "cannot be the group"),
        ({"allowed_group": "a b"}, "xrdp_allowed_group", "cannot be the group"),
        ({"users": ["alice", "root"]}, "xrdp_users", "names root"),
        ({"max_sessions": 0}, "xrdp_max_sessions", "is 0"),
        ({"max_login_retry": 0}, "xrdp_max_login_retry", "is 0"),
        ({"idle_timeout": -1}, "xrdp_idle_timeout", "is -1"),
        ({"disconnected_timeout": -1}, "xrdp_disconnected_timeout", "is -1"),
        ({"kill_disconnected": True}, "xrdp_kill_disconnected", "would end the desktop"),
        ({"tls_cert": "/etc/ssl/a.crt"}, "xrdp_tls_key", "is missing"),
        ({"tls_key_content": "PEM"}, "xrdp_tls_cert_content", "is missing"),
        (
            {"tls_cert": "/a", "tls_key": "/b", "tls_cert_content": "PEM", "tls_key_content": "PEM"},
            "xrdp_tls_cert",
            "together with xrdp_tls_cert_content",
        ),
        ({"tls_cert": "a.crt", "tls_key": "/b"}, "xrdp_tls_cert", "not a path that xrdp can read"),
        ({"tls_cert": "/a", "tls_key": "/b;c"}, "xrdp_tls_key", "not a path that xrdp can read"),
        ({"tls_names": []}, "xrdp_tls_names", "is empty"),
        ({"tls_names": ["ws:3389"]}, "xrdp_tls_names", "names has 'ws:3389'"),
        ({"session_env": {"A": "b#c"}}, "xrdp_session_env", "at which xrdp stops reading"),
        ({"session_env": {"A": "$HOME"}}, "xrdp_session_env", "variable of its own environment"),
        ({"session_env": {"A-B": "c"}}, "xrdp_session_env", "not the name of a variable"),
        ({"ini_overrides": {"globals": {"Security_Layer": "rdp"}}}, "xrdp_ini_overrides", "which the role sets itself"),
        ({"ini_overrides": {"Globals": "x"}}, "xrdp_ini_overrides", "has no options"),
        ({"sesman_overrides": {"Security": {"AllowRootLogin": "true"}}}, "xrdp_sesman_overrides", "role sets itself"),
        ({"sesman_overrides": {"Xorg": {"param": ["a", "b\n[Security]"]}}}, "xrdp_sesman_overrides", "line break"),
    ],
)
def test_an_invalid_request_is_refused(change, variable, text):
    found = problems(REQUEST | change)
    assert [entry["variable"] for entry in found] == [variable]
    assert text in found[0]["problem"]
    assert found[0]["remedy"]


def test_a_desktop_is_allowed_to_end_after_a_time():
    assert problems(REQUEST | {"kill_disconnected": True, "disconnected_timeout": 3600}) == []


def test_the_variable_to_use_instead_is_named():
    found = problems(REQUEST | {"ini_overrides": {"Globals": {"port": "3390"}}})
    assert found[0]["remedy"] == "use xrdp_port and xrdp_networks"
    assert all(name == name.lower() for sections in OWN.values() for options in sections.values() for name in options)


def test_all_wrong_entries_are_refused_at_once():
    change = {"networks": ["office", "192.168.1.7/24"], "tls_names": ["a b", "c d"], "fail2ban_bantime": "soon"}
    found: Any = [f"{entry['variable']} {entry['problem']}" for entry in problems(REQUEST | change)]
    assert len(found) == 5
    for text in ("'office'", "'192.168.1.7/24'", "a b", "c d", "'soon'"):
        assert any(text in line for line in found), text


def test_options_are_written_as_xrdp_reads_them():
    overrides = {"Globals": {"fork": True, "bpp": 24}, "Xorg": {"param": ["a", 1]}, "wrong": "text"}
    assert texts(overrides) == {
        "Globals": {"fork": "true", "bpp": "24"},
        "Xorg": {"param": ["a", "1"]},
        "wrong": "text",
    }
