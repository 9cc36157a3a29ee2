# SPDX-License-Identifier: GPL-3.0-or-later
"""Each rule of sshd, with a user who can log in and with one who cannot."""

from __future__ import annotations

import os
import stat
from types import SimpleNamespace

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.access import (
    Account,
    HostReader,
    Login,
    access,
    connection,
    grants_root,
    has_password,
    key_files,
    key_problem,
    listen_port,
    matches_any,
    parse_shadow,
    path_problem,
    refusal,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import DEFAULTS

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBTJx7xFBWaHrCx3Zk0oM/QtF1+81jIzscE+XAiJeHKd alice@laptop"
ECDSA = (
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBKyCRs2R9O4vk1h1NQc9o+lJPp10RsAG4HDN3dRefquYbqJeBBK/"
    "hWklrmNkW2jh9cyL68i0rebfBHAPue4G9Z0="
)
RSA_1024 = (
    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQDE6RHCn/M8yULO2bUOyuEMrYDsDCD5uHqEVfQxwruItUbBkucWLnOxJVoWjZFrHittFs7W1A568wAX4qP/1A3U"
    "vViFhtrZ/NplRzobMRNPAp4vECijoepBHacYuRCuG20yQSikwR6gckzIhepZyyI3koGSVt3XaBiJ8HVsoFO2uw=="
)
HASH = "$y$j9T$salt$hash"
TODAY = 20_000  # 2024-10-04

ALICE = Account("alice", 1000, "/home/alice", "/bin/bash", HASH, None, frozenset({"alice", "remote"}))
GUEST = Account("guest", 1001, "/home/guest", "/usr/sbin/nologin", HASH, None, frozenset())
SHELL_LESS = Account("lost", 1002, "/home/lost", "/opt/missing", HASH, None, frozenset())
ROOT = Account("root", 0, "/root", "/bin/bash", "*", None, frozenset({"root"}))


class Files:
    """A file system in a dictionary: path to (mode, owner, text). Every entry has group 1000."""

    members = frozenset({"alice", "bob"})

    def __init__(self) -> None:
        folder, program, key = stat.S_IFDIR | 0o755, stat.S_IFREG | 0o755, stat.S_IFREG | 0o600
        self.entries = {
            "/": (folder, 0, ""),
            "/home": (folder, 0, ""),
            "/home/alice": (folder, 1000, ""),
            "/home/alice/.ssh": (stat.S_IFDIR | 0o700, 1000, ""),
            "/home/alice/.ssh/authorized_keys": (key, 1000, f"# mine\n\n{ED25519}\n"),
            "/bin/bash": (program, 0, ""),
            "/usr/sbin/nologin": (program, 0, ""),
        }

    def host(self) -> HostReader:
        return HostReader(self.stat, self.read, TODAY, lambda gid: self.members if gid == 1000 else set())

    def stat(self, path: str) -> os.stat_result:
        if path not in self.entries:
            raise FileNotFoundError(path)
        mode, owner, _text = self.entries[path]
        return SimpleNamespace(st_mode=mode, st_uid=owner, st_gid=1000)  # type: ignore[return-value]

    def read(self, path: str) -> str:
        self.stat(path)
        return self.entries[path][2]

    def with_mode(self, path: str, mode: int, owner: int | None = None) -> Files:
        old_mode, old_owner, text = self.entries[path]
        self.entries[path] = (stat.S_IFMT(old_mode) | mode, old_owner if owner is None else owner, text)
        return self


def config(**changed: object) -> dict[str, object]:
    return {**DEFAULTS, **changed}


def test_shadow_names_the_password_field_and_the_last_day():
    assert parse_shadow("alice:$y$x:19000:0:99999:7::20001:\nbob:!:19000:0:99999:7:::\n") == {
        "alice": ("$y$x", 20001),
        "bob": ("!", None),
    }


@pytest.mark.parametrize(
    ("field", "expected"),
    [("$y$j9T$a$b", True), ("abJnggxhB/yWI", True), ("*", False), ("!", False), ("!$y$j9T$a$b", False), ("", False)],
)
def test_a_usable_password_is_a_hash(field, expected):
    assert has_password(ALICE._replace(password=field)) is expected


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["remote"], True),
        (["re*"], True),
        (["remot?"], True),
        (["re"], False),
        (["r.*"], False),
        (["*", "!remote"], False),
        ([], False),
    ],
)
def test_patterns_are_those_of_sshd(patterns, expected):
    assert matches_any(["remote"], patterns) is expected


