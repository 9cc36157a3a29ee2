# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that are refused, each with the variable and the remedy, and problems of a host."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import checks as plan

from tests.unit.plugins.module_utils._samba.test_config import REQUEST, SHARE

DATA = {**SHARE, "path": "/data/sets", "valid_users": ["alice"]}
PARAMS: dict[str, Any] = {
    **REQUEST,
    "allowed_roots": ["/data", "/srv"],
    "discovery": "auto",
    "users": [{"name": "alice", "password": "x"}, {"name": "bob", "state": "absent"}],
    "shares": [DATA],
}
FACTS = plan.Facts(
    uids={"alice": 1000},
    groups=["ml"],
    real={"/data": "/data", "/srv": "/srv", "/data/sets": "/data/sets"},
    directories=["/data/sets", "/data", "/srv"],
    modules=["catia", "fruit", "streams_xattr"],
)


def problems_of_request(**more: Any) -> list[str]:
    found = list(plan.problems_of_request({**PARAMS, **more}))
    assert all(text["ok"] is False and text["variable"].startswith("samba_") and text["remedy"] for text in found)
    return [f"{text['variable']}: {text['problem']}" for text in found]


def of_share(**more: Any) -> list[str]:
    return problems_of_request(shares=[{**DATA, **more}])


def on_host(share: dict[str, Any] | None = None, option: dict[str, Any] | None = None, **facts: Any) -> list[str]:
    params = {**PARAMS, "shares": [{**DATA, **(share or {})}], **(option or {})}
    return [text["problem"] for text in plan.problems_on_host(params, dataclasses.replace(FACTS, **facts))]


def test_valid_request_has_no_problems() -> None:
    assert problems_of_request() == []
    assert on_host() == []
    assert of_share(valid_users=["@ml"], write_list=["alice"], mode="2775", vfs_objects=["shadow_copy2"]) == []


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"min_protocol": "NT1"}, "samba_min_protocol: is NT1"),
        ({"min_protocol": "SMB1"}, "samba_min_protocol: is SMB1"),
        ({"min_protocol": "SMB2_02"}, "samba_min_protocol: is SMB2_02"),
        ({"min_protocol": ""}, "samba_min_protocol: is "),
        ({"min_protocol": "SMB2_10", "encrypt": "required"}, "which cannot encrypt"),
        ({"workgroup": "a b"}, "samba_workgroup: is no name"),
        ({"server_string": "two\nlines"}, "samba_server_string: is not a line"),
        ({"allowed_roots": ["/"]}, "samba_allowed_roots: allows /"),
        ({"allowed_roots": ["data"]}, "samba_allowed_roots: allows data"),
        ({"allowed_roots": ["/etc/samba"]}, "samba_allowed_roots: allows /etc/samba"),
        ({"networks": ["192.168.1.5/24"]}, "samba_networks: has '192.168.1.5/24'"),
        ({"networks": ["lan"]}, "samba_networks: has 'lan'"),
        ({"networks": ["0.0.0.0/0"]}, "the whole internet"),
        ({"networks": ["::/0"]}, "the whole internet"),
        ({"discovery": "wsdd"}, "samba_discovery: is wsdd, but samba_networks is empty"),
        ({"global_options": {"Map To  Guest": "bad user"}}, "sets `Map To  Guest`, which the role writes itself"),
        ({"global_options": {"min protocol": "NT1"}}, "sets `min protocol`"),
        ({"global_options": {"guest ok": True}}, "sets `guest ok`"),
        ({"global_options": {"include": "/tmp/x"}}, "sets `include`"),
        ({"global_options": {"deadtime": "1\nguest ok = yes"}}, "not a line of text"),
        ({"global_options": {"deadtime": "1\\"}}, "not a line of text"),
        ({"global_options": {"a]\n[b": "1"}}, "which is no parameter"),
        ({"global_options": {"a = b": "1"}}, "which is no parameter"),
    ],
)
def test_an_insecure_server_is_refused(more: dict[str, Any], expected: str) -> None:
    assert any(expected in text for text in problems_of_request(**more)), problems_of_request(**more)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"name": "global"}, "keeps for itself"),
        ({"name": "Homes"}, "keeps for itself"),
        ({"name": "IPC$"}, "keeps for itself"),
        ({"name": "a]b"}, "no name of a share"),
        ({"name": "a\nb"}, "no name of a share"),
        ({"name": "%U"}, "no name of a share"),
        ({"name": ""}, "no name of a share"),
        ({"comment": "a\nguest ok = yes"}, "a comment that is not a line"),
        ({"path": "data"}, "has the path 'data'"),
        ({"path": "/data/%U"}, "has the path '/data/%U'"),
        ({"path": '/data/"; rm -rf /'}, "has the path"),
        ({"path": "/data/x\n"}, "has the path"),
        ({"mode": 509}, "has the mode 509"),
        ({"mode": "rwx"}, "has the mode rwx"),
        ({"mode": "0777"}, "everybody on the host writes there"),
        ({"mount": "/other"}, "waits for /other"),
        ({"mount": "/"}, "waits for /"),
        ({"vfs_objects": ["catia; id"]}, "odd names"),
        ({"time_machine": True, "read_only": False}, "max_size is missing"),
        ({"time_machine": True, "read_only": False, "max_size": "lots"}, "max_size is lots"),
        ({"time_machine": True, "max_size": "1T"}, "nobody may write"),
        ({"max_size": "1T"}, "which only Time Machine knows"),
        ({"valid_users": ["bob"]}, "names bob, missing in samba_users"),
        ({"valid_users": ["alicce"]}, "names alicce, missing"),
        ({"valid_users": ["a b"]}, "names 'a b'"),
        ({"options": {"public": True}}, "sets `public`"),
        ({"options": {"wide links": True}}, "sets `wide links`"),
        ({"options": {"admin users": "alice"}}, "sets `admin users`"),
        ({"options": {"root preexec": "id"}}, "sets `root preexec`"),
        ({"options": {"veto files": {"a": 1}}}, "not a line of text"),
    ],
)
def test_an_insecure_share_is_refused(more: dict[str, Any], expected: str) -> None:
    assert any(expected in text for text in of_share(**more)), of_share(**more)


