# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of the role ssh on a fake host: accounts and sshd are fake, everything else is real."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import ssh as ssh_role
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh import (
    checks,
    facts,
    findings,
    match,
    run,
    trial,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh import plan as decisions
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.access import Access, Account
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import DEFAULTS

from tests.unit.support import ssh as support
from tests.unit.support.plan import run_plan

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBTJx7xFBWaHrCx3Zk0oM/QtF1+81jIzscE+XAiJeHKd"
HASH = "$y$j9T$salt$hash"
UNITS = (
    "Id=ssh.service\nNames=ssh.service\nActiveState=active\nMainPID=0\n\n"
    "Id=ssh.socket\nNames=ssh.socket\nActiveState=inactive\nAccept=no\nListen=[::]:22 (Stream)\n"
)
FAIL2BAN = "Id=fail2ban.service\nNames=fail2ban.service\nActiveState=inactive\nUnitFileState=\n"
MAY_BECOME_ROOT = {
    "alice": "User alice may run the following commands on ws:\n    (ALL : ALL) ALL\n",
    "bob": "User bob is not allowed to run sudo on ws.\n",
}


def settings_of(path: Path, user: str) -> Iterator[tuple[bool, str, str]]:
    """Yield whether a Match block sets it, keyword and value of all settings for a user."""
    matches = None
    for line in path.read_text().splitlines():
        keyword, _space, value = line.strip().partition(" ")
        if keyword == "PermitRotLogin":
            raise ValueError(f"{path}: line 1: Bad configuration option: {keyword}")
        if keyword == "Include":
            for file in sorted(Path(value).parent.glob(Path(value).name)):
                yield from settings_of(file, user)
        elif keyword == "Match":
            matches = value == f"User {user}"
        elif keyword and matches is not False:
            yield matches is True, keyword.lower(), value


def run_command(args: list[str], **_options: Any) -> tuple[int, str, str]:
    """Run a fake sudo, systemctl, or sshd that knows Include, Match User, first values and accumulated ones."""
    if args[0] == "systemctl":
        return 0, FAIL2BAN if "fail2ban.service" in args else UNITS, ""
    if args[0] == "dpkg-query":
        return 1, "ii openssh-server\niF fail2ban\n", ""
    if args[0] == "sudo":
        return 0, MAY_BECOME_ROOT[args[-1]], ""
    user = args[args.index("-C") + 1].split(",")[0].partition("=")[2] if "-C" in args else ""
    try:
        settings = list(settings_of(Path(args[args.index("-f") + 1]), user))
    except ValueError as error:
        return 255, "", f"{error}\n"
    found: dict[str, list[str]] = {}
    for _matched, keyword, value in sorted(settings, key=lambda setting: not setting[0]):
        found.setdefault(keyword, []).append(value)
    effective = {**DEFAULTS, **{name: values[0] for name, values in found.items()}}
    effective.pop("port", None)
    lines = [f"{name} {value}" for name, value in effective.items() if name != "allowgroups"]
    lines += [f"allowgroups {group}" for group in found.get("allowgroups", [])]
    ports = found.get("port", ["22"])
    lines += [f"listenaddress {host}:{port}" for host in ("0.0.0.0", "[::]") for port in ports]  # noqa: S104
    return 0, "\n".join(lines), ""


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    """Return the host's /etc/ssh."""
    (tmp_path / "etc/sshd_config.d").mkdir(parents=True)
    (tmp_path / "etc/sshd_config").write_text(f"Include {tmp_path}/etc/sshd_config.d/*.conf\nUsePAM yes\n")
    return tmp_path / "etc"


@pytest.fixture
def plan(tmp_path: Path, etc: Path, monkeypatch: pytest.MonkeyPatch, run_module: Callable) -> Callable[..., dict]:
    """Plan for a host with an administrator alice, who has a key and a password, and a user bob, who has a password."""
    (tmp_path / "alice" / ".ssh").mkdir(parents=True, mode=0o700)
    (tmp_path / "alice" / ".ssh" / "authorized_keys").write_text(KEY)
    (tmp_path / "alice" / ".ssh" / "authorized_keys").chmod(0o600)
    (tmp_path / "alice").chmod(0o755)
    uid = tmp_path.stat().st_uid

    def accounts(_names: object, members: dict[str, list[str]]) -> list[Account]:
        return [
            Account(
                name,
                uid or 1000,
                str(tmp_path / name),
                "/bin/sh",
                HASH,
                None,
                frozenset({name, *(group for group, users in members.items() if name in users)}),
            )
            for name in ("alice", "bob")
        ]

    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(AnsibleModule, "run_command", staticmethod(run_command))
    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda self, name, *_rest, **_options: name)
    monkeypatch.setattr(trial, "SSHD", str(etc / "sshd_config"))
    monkeypatch.setattr(trial, "RUN", str(tmp_path / "run"))
    monkeypatch.setattr(facts, "PATIENCE", 0)
    monkeypatch.setattr(facts, "accounts", accounts)
    monkeypatch.setattr(facts, "own_connection", lambda: None)
    monkeypatch.setattr(run, "read_listeners", list)
    monkeypatch.setattr(run, "ensure_include", lambda text: text)
    for module in (run, trial):
        monkeypatch.setattr(module, "MAIN_CONFIG", str(etc / "sshd_config"))
    for module in (decisions, checks, findings, trial):
        monkeypatch.setattr(module, "DROP_IN", str(etc / "sshd_config.d/00-rigwright.conf"))
    monkeypatch.setattr(decisions, "KEYS_FILE", ".ssh/authorized_keys")
    monkeypatch.setattr(run, "sets_in_place", list)

    def result(proof: str = "none", **options: Any) -> dict[str, Any]:
        context = {"proof": proof, "packages": ["openssh-server", "fail2ban", "nftables"]}
        return run_plan(run_module, ssh_role, context, **options)

    return result