@pytest.mark.parametrize(
    ("account", "settings", "why"),
    [
        (GUEST, {}, "shell"),
        (SHELL_LESS, {}, "shell"),
        (ALICE._replace(expires=TODAY), {}, "expired"),
        (ALICE._replace(password="!"), {"usepam": "no"}, "locked"),
        (ALICE, {"denyusers": ["alice@10.0.0.0/8"]}, "DenyUsers"),
        (ALICE, {"denygroups": ["remote"]}, "DenyGroups"),
        (ALICE, {"allowusers": ["bob"]}, "AllowUsers"),
        (ALICE, {"allowusers": ["alice@10.0.0.7"]}, "AllowUsers"),
        (ALICE, {"allowgroups": ["admins"]}, "AllowGroups"),
    ],
)
def test_a_user_is_refused(account, settings, why):
    assert why in str(refusal(account, config(**settings), Files().host()))


@pytest.mark.parametrize(
    ("account", "settings"),
    [
        (ALICE, {}),
        (ALICE._replace(expires=TODAY + 1), {}),
        (ALICE._replace(password="!"), {"usepam": "yes"}),  # a locked password does not stop a key
        (ALICE, {"allowusers": ["al*"]}),
        (ALICE, {"allowgroups": ["admins", "remote"]}),
        (ALICE, {"denyusers": ["bob"], "denygroups": ["guests"]}),
    ],
)
def test_a_user_is_not_refused(account, settings):
    assert refusal(account, config(**settings), Files().host()) is None


def test_tokens_in_paths_of_key_files_are_replaced():
    assert key_files(ALICE, ".ssh/authorized_keys %h/keys /etc/keys/%u /etc/%U/100%% none") == [
        "/home/alice/.ssh/authorized_keys",
        "/home/alice/keys",
        "/etc/keys/alice",
        "/etc/1000/100%",
    ]


def test_a_user_with_a_key_can_log_in():
    assert access(ALICE, config(), Files().host()) == (True, True, None, ())


@pytest.mark.parametrize(
    ("path", "mode", "owner"),
    [
        ("/home/alice/.ssh/authorized_keys", 0o660, 1000),
        ("/home/alice/.ssh/authorized_keys", 0o600, 1001),
        ("/home/alice/.ssh", 0o777, 1000),
        ("/home/alice", 0o775, 1000),
        ("/home/alice", 0o755, 1001),
    ],
)
def test_keys_that_others_could_have_written_do_not_count(path, mode, owner):
    ways = access(ALICE, config(), Files().with_mode(path, mode, owner).host())
    assert not ways.key
    assert path in ways.problems[0]


@pytest.mark.parametrize(
    ("members", "mode", "accepted"),
    [
        ({"alice"}, 0o775, True),
        ({"alice"}, 0o777, False),
        ({"alice", "bob"}, 0o775, False),
        (set(), 0o775, False),
    ],
)
def test_a_group_of_the_user_alone_may_write(members, mode, accepted):
    files = Files().with_mode("/home/alice", mode)
    files.members = frozenset(members)
    assert access(ALICE, config(), files.host()).key is accepted


@pytest.mark.parametrize("error", [OSError(40, "Too many levels of symbolic links"), PermissionError(13, "denied")])
def test_an_unreadable_key_file_is_a_problem(error):
    files = Files()

    def stat_or_fail(path: str) -> os.stat_result:
        if path.endswith("authorized_keys"):
            raise error
        return files.stat(path)

    ways = access(ALICE, config(), files.host()._replace(stat=stat_or_fail))
    assert ways.key is False
    assert ways.problems == (f"/home/alice/.ssh/authorized_keys: {error.strerror}",)


def test_an_old_sshd_accepts_rsa_keys_of_1024_bits():
    older = {name: value for name, value in config().items() if name != "requiredrsasize"}
    assert key_problem(RSA_1024, older, TODAY) is None


def test_without_strict_modes_writable_key_files_count():
    assert access(ALICE, config(strictmodes="no"), Files().with_mode("/home/alice", 0o777).host()).key


def test_directories_above_the_home_do_not_matter():
    files = Files().with_mode("/home", 0o777)
    assert path_problem("/home/alice/.ssh/authorized_keys", ALICE, files.host()) is None


def test_keys_in_a_place_that_the_plan_leaves_out_do_not_count():
    assert not access(ALICE, config(authorizedkeysfile="/etc/ssh/authorized_keys.d/%u"), Files().host()).key


def test_keys_that_the_role_will_place_count():
    nobody_yet = config(authorizedkeysfile="none")
    assert access(ALICE, nobody_yet, Files().host(), [ED25519]).key
    assert not access(ALICE, nobody_yet, Files().host(), []).key


@pytest.mark.parametrize(
    ("setting", "key", "password"),
    [
        ("no", False, False),
        ("prohibit-password", True, False),
        ("without-password", True, False),
        ("forced-commands-only", False, False),
        ("yes", True, True),
    ],
)
def test_permit_root_login_decides_on_root(setting, key, password):
    root = ROOT._replace(password=HASH)
    ways = access(root, config(permitrootlogin=setting), Files().host(), [ED25519])
    assert (ways.key, ways.password) == (key, password)