def test_two_shares_of_a_name_are_refused_whatever_the_capitals() -> None:
    assert "has two shares of a name: Data, data" in problems_of_request(shares=[DATA, {**DATA, "name": "Data"}])[0]


def test_different_rights_for_one_directory_are_refused() -> None:
    shares = [{**DATA, "mode": "2775"}, {**DATA, "name": "other", "mode": "2750", "path": "/data//sets/"}]
    assert "gives /data/sets different rights in two shares" in problems_of_request(shares=shares)[0]
    assert problems_of_request(shares=[shares[0], {**DATA, "name": "other"}]) == []


def test_writer_who_cannot_enter_is_refused() -> None:
    users = [{"name": "alice", "password": "x"}, {"name": "carol", "password": "y"}]
    assert (
        "has carol in `write_list` but not in `valid_users`"
        in problems_of_request(users=users, shares=[{**DATA, "write_list": ["carol"]}])[0]
    )


def test_an_old_protocol_cannot_carry_a_share_that_is_encrypted() -> None:
    assert "which cannot" in problems_of_request(min_protocol="SMB2_10", shares=[{**DATA, "encrypt": "required"}])[0]


@pytest.mark.parametrize(
    ("path", "real", "expected"),
    [
        ("/", "/", "shares / where the system itself lies"),
        ("/etc", "/etc", "where the system itself lies"),
        ("/opt/x", "/opt/x", "outside of /data, /srv"),
        ("/database", "/database", "outside of /data, /srv"),
        ("/data/link", "/etc/ssl", "/data/link, which leads to /etc/ssl, where the system itself lies"),
        ("/data/link", "/opt/secret", "/data/link, which leads to /opt/secret, outside of"),
        ("/data/../etc", "/etc", "where the system itself lies"),
        ("/data/gone", "/data/gone", "which is no directory"),
    ],
)
def test_a_path_is_judged_by_where_it_leads(path: str, real: str, expected: str) -> None:
    assert any(expected in text for text in on_host({"path": path}, real={**FACTS.real, path: real})), path


