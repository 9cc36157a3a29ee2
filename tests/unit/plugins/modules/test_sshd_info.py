# SPDX-License-Identifier: GPL-3.0-or-later
"""sshd_info on a host that is made up: its accounts and its sshd are given, the rest really runs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._sshd import DEFAULTS, Account
from ansible_collections.rigwright.workstation.plugins.modules import sshd_info

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBTJx7xFBWaHrCx3Zk0oM/QtF1+81jIzscE+XAiJeHKd"
HASH = "$y$j9T$salt$hash"
EFFECTIVE = "port 22\npermitrootlogin no\npasswordauthentication yes\nkbdinteractiveauthentication no\n" + "".join(
    f"{keyword} {value}\n"
    for keyword, value in DEFAULTS.items()
    if keyword not in ("permitrootlogin", "passwordauthentication", "kbdinteractiveauthentication")
)
UNITS = "Id=ssh.service\nActiveState=active\nMainPID=0\n\nId=ssh.socket\nActiveState=inactive\nAccept=no\nListen=[::]:22 (Stream)\n"
COMMANDS = {
    "/usr/sbin/sshd -T -C user=root,host=127.0.0.1,addr=127.0.0.1": (0, EFFECTIVE, ""),
    "/usr/sbin/sshd -V": (1, "", "unknown option -- V\nOpenSSH_9.2p1 Debian-2+deb12u10, OpenSSL 3.0.19\n"),
    "systemctl show --property Id,ActiveState,MainPID,Accept,Listen ssh.service ssh.socket": (0, UNITS, ""),
    "sudo -n -l -U alice": (0, "User alice may run the following commands on ws:\n    (ALL : ALL) ALL\n", ""),
    "sudo -n -l -U bob": (0, "User bob is not allowed to run sudo on ws.\n", ""),
}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with an administrator alice, who has a key and a password, and a user bob, who has a password."""
    (tmp_path / "alice" / ".ssh").mkdir(parents=True, mode=0o700)
    (tmp_path / "alice" / ".ssh" / "authorized_keys").write_text(KEY)
    (tmp_path / "alice" / ".ssh" / "authorized_keys").chmod(0o600)
    (tmp_path / "alice").chmod(0o755)
    uid = tmp_path.stat().st_uid
    groups = {"alice": frozenset({"alice"}), "bob": frozenset({"bob"})}

    def accounts(names: object, members: dict[str, list[str]]) -> list[Account]:
        joined = {
            name: own | {group for group, users in members.items() if name in users} for name, own in groups.items()
        }
        return [
            Account(name, uid or 1000, str(tmp_path / name), "/bin/sh", HASH, None, own) for name, own in joined.items()
        ]

    main = tmp_path / "sshd_config"
    main.write_text("UsePAM yes\n")
    monkeypatch.setattr("os.path.exists", lambda path: path in ("/usr/sbin/sshd", str(main)))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("os.makedirs", lambda *_args, **_options: None)
    monkeypatch.setattr(sshd_info, "MAIN_CONFIG", str(main))
    monkeypatch.setattr(sshd_info, "accounts", accounts)
    monkeypatch.setattr(sshd_info, "own_connection", lambda: None)
    return tmp_path


def test_it_tells_who_can_log_in_and_who_can_become_root(host, run_module):
    result = run_module(sshd_info, commands=COMMANDS)
    assert result["version"] == "9.2"
    assert result["now"] == {"key_users": ["alice"], "password_users": ["alice", "bob"]}
    assert result["admins"] == ["alice"]
    assert result["changed"] is False


def test_a_plan_that_leaves_only_a_group_in_counts_its_future_members(host, run_module):
    plan = {"config": {"AllowGroups": ["remote"]}, "members": {"remote": ["bob"]}}
    result = run_module(sshd_info, commands=COMMANDS, plan=plan)
    assert result["planned"] == {"key_users": [], "password_users": ["bob"]}
    assert result["now"]["key_users"] == ["alice"]


def test_keys_of_the_plan_let_their_user_in(host, run_module):
    result = run_module(sshd_info, commands=COMMANDS, plan={"keys": {"bob": [KEY]}})
    assert result["planned"]["key_users"] == ["alice", "bob"]
    assert result["invalid_keys"] == []


def test_a_damaged_key_is_named_by_its_place_and_never_shown(host, run_module):
    result = run_module(sshd_info, commands=COMMANDS, plan={"keys": {"bob": [KEY, f"{KEY[:-4]}\n"]}})
    assert result["invalid_keys"] == ["bob, key 2: damaged: its data is not that of a public key"]
    assert KEY[20:40] not in str({**result, "invocation": None})


def test_a_user_who_does_not_exist_is_named(host, run_module):
    assert run_module(sshd_info, commands=COMMANDS, plan={"keys": {"carol": [KEY]}})["unknown_users"] == ["carol"]


def test_nobody_has_a_password_way_in_when_sshd_asks_for_none(host, run_module):
    (command, *_rest) = COMMANDS
    without = {
        **COMMANDS,
        command: (0, EFFECTIVE.replace("passwordauthentication yes", "passwordauthentication no"), ""),
    }
    assert run_module(sshd_info, commands=without)["now"]["password_users"] == []


def test_the_main_file_is_returned_with_the_include(host, run_module):
    main = run_module(sshd_info, commands=COMMANDS)["main_config"]
    assert main["added"] is True
    assert main["text"].endswith("UsePAM yes\n")


def test_a_configuration_that_sshd_refuses_is_quoted(host, run_module):
    (command, *_rest) = COMMANDS
    broken = {**COMMANDS, command: (255, "", "/etc/ssh/sshd_config: line 3: Bad configuration option: Prot\n")}
    assert "Bad configuration option" in run_module(sshd_info, commands=broken)["config_error"]


def test_it_refuses_to_run_as_another_user(monkeypatch, run_module):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    result = run_module(sshd_info)
    assert result["failed"] is True
    assert "become: true" in result["msg"]


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.mark.parametrize(
    ("said", "heard"),
    [(b"SSH-2.0-OpenSSH_9.2p1\r\n", "SSH-2.0-OpenSSH_9.2p1"), (b"HTTP/1.1 400 Bad Request\r\n", ""), (b"", "")],
)
def test_only_an_ssh_server_has_a_banner(server, said, heard):
    def answer() -> None:
        peer, _address = server.accept()
        with peer:
            peer.sendall(said)

    threading.Thread(target=answer, daemon=True).start()
    assert sshd_info.banner("127.0.0.1", server.getsockname()[1]) == heard


def test_a_closed_port_has_no_banner(monkeypatch, server):
    monkeypatch.setattr(sshd_info, "BANNER_SECONDS", 0)
    port = server.getsockname()[1]
    server.close()
    assert sshd_info.banner("127.0.0.1", port) == ""
