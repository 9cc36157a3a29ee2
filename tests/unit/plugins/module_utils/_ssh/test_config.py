# SPDX-License-Identifier: GPL-3.0-or-later
"""sshd's configuration files, and the lines that override what the role asks for."""

from __future__ import annotations

import fnmatch

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import (
    DROP_IN,
    INCLUDE,
    INCLUDE_NOTE,
    MAIN_CONFIG,
    Line,
    connections,
    criteria,
    endpoints,
    ensure_include,
    expected,
    local_address,
    overrides,
    parse_config,
    read_lines,
    reroot,
    sample,
    specification,
    split_setting,
)

BY_HAND = "/etc/ssh/sshd_config.d/50-by-hand.conf"
ALICE = {"user": "alice", "host": "h", "address": "203.0.113.1", "localaddress": "127.0.0.1", "localport": "22"}


def lines_of(files: dict[str, str]) -> list[Line]:
    return list(read_lines(MAIN_CONFIG, files.__getitem__, lambda pattern: fnmatch.filter(files, pattern)))


def test_repeated_keywords_in_the_output_of_sshd_are_lists():
    text = "port 22\nport 2222\npermitrootlogin no\nauthorizedkeysfile .ssh/a .ssh/b\nallowgroups remote\n"
    parsed = parse_config(text)
    assert parsed["port"] == ["22", "2222"]
    assert parsed["permitrootlogin"] == "no"
    assert parsed["authorizedkeysfile"] == ".ssh/a .ssh/b"
    assert parsed["allowgroups"] == ["remote"]
    assert parsed["denyusers"] == []


def test_a_main_file_that_begins_with_the_include_stays_as_it_is():
    text = f"# Debian's own\n\n{INCLUDE}\n\nUsePAM yes\n"
    assert ensure_include(text) == text


@pytest.mark.parametrize(
    "pattern", ["sshd_config.d/*.conf", '"/etc/ssh/sshd_config.d/*.conf"', "/etc/ssh/sshd_config.d/*"]
)
def test_other_spellings_of_the_include(pattern):
    text = f"Include own.conf\nUsePAM yes\nInclude {pattern}\n"
    assert ensure_include(text).endswith(f"\nInclude {DROP_IN}\n\n{text}")
    assert ensure_include(ensure_include(text)) == ensure_include(text)
    assert ensure_include(f"Include {pattern}\n{text}") == f"Include {pattern}\n{text}"
    # As earlier versions of the role left it.
    assert ensure_include(f"{INCLUDE_NOTE}\n{INCLUDE}\n\n{text}") == ensure_include(text)


@pytest.mark.parametrize(
    "text", ["UsePAM yes\n", f"#{INCLUDE}\nPort 22\n", f"#{INCLUDE}\n", "Include /etc/ssh/own\n", "Include /etc/*\n"]
)
def test_the_include_is_put_before_a_keyword_that_would_win(text):
    wanted = ensure_include(text)
    assert wanted.endswith(f"\n{INCLUDE}\n\n{text}")
    assert ensure_include(wanted) == wanted


# --- The files ---


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("  X11Forwarding  yes  ", ("x11forwarding", "yes")),
        ("Port=2222", ("port", "2222")),
        ("Port 2222 # for the lab", ("port", "2222")),
        ("ChallengeResponseAuthentication yes", ("kbdinteractiveauthentication", "yes")),
        ("Match User alice,bob", ("match", "User alice,bob")),
        ("# Port 22", ("", "")),
        ("", ("", "")),
    ],
)
def test_a_line_is_a_keyword_and_its_value(text, setting):
    assert split_setting(text) == setting


def test_a_match_block_ends_with_its_file():
    files = {
        MAIN_CONFIG: f"{INCLUDE}\nInclude own.conf\nPort 22\n",
        BY_HAND: "Match User alice\n  PasswordAuthentication yes\nMatch all\nX11Forwarding yes\n",
        "/etc/ssh/own.conf": "UseDNS yes\n",
    }
    found = [(line.path, line.number, line.keyword, line.match) for line in lines_of(files)]
    assert found == [
        (MAIN_CONFIG, 1, "include", ""),
        (BY_HAND, 1, "match", "User alice"),
        (BY_HAND, 2, "passwordauthentication", "User alice"),
        (BY_HAND, 3, "match", "all"),
        (BY_HAND, 4, "x11forwarding", "all"),
        (MAIN_CONFIG, 2, "include", ""),
        ("/etc/ssh/own.conf", 1, "usedns", ""),
        (MAIN_CONFIG, 3, "port", ""),
    ]