def refused(result: dict) -> dict[str, str]:
    return {problem["variable"]: problem["problem"] for problem in result["requirements"]}


@pytest.mark.parametrize(
    ("user", "accepted", "before", "then", "expected"),
    [
        ("owner", True, Access(), Access(), {"owner": Access(password=True)}),
        ("owner", False, Access(), Access(), {"owner": Access(key=True)}),
        # What is seen now explains the connection, so that it may be lost with it.
        ("owner", True, Access(key=True), Access(), {}),
        ("owner", True, Access(), Access(refusal="AllowGroups names no group of the user"), {}),
        ("root", True, Access(), Access(), {}),
        ("owner", True, None, Access(), {}),
    ],
)
def test_a_connection_that_nothing_here_explains_goes_on(user, accepted, before, then, expected) -> None:
    connected = support.facts(connection=support.BY_SSH._replace(user=user), passwords_accepted=accepted)
    assert run.Planner._unseen(connected, before, {user: then}) == expected


def test_a_configured_host_has_no_problems(plan):
    result = plan()
    assert result["requirements"] == []
    assert result["passwords_refused"] is True
    assert result["fail2ban_due"] is True
    assert "PasswordAuthentication no" in result["settings"]
    assert result["changed"] is False


def test_packages_that_are_missing_or_half_configured_are_due(plan):
    assert plan()["install"] == ["fail2ban", "nftables"]
    assert plan(state="absent")["install"] == []


def test_without_its_jail_fail2ban_is_not_due(plan):
    assert plan(fail2ban=False)["fail2ban_due"] is False


def test_groups_are_due_until_they_have_their_members(plan, monkeypatch):
    groups = {"remote": ["alice"]}
    monkeypatch.setattr(facts, "group_of_host", groups.get)
    monkeypatch.setattr(facts, "members_of", lambda name: groups.get(name, []))
    assert plan()["groups_due"] is False
    for members, due in ([], False), (["alice"], False), (["alice", "bob"], True):
        assert plan(allow_groups=[{"name": "remote", "members": members}])["groups_due"] is due
    assert plan(allow_groups=[{"name": "other"}])["groups_due"] is True


def test_removal_restarts_only_a_sshd_of_the_role(plan, monkeypatch):
    assert plan(state="absent", ports=[0])["requirements"] == []
    assert plan(state="absent")["units"] == []
    monkeypatch.setattr(run, "sets_in_place", lambda: ["ssh"])
    assert [unit["name"] for unit in plan(state="absent")["units"]] == ["ssh.service"]