def test_a_root_that_is_a_link_allows_its_target() -> None:
    real = {"/data": "/mnt/big", "/srv": "/srv", "/data/sets": "/mnt/big/sets"}
    assert on_host(real=real) == []


def test_directory_may_be_missing_only_with_its_disk() -> None:
    away: dict[str, Any] = {"directories": (), "mounts": {"/data/sets": "/data"}}
    assert on_host(**away) == []
    assert "which is no directory" in on_host(**away, mounted=["/data"])[0]
    assert on_host(**away, mounted=["/data"], check=True) == [], "an earlier role may be about to make it"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"unknown": ["gost ok"]}, "would ignore: gost ok"),
        ({"open_settings": ["[data] guest ok = Yes"]}, "sets `[data] guest ok = Yes`"),
        ({"refused": "ERROR: invalid value"}, "is refused by testparm: ERROR"),
    ],
)
def test_configuration_that_samba_rejects_is_refused(facts: dict[str, Any], expected: str) -> None:
    assert expected in on_host(**facts)[0]


def test_missing_vfs_module_is_refused_with_samba_installed() -> None:
    assert "does not have here: fruitt" in on_host({"vfs_objects": ["fruitt", "catia"]})[0]
    assert on_host({"vfs_objects": ["fruitt"]}, modules=None) == []
    assert "fruit, streams_xattr" in on_host(option={"macos": True}, modules=["catia"])[0]


def test_missing_groups_and_owners_are_refused() -> None:
    assert "does not have: nobodies" in on_host({"valid_users": ["@nobodies"]})[0]
    assert "does not have: xl" in on_host({"group": "xl"})[0]
    assert "belong to carol" in on_host({"owner": "carol"})[0]


@pytest.mark.parametrize(
    ("option", "real", "required", "mount"),
    [
        ("auto", "/data/sets", {}, "/data"),
        ("auto", "/data/inner/sets", {}, "/data/inner"),
        ("auto", "/srv/x", {}, ""),
        ("auto", "/database", {}, ""),
        # Mounted by hand once, and not today.
        ("auto", "/srv/x", {"/data/sets": "/srv"}, "/srv"),
        ("none", "/data/sets", {}, ""),
        ("/srv/", "/srv/x", {}, "/srv"),
    ],
)
def test_the_disk_of_a_share_is_found(option: str, real: str, required: dict[str, str], mount: str) -> None:
    points = ["/", "/data", "/data/inner"]
    assert plan.mount_for({**DATA, "mount": option}, real, points, required) == mount


def test_link_of_a_user_in_a_path_is_refused() -> None:
    problem = "by the link /data/sets, which is not root's"
    assert any(problem in text for text in on_host(links={"/data/sets": "/data/sets"}))


def test_a_link_to_a_path_that_a_command_cannot_name_is_refused() -> None:
    """Refuse paths that a command of Samba cannot name: root runs it, and users can name directories."""
    for path in ('/data/x"; id; "', "/data/$(id)", "/data/a\nguest ok = yes"):
        assert any("leads to the path" in text for text in on_host(real={"/data": "/data", "/data/sets": path}))


@pytest.mark.parametrize("root", ["//", "/data/../etc", "/./"])
def test_a_root_is_the_system_by_whatever_spelling(root: str) -> None:
    assert any("in which the system itself lies" in text for text in problems_of_request(allowed_roots=[root]))


@pytest.mark.parametrize("name", ["config backend", "Registry Shares"])
def test_shares_that_stand_elsewhere_are_refused(name: str) -> None:
    assert any(f"sets `{name}`" in text for text in problems_of_request(global_options={name: "registry"}))


def test_trailing_backslash_and_blank_are_refused() -> None:
    """Refuse it: Samba 4.17 and 4.22 join such a line with the line below it."""
    assert any("samba_server_string" in text for text in problems_of_request(server_string="C:\\ "))
    assert any("a comment that is not a line" in text for text in of_share(comment="C:\\ "))
    assert any("not a line of text" in text for text in of_share(options={"veto files": "a\\ "}))