def test_an_included_file_is_within_the_match_that_includes_it():
    files = {MAIN_CONFIG: "Match User alice\nInclude own.conf\n", "/etc/ssh/own.conf": "UseDNS yes\n"}
    assert lines_of(files)[-1].match == "User alice"


def test_a_file_that_includes_itself_is_left_to_sshd_to_refuse():
    assert 10 < len(lines_of({MAIN_CONFIG: "Include sshd_config\n"})) < 100


def test_a_copy_includes_the_copies():
    text = '# Mine\nInclude "/opt/a/*.conf" own.conf\nPort 22\n'
    assert reroot(text, "/tmp/x") == "# Mine\nInclude /tmp/x/opt/a/*.conf /tmp/x/etc/ssh/own.conf\nPort 22\n"


# --- The connections ---


def match(*values: str) -> list[Line]:
    return [Line(BY_HAND, number, "match", value, value) for number, value in enumerate(values, 1)]


def test_the_criteria_of_all_match_lines_are_gathered():
    found = criteria(match("User alice,bob Address 10.0.0.0/8", "all", "User=carol", "final Host *.lan"))
    assert found == {"user": ["alice", "bob", "carol"], "address": ["10.0.0.0/8"], "host": ["*.lan"]}


@pytest.mark.parametrize(
    ("name", "pattern", "fits"),
    [
        ("address", "10.0.0.0/8", "10.0.0.1"),
        ("address", "192.0.2.7/32", "192.0.2.7"),
        ("address", "2001:db8::/32", "2001:db8::1"),
        ("address", "192.168.*.*", "192.168.1.1"),
        ("address", "!10.0.0.0/8", ""),
        ("address", "10.0.0.0/99", ""),
        ("user", "svc-?", "svc-1"),
    ],
)
def test_a_sample_matches_its_pattern(name, pattern, fits):
    assert sample(name, pattern) == fits


def test_without_match_everybody_gets_the_same():
    assert connections([Line(MAIN_CONFIG, 1, "port", "22")], {"alice": []}) == [None]


def test_with_match_every_named_user_and_address_is_tried():
    found = connections(match("User deploy Address 10.0.0.0/8"), {"alice": [], "bob": []})
    tried = {(connection["user"], connection["address"]) for connection in found if connection}
    assert tried == {
        (user, address) for user in ("alice", "deploy") for address in ("203.0.113.1", "127.0.0.1", "10.0.0.1")
    }
    assert found[0] is None


@pytest.mark.parametrize(
    ("criterion", "tried"),
    [
        ("Address 10.0.0.0/8", {"alice"}),
        ("User bob", {"alice", "bob"}),
        ("User !bob,*", {"alice", "bob", "1"}),
        ("Group staff", {"alice", "bob"}),
        ("Group staff User c*", {"alice", "bob", "carol", "c1"}),
    ],
)
def test_one_user_of_each_kind_is_tried(criterion, tried):
    users = {"alice": {"alice"}, "bob": {"bob", "staff"}, "carol": {"carol", "staff"}, "dave": {"dave"}}
    found = connections(match(criterion), users)
    assert {connection["user"] for connection in found if connection} == tried


def test_a_specification_has_every_criterion():
    assert specification(ALICE) == "user=alice,host=h,addr=203.0.113.1,laddr=127.0.0.1,lport=22"
    # sshd fails without a port where there is a Match LocalPort.
    assert specification(None) == "lport=1"


@pytest.mark.parametrize(
    ("endpoints_of_sshd", "address"),
    [
        ([], "127.0.0.1"),
        (["[::]:22", "0.0.0.0:22"], "127.0.0.1"),
        (["[::]:22", "[::]:2222"], "::1"),
        (["[2001:db8::7]:22", "192.0.2.7:22"], "192.0.2.7"),
        (["[2001:db8::7]:22"], "2001:db8::7"),
    ],
)
def test_the_local_address_is_one_that_sshd_listens_on(endpoints_of_sshd, address):
    assert local_address({"listenaddress": endpoints_of_sshd}) == address


# --- Overrides ---