def test_an_administrator_needs_the_password_that_sudo_asks_for(plan, monkeypatch):
    for module in (facts, run):
        monkeypatch.setattr(module, "has_password", lambda _account: False)
    assert "nobody who can become root" in refused(plan(passwords="refused"))["ssh_passwords"]


def test_a_line_of_another_drop_in_without_effect_is_found(plan, etc):
    (etc / "sshd_config.d/10-mine.conf").write_text("# mine\nX11Forwarding yes\n")
    (found,) = [finding for finding in plan()["findings"] if finding["id"] == "ssh.overridden"]
    assert found["status"] == "warn"
    assert f"x11forwarding yes ({etc}/sshd_config.d/10-mine.conf:2)" in found["evidence"]


def test_a_group_without_keys_as_the_only_one_is_refused(plan):
    result = plan(allow_groups=[{"name": "remote", "members": ["bob"]}], passwords="refused")
    assert "nobody who can become root would have a key" in refused(result)["ssh_passwords"]
    assert "would leave nobody" in refused(result)["ssh_allow_groups"]


def test_keys_of_the_request_let_their_user_in(plan):
    result = plan(authorized_keys=[{"user": "bob", "keys": [KEY]}])
    assert result["requirements"] == []
    assert result["files"] == [{"path": "/etc/ssh/authorized_keys.d/bob", "content": f"{KEY}\n"}]


def test_the_planned_configuration_decides_on_keys(plan, etc, tmp_path):
    # An earlier run had this option, and the present one has not.
    (etc / "sshd_config.d/00-rigwright.conf").write_text("StrictModes no\n")
    (tmp_path / "alice").chmod(0o777)
    problems = refused(plan(passwords="refused"))["ssh_passwords"]
    assert f"alice: {tmp_path}/alice/.ssh/authorized_keys: {tmp_path}/alice is writable by others" in problems
    assert refused(plan(passwords="refused", extra_options={"StrictModes": False})) == {}


TWO_FACTORS = "AuthenticationMethods publickey,keyboard-interactive"


@pytest.mark.parametrize("lines", [TWO_FACTORS, f"Match all\n{TWO_FACTORS}"])
def test_where_a_key_is_not_enough_passwords_stay_as_they_are(plan, etc, lines):
    (etc / "sshd_config").write_text((etc / "sshd_config").read_text() + f"{lines}\n")
    result = plan()
    assert result["requirements"] == []
    assert not result["passwords_refused"]
    (found,) = [finding for finding in result["findings"] if finding["id"] == "ssh.passwords"]
    assert found["status"] == "pass"
    assert "asks for publickey,keyboard-interactive" in found["evidence"]
    assert TWO_FACTORS.partition(" ")[2] in refused(plan(passwords="refused"))["ssh_passwords"]
    assert "ssh_passwords" in refused(plan(passwords="allowed"))


def test_what_one_user_needs_keeps_passwords_with_a_warning(plan, etc):
    (etc / "sshd_config").write_text((etc / "sshd_config").read_text() + f"Match User bob\n{TWO_FACTORS}\n")
    result = plan()
    assert result["requirements"] == []
    assert not result["passwords_refused"]
    (found,) = [finding for finding in result["findings"] if finding["id"] == "ssh.passwords"]
    # All others can still log in with a password alone.
    assert found["status"] == "warn"
    assert "below `Match User bob`" in found["evidence"]


@pytest.mark.parametrize(
    ("own", "variables"), [("", []), ("PasswordAuthentication yes\n", ["ssh_passwords"])], ids=["stricter", "looser"]
)
def test_a_block_for_one_user_leaves_passwords_refused(plan, etc, own, variables):
    first = plan()
    assert first["passwords_refused"]
    (etc / "sshd_config.d/00-rigwright.conf").write_text("\n".join(first["settings"]) + "\n")
    (etc / "sshd_config.d/50-bob.conf").write_text(f"Match User bob\nAuthenticationMethods publickey,password\n{own}")
    second = plan()
    assert "PasswordAuthentication no" in second["settings"]
    # What the host has already is no reason to refuse; what a block opens is.
    assert list(refused(second)) == variables
    (found,) = [finding for finding in second["findings"] if finding["id"] == "ssh.passwords"]
    assert found["status"] == "warn" and "passwords are refused" in found["evidence"]