def test_without_pubkey_authentication_no_key_counts():
    assert not access(ALICE, config(pubkeyauthentication="no"), Files().host(), [ED25519]).key


@pytest.mark.parametrize(
    ("patterns", "client", "counts"),
    [
        ("10.0.0.0/8,192.0.2.1", None, False),
        ("10.0.0.0/8, 192.0.2.1", "10.1.2.3", True),
        ("192.0.2.*", "192.0.2.9", True),
        ("10.0.0.0/8,!10.1.0.0/16", "10.1.2.3", False),
        ("2001:db8::/32", "10.1.2.3", False),
        ("lab.example", "10.1.2.3", False),
    ],
)
def test_a_key_limited_to_addresses_counts_for_a_matching_client(patterns, client, counts):
    key = f'from="{patterns}" {ED25519}'
    ways = access(ALICE, config(authorizedkeysfile="none"), Files().host(), [key], client)
    assert ways.key is counts
    assert bool(ways.problems) is not counts


@pytest.mark.parametrize(
    "line",
    [
        ED25519,
        ECDSA,
        f'no-agent-forwarding,from="10.0.0.0/8, 192.0.2.1" {ED25519}',
        f'environment="A=\\"b c\\"" {ED25519}',
        f'expiry-time="20241005" {ED25519}',
    ],
)
def test_a_key_is_accepted(line):
    assert key_problem(line, config(), TODAY) is None


@pytest.mark.parametrize(
    ("line", "settings", "why"),
    [
        ("", {}, "not a public key"),
        ("-----BEGIN OPENSSH " + "PRIVATE KEY-----", {}, "not a public key"),
        ("ssh-ed25519", {}, "not a public key"),
        ("AAAAC3NzaC1lZDI1NTE5AAAAIBTJx7xF", {}, "not a public key"),
        (ED25519.replace("XAiJeHKd", ""), {}, "damaged"),
        (ED25519.replace("ssh-ed25519", "ssh-rsa"), {}, "damaged"),
        (f'command="/bin/date" {ED25519}', {}, "command"),
        (f"cert-authority {ED25519}", {}, "cert-authority"),
        (f'expiry-time="20241003" {ED25519}', {}, "expiry-time"),
        (f'expiry-time="20260231" {ED25519}', {}, "not a date"),
        (ED25519, {"pubkeyacceptedalgorithms": "rsa-sha2-512"}, "accepts no key"),
        (RSA_1024, {"pubkeyacceptedalgorithms": "ssh-ed25519"}, "accepts no key"),
        (RSA_1024, {"requiredrsasize": "2048"}, "1024 bits"),
    ],
)
def test_a_key_is_refused(line, settings, why):
    assert why in str(key_problem(line, config(**settings), TODAY))


@pytest.mark.parametrize(
    ("rule", "defaults", "password", "expected"),
    [
        ("    (ALL : ALL) ALL", "", True, True),
        ("    (ALL : ALL) ALL", "", False, False),
        ("    (ALL) NOPASSWD: ALL", "", False, True),
        ("    (root) NOPASSWD: SETENV: ALL", "", False, True),
        ("    (ALL) ALL", "    env_reset, !authenticate", False, True),
        ("    (ALL) PASSWD: ALL", "    env_reset, !authenticate", False, False),
        ("    (ALL) ALL", "    env_reset, rootpw", True, False),
        ("    (ALL) ALL", "    !rootpw, passwd_tries=5", True, True),
        ("    (root) /usr/bin/apt", "", True, False),
        ("    (bob) ALL", "", True, False),
        ("User alice is not allowed to run sudo on ws.", "", True, False),
    ],
)
def test_sudo_grants_root_to_users_with_all_commands(rule, defaults, password, expected):
    listing = f"Matching Defaults entries for alice on ws:\n{defaults}\n\nUser alice may run the following commands on ws:\n{rule}\n"
    assert grants_root(listing, password=password) is expected


@pytest.mark.parametrize("value", ["0.0.0.0:22 (Stream)", "[::]:22 (Stream)", "22 (Stream)"])
def test_a_socket_of_systemd_has_a_port(value):
    assert listen_port(value) == 22


def test_a_socket_in_the_file_system_has_no_port():
    assert listen_port("/run/ssh.socket (Stream)") is None


def test_the_farthest_ancestor_with_ssh_is_the_login():
    ssh = {"SSH_CONNECTION": "10.0.0.7 50000 10.0.0.5 2222"}
    # python under sudo, sudo itself, the shell of the login, sshd
    assert connection([(0, {}), (0, ssh), (1000, ssh), (0, {})]) == Login(1000, "10.0.0.7", "10.0.0.5", 2222)


def test_a_run_without_ssh_has_no_connection():
    assert connection([(0, {}), (0, {"SSH_CONNECTION": ""})]) is None