def test_wanted_values_are_spelt_as_sshd_does():
    assert expected(["PermitRootLogin prohibit-password", "Port 22", "Port 2222", "LogLevel VERBOSE"]) == {
        "permitrootlogin": {"without-password"},
        "port": {"22", "2222"},
        "loglevel": {"verbose"},
    }
    assert endpoints(["0.0.0.0", "2001:DB8::7"], [22]) == {"0.0.0.0:22", "[2001:db8::7]:22"}  # noqa: S104


def test_the_wanted_values_are_not_an_override():
    wanted = expected(["PermitRootLogin no", "AllowGroups a", "AllowGroups b", "LogLevel VERBOSE"])
    config = parse_config("permitrootlogin no\nallowgroups b\nallowgroups a\nloglevel VERBOSE\n")
    assert overrides(wanted, [(None, config), (ALICE, config)], []) == []


def test_an_override_names_the_line_that_wins():
    files = {MAIN_CONFIG: f"{INCLUDE}\nX11Forwarding yes\n", BY_HAND: "Port 22\nX11Forwarding yes\n"}
    (found,) = overrides(expected(["X11Forwarding no"]), [(None, parse_config("x11forwarding yes\n"))], lines_of(files))
    assert str(found) == f"x11forwarding is yes and not no ({BY_HAND}:2)"


@pytest.mark.parametrize(
    ("setting", "by_hand", "effective"),
    [
        ("AllowGroups remote", "AllowGroups remote staff", "allowgroups remote\nallowgroups staff\n"),
        ("AllowGroups remote", "AllowGroups staff", "allowgroups remote\nallowgroups staff\n"),
        ("ListenAddress 192.0.2.7:22", "Port 2222", "listenaddress 192.0.2.7:22\nlistenaddress 192.0.2.7:2222\n"),
        ("ListenAddress 192.0.2.7:22", "ListenAddress ::1", "listenaddress 192.0.2.7:22\nlistenaddress [::1]:22\n"),
    ],
)
def test_an_additional_value_is_an_override(setting, by_hand, effective):
    (found,) = overrides(
        expected([setting]), [(None, parse_config(effective))], lines_of({MAIN_CONFIG: f"UsePAM yes\n{by_hand}\n"})
    )
    assert str(found).endswith(f"({MAIN_CONFIG}:2)")


def test_a_looser_match_block_is_an_override_with_its_user():
    lines = lines_of({MAIN_CONFIG: "Match User alice\nPasswordAuthentication yes\n"})
    usual, loose = parse_config("passwordauthentication no\n"), parse_config("passwordauthentication yes\n")
    (found,) = overrides(expected(["PasswordAuthentication no"]), [(None, usual), (ALICE, loose)], lines)
    assert str(found) == (
        "passwordauthentication is yes for alice from 203.0.113.1 and not no"
        f" ({MAIN_CONFIG}:2 below `Match User alice`)"
    )


@pytest.mark.parametrize(
    ("wanted", "in_match"),
    [
        ("AllowTcpForwarding local", "allowtcpforwarding no"),
        ("PasswordAuthentication yes", "passwordauthentication no"),
        ("PermitRootLogin prohibit-password", "permitrootlogin no"),
        ("LogLevel VERBOSE", "loglevel INFO"),
        ("MaxAuthTries 4", "maxauthtries 9"),
    ],
)
def test_only_a_match_block_is_allowed_to_be_stricter(wanted, in_match):
    usual = parse_config(wanted.lower().replace("prohibit", "without"))
    assert overrides(expected([wanted]), [(None, usual), (ALICE, parse_config(in_match))], []) == []
    assert len(overrides(expected([wanted]), [(None, parse_config(in_match))], [])) == 1


@pytest.mark.parametrize(
    ("wanted", "in_match"),
    [
        ("AllowTcpForwarding local", "allowtcpforwarding yes"),
        ("PermitRootLogin no", "permitrootlogin without-password"),
        ("PubkeyAuthentication yes", "pubkeyauthentication no"),
        ("AuthorizedKeysFile .ssh/authorized_keys", "authorizedkeysfile /tmp/keys"),
    ],
)
def test_a_match_block_must_not_open_or_lock_access(wanted, in_match):
    usual = parse_config(wanted.lower())
    assert len(overrides(expected([wanted]), [(None, usual), (ALICE, parse_config(in_match))], [])) == 1