def test_a_key_and_a_code_by_an_extra_option(plan):
    options = {"AuthenticationMethods": "publickey,keyboard-interactive publickey,password"}
    assert not plan(extra_options=options)["passwords_refused"]
    assert refused(plan(extra_options=options, passwords="allowed")) == {}
    assert plan(extra_options={"AuthenticationMethods": "any"})["passwords_refused"]


@pytest.fixture
def demanding(plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sshd refuse AuthenticationMethods that it cannot meet, as the real one does."""

    def run(args: list[str], **options: Any) -> tuple[int, str, str]:
        rc, out, err = run_command(args, **options)
        config = dict(line.split(" ", 1) for line in out.splitlines()) if "-T" in args and not rc else {}
        lists = config.get("authenticationmethods", "any").split()
        off = {name for name in ("password", "kbdinteractive") if config.get(f"{name}authentication") == "no"}
        off |= {"keyboard-interactive"} if "kbdinteractive" in off else set()
        if all({*each.split(",")} & off for each in lists):
            return 255, "", "AuthenticationMethods cannot be satisfied by enabled authentication methods\r\n"
        return rc, out, err

    monkeypatch.setattr(AnsibleModule, "run_command", staticmethod(run))


def test_methods_that_the_host_refuses_are_refused(plan, demanding):
    options = {"AuthenticationMethods": "publickey,keyboard-interactive"}
    (problem,) = refused(plan(extra_options=options)).values()
    assert problem.startswith("would be refused by sshd: AuthenticationMethods cannot be satisfied")
    # The problem of the role names the option that is the cause.
    assert list(refused(plan(extra_options=options, passwords="refused"))) == ["ssh_passwords"]


def test_a_second_way_for_everybody_where_passwords_were_refused(plan, etc, demanding):
    first = plan()
    assert first["passwords_refused"]
    (etc / "sshd_config.d/00-rigwright.conf").write_text("\n".join(first["settings"]) + "\n")
    second = plan(extra_options={"AuthenticationMethods": "publickey,password"})
    assert second["requirements"] == []
    assert not second["passwords_refused"]


def test_another_main_file_on_the_command_line_is_refused(plan, monkeypatch):
    monkeypatch.setattr(run.command_line, "config_files", lambda tree: ["/etc/ssh/sshd_config", "/etc/ssh/own"])
    assert list(refused(plan()).values()) == ["is not what sshd reads: it is started with -f /etc/ssh/own"]


def test_options_are_compared_as_sshd_spells_them(plan, etc):
    (etc / "sshd_config").write_text((etc / "sshd_config").read_text() + "PubkeyAcceptedAlgorithms rsa-sha2-512\n")
    assert "sshd accepts no key" in refused(plan(passwords="refused"))["ssh_passwords"]
    assert refused(plan(passwords="refused", extra_options={"PubkeyAcceptedAlgorithms": "ssh-ed25519"})) == {}


@pytest.fixture
def sshd_calls(monkeypatch: pytest.MonkeyPatch, plan: Callable) -> list[list[str]]:
    """Record the calls of sshd."""
    calls: list[list[str]] = []

    def run(args: list[str], **options: Any) -> tuple[int, str, str]:
        calls.extend([args] if "-T" in args else [])
        return run_command(args, **options)

    monkeypatch.setattr(AnsibleModule, "run_command", staticmethod(run))
    return calls


def test_sshd_runs_twice_on_a_configured_host(plan, etc, sshd_calls):
    (etc / "sshd_config.d/00-rigwright.conf").write_text("".join(f"{line}\n" for line in plan()["settings"]))
    sshd_calls.clear()
    plan()
    assert len(sshd_calls) == 2


def test_a_damaged_key_is_named_by_its_position(plan):
    problems = refused(plan(authorized_keys=[{"user": "bob", "keys": [KEY, f"{KEY[:-4]}\n"]}]))
    assert "bob, key 2: damaged: its data is not that of a public key" in problems["ssh_authorized_keys"]
    assert KEY[20:40] not in problems["ssh_authorized_keys"]


def test_a_user_who_does_not_exist_is_found(plan):
    findings = {
        finding["id"]: finding for finding in plan(authorized_keys=[{"user": "carol", "keys": [KEY]}])["findings"]
    }
    assert findings["ssh.authorized_keys"]["evidence"] == "carol does not exist yet"


def test_a_drop_in_with_an_earlier_name_is_refused(plan, etc):
    (etc / "sshd_config.d/00-earlier.conf").write_text("X11Forwarding yes\n")
    assert refused(plan()) == {
        "ssh_x11_forwarding": "would not be in force: x11forwarding is yes and not no"
        f" ({etc}/sshd_config.d/00-earlier.conf:1)"
    }


def test_key_files_of_the_host_count_and_stay(plan, etc, tmp_path):
    (tmp_path / "alice/.ssh/authorized_keys").rename(tmp_path / "alice/.ssh/mine")
    (etc / "sshd_config.d/50-later.conf").write_text("AuthorizedKeysFile .ssh/mine\n")
    result = plan(passwords="refused")
    assert refused(result) == {}
    assert "AuthorizedKeysFile .ssh/authorized_keys /etc/ssh/authorized_keys.d/%u .ssh/mine" in result["settings"]


def test_a_file_of_a_later_name_does_not_win(plan, etc):
    (etc / "sshd_config.d/50-later.conf").write_text("X11Forwarding yes\n")
    assert refused(plan()) == {}


def test_additional_ports_and_groups_of_a_file_are_refused(plan, etc):
    (etc / "sshd_config.d/50-later.conf").write_text("Port 2222\nAllowGroups staff\n")
    problems = refused(plan(allow_groups=[{"name": "alice"}]))
    assert {*problems} == {"ssh_ports or ssh_listen_addresses", "ssh_allow_groups"}
    assert f"({etc}/sshd_config.d/50-later.conf:2)" in problems["ssh_allow_groups"]


def test_a_match_block_for_one_user_is_refused(plan, etc):
    (etc / "sshd_config.d/50-later.conf").write_text("Match User bob\n  PasswordAuthentication yes\n")
    assert "passwordauthentication is yes for bob" in refused(plan())["ssh_passwords"]


def test_a_match_block_for_nobody_is_not_refused(plan, etc, monkeypatch):
    monkeypatch.setattr(facts, "listed", lambda: match.Listed({"alice", "bob"}, {"sftponly"}))
    for group, status in ("sftponly", "pass"), ("students", "warn"):
        (etc / "sshd_config.d/50-later.conf").write_text(f"Match Group {group}\n  PasswordAuthentication yes\n")
        result = plan()
        assert refused(result) == {}
        (found,) = [finding for finding in result["findings"] if finding["id"] == "ssh.match"]
        assert found["status"] == status
        assert ("50-later.conf:2 below `Match Group students`" in found["evidence"]) is (status == "warn")


def test_a_match_block_for_a_group_of_the_request_is_refused(plan, etc):
    (etc / "sshd_config.d/50-later.conf").write_text("Match Group remote\n  PasswordAuthentication yes\n")
    problems = refused(plan(allow_groups=[{"name": "remote", "members": ["alice"]}], passwords="refused"))
    assert "below `Match Group remote`" in problems["ssh_passwords"]


def test_proof_all_checks_the_configuration_in_force(plan, etc):
    # Nobody has applied the role: the files on the host do not set X11Forwarding.
    result = plan(proof="all", x11_forwarding=True)
    (configuration,) = [finding for finding in result["findings"] if finding["id"] == "ssh.configuration"]
    assert configuration["status"] == "fail"
    assert "x11forwarding is nothing" in configuration["evidence"]


def test_an_unknown_option_is_refused_with_the_real_path(plan, etc):
    problems = refused(plan(extra_options={"PermitRotLogin": True}))["ssh_extra_options"]
    assert problems == (
        f"would be refused by sshd: {etc}/sshd_config.d/00-rigwright.conf: line 1:"
        " Bad configuration option: PermitRotLogin"
    )


def test_a_host_without_sshd_is_planned_by_the_defaults(plan, etc):
    (etc / "sshd_config").unlink()
    result = plan(passwords="refused")
    assert result["installed"] is False
    assert result["requirements"] == []
