# SPDX-License-Identifier: GPL-3.0-or-later
"""smb.conf for a request, and the parsed output of testparm."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import config

SHARE: dict[str, Any] = {
    "name": "data",
    "path": "/data/sets",
    "comment": "",
    "valid_users": [],
    "write_list": [],
    "read_only": True,
    "browseable": True,
    "owner": None,
    "group": None,
    "mode": None,
    "default_acl": False,
    "encrypt": None,
    "mount": "auto",
    "time_machine": False,
    "max_size": "",
    "vfs_objects": [],
    "options": {},
}
REQUEST: dict[str, Any] = {
    "workgroup": "WORKGROUP",
    "server_string": "tower",
    "min_protocol": "SMB3_11",
    "encrypt": "desired",
    "port": 445,
    "networks": [],
    "users": [{"name": "alice"}, {"name": "bob", "state": "absent"}],
    "shares": [SHARE],
    "global_options": {},
    "macos": False,
}
# What testparm 4.17 and 4.22 say, with exit status 0.
TYPOS = """\
Load smb config files from /tmp/a.conf
Unknown parameter encountered: "srver sting"
Ignoring unknown parameter "srver sting"
Unknown parameter encountered: "gost ok"
Ignoring unknown parameter "gost ok"
Loaded services file OK.
Weak crypto is allowed by GnuTLS (e.g. NTLM as a compatibility fallback)
"""


def is_root(name: str) -> bool:
    return name in ("root", "toor")


def share(**more: Any) -> config.Section:
    return config.share_section(REQUEST, {**SHARE, **more}, "")


def test_guests_are_refused_and_every_packet_is_signed() -> None:
    section = config.global_section(REQUEST, [])
    assert section["server min protocol"] == "SMB3_11"
    assert section["server signing"] == "mandatory"
    assert (section["map to guest"], section["restrict anonymous"]) == ("never", "2")
    assert (section["disable netbios"], section["ntlm auth"]) == ("yes", "ntlmv2-only")
    assert section["hosts allow"] == "127.0.0.1 ::1"


def test_samba_without_networks_listens_only_on_loopback() -> None:
    alone = config.listen_section(REQUEST)
    assert (alone["interfaces"], alone["bind interfaces only"]) == ("lo", "yes")
    open_to = config.listen_section({**REQUEST, "networks": ["10.0.0.0/8"], "port": 1445})
    assert open_to == {"smb ports": "1445"}


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        ("192.168.1.0/24", "192.168.1.0/24"),
        ("192.168.1.7/32", "192.168.1.7"),
        ("fd00:1::/64", "fd00:1::/64"),
        ("fd00:1::7/128", "fd00:1::7"),
        ("fd00:1::/120", "fd00:1::/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00"),
    ],
)
def test_a_network_is_written_as_samba_reads_it(network: str, expected: str) -> None:
    assert config.host_list([ipaddress.ip_network(network)]).split()[2:] == [expected]


def test_share_admits_named_users_or_the_whole_list() -> None:
    assert share()["valid users"] == "alice"
    assert share(valid_users=["bob", "@ml"])["valid users"] == "bob @ml"
    assert share()["guest ok"] == "no"


def test_new_files_get_the_mode_of_the_directory() -> None:
    section = share(group="ml", mode="2775", default_acl=True)
    assert (section["create mask"], section["directory mask"]) == ("0664", "2775")
    assert (section["force create mode"], section["force directory mode"]) == ("0660", "2770")
    assert section["force group"] == "ml"
    assert "inherit acls" not in section, "it makes every file executable"
    assert "create mask" not in share()


def test_a_share_waits_for_its_disk_and_the_next_run_knows_of_it() -> None:
    section = config.share_section(REQUEST, SHARE, "/data")
    assert section["root preexec close"] == "yes"
    text = config.text_of("data", section)
    assert config.mounts_required(text) == {"/data/sets": "/data"}
    assert config.mounts_required(config.text_of("x", share())) == {}


def test_one_time_machine_share_configures_all_shares_for_macs() -> None:
    machine = {**SHARE, "name": "tm", "time_machine": True, "max_size": "2T"}
    both = {**REQUEST, "shares": [SHARE, machine]}
    assert config.global_section(both, [])["vfs objects"] == "catia fruit streams_xattr"
    assert config.share_section(both, machine, "")["fruit:time machine max size"] == "2T"
    other = config.share_section(both, {**SHARE, "vfs_objects": ["streams_xattr", "shadow_copy2"]}, "")
    assert other["vfs objects"] == "shadow_copy2 catia fruit streams_xattr"
    assert "vfs objects" not in config.global_section(REQUEST, [])


def test_values_of_options_are_written_as_samba_has_them() -> None:
    options = {"case sensitive": True, "veto files": "/.DS_Store/", "max connections": 5, "x": ["a", "b"]}
    assert config.option_lines(options) == {
        "case sensitive": "yes",
        "veto files": "/.DS_Store/",
        "max connections": "5",
        "x": "a b",
    }


def test_notes_of_testparm_are_reported() -> None:
    assert config.unknown_parameters(TYPOS) == ["srver sting", "gost ok"]
    assert config.unknown_parameters("Loaded services file OK.\n") == []


@pytest.mark.parametrize(
    "text",
    [
        "[a]\n\tguest ok = Yes\n",
        "[global]\n\tmap to guest = Bad User\n",
        "[a]\n\twide links = Yes\n",
        "[a]\nadmin users = al\n",
    ],
)
def test_open_access_is_found_in_every_spelling(text: str) -> None:
    assert len(config.open_settings(config.read_sections(text), is_root)) == 1
    assert config.open_settings(config.read_sections("[a]\n\tguest ok = No\n\tpath = /x\n"), is_root) == []


@pytest.mark.parametrize("name", ["Guest OK", "guestok", "PUBLIC", "guest  ok"])
def test_an_own_parameter_is_known_by_all_its_spellings(name: str) -> None:
    assert config.canonical(name) in config.OWN["share"]
    assert config.canonical(name) in config.OWN["global"]


def test_server_parameter_in_a_share_is_reported() -> None:
    output = "Global parameter map to guest found in service section!\nLoaded services file OK.\n"
    assert config.unknown_parameters(output) == ["map to guest"]


@pytest.mark.parametrize("name", ["root", '"root"', "ROOT", "Root", "toor", "TOOR"])
def test_share_whose_user_has_number_0_is_open_access(name: str) -> None:
    assert config.open_settings({"data": {"force user": name}, "home": {"force user": "alice"}}, is_root) == [
        f"[data] force user = {name}"
    ]


def test_shares_that_another_smb_conf_does_not_have() -> None:
    packaged = "[homes]\n   browseable = no\n[printers]\n   path = /var/tmp\n"
    text = "[global]\n include=/etc/samba/more.conf\n[homes]\n browseable =   no\n[printers]\n path = /srv\n[Media]\n[old sets]\n;[off]\n"
    assert config.given_up(text, ["OldSets"], packaged) == ["Media", "printers", "include=/etc/samba/more.conf"]
    assert config.given_up(packaged, [], packaged) == config.given_up("", []) == []


def test_shares_of_users_do_not_fill_a_report() -> None:
    files = {f"s{number:03}": f"sharename={number:03}{'x' * 900_000}\n" for number in range(30)}
    found = config.given_up("", [], usershares=files)
    assert len(found) == 21 and max(map(len, found)) == 80
    assert found[0].startswith("000x") and found[0].endswith("~") and found[-1] == "10 shares more of users"
