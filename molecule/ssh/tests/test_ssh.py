"""Who gets in, and who does not, tried with the real client from the laptop. The hosts' users: molecule/ssh/prepare.yml."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from harness.sandbox import fingerprint, lab
from harness.sandbox.clients import Done, Entry, Machine, kept

LAB = lab.read("molecule")
PASSWORD = "correct-horse"
SSH = "ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
FETCH = 'python3 -c \'from urllib.request import urlopen as get; print(get("http://127.0.0.1:8888").read().decode(), end="")\''
Apply = Callable[..., Any]

# Ansible as if it had been started on the machine itself: no ancestor of its modules is a login by ssh.
CONSOLE = {"ansible_become_exe": "sudo -n systemd-run --quiet --pipe --wait sudo"}
BY_HAND = "/etc/ssh/sshd_config.d/50-by-hand.conf"
SUDO_RULE = "/etc/sudoers.d/owner"
# A sudo rule that lets this console work and makes no administrator of its user.
CONSOLE_ONLY = "owner ALL=(root) NOPASSWD: /usr/bin/systemd-run --quiet --pipe --wait sudo *\n"


def through(port: int) -> dict[str, Any]:
    """Ansible comes by this port; the host is known by its address alone."""
    return {"ansible_port": port, "ansible_ssh_extra_args": "-o HostKeyAlias={{ ansible_host }}"}


def state(targets: list[Machine]) -> list[Any]:
    """Files, packages and units of the targets, and when each service was started."""
    return [(fingerprint.of(target), fingerprint.service_starts(target)) for target in targets]


@pytest.fixture
def login(laptop: Machine) -> Callable[..., Done]:
    """Try to log in from the laptop as a user of a target, by key or with a password."""

    def attempt(target: Machine, user: str, command: str = "true", **how: Any) -> Done:
        return laptop.ssh(f"{user}@{target.host.address}", command, **how)

    return attempt


@pytest.fixture(scope="session")
def strangers(laptop: Machine) -> Callable[[], str]:
    """Addresses that a client of the laptop can have instead of its own, so that no test suffers for the failures of another."""
    numbers = itertools.count(70)

    def options() -> str:
        address = laptop.host.address + next(numbers)
        laptop.must(f"ip address replace {address}/16 dev eth0")
        return f"-o BindAddress={address}"

    return options


# --- Who gets in ---


def test_a_key_opens_the_door(login: Callable[..., Done], target: Machine) -> None:
    assert login(target, "owner", "sudo -n id -u").stdout == "0\n"


@pytest.mark.both_releases
def test_passwords_and_root_are_refused_and_let_in_when_asked(
    applied: Apply, login: Callable[..., Done], strangers: Callable[[], str], targets: list[Machine]
) -> None:
    for target in targets:
        refused = login(target, "guest", password=PASSWORD, options=strangers())
        assert "Permission denied (publickey)" in refused.stderr
        assert "Permission denied (publickey)" in login(target, "root", options=strangers()).stderr

    # The same credentials: they were right.
    applied({"ssh_passwords": "allowed", "ssh_permit_root_login": "prohibit-password"})

    for target in targets:
        assert login(target, "guest", password=PASSWORD).rc == 0
        assert login(target, "guest", password="wrong", options=strangers()).rc != 0
        assert login(target, "root").rc == 0
    applied()
    for target in targets:
        assert login(target, "guest", password=PASSWORD, options=strangers()).rc != 0
        assert login(target, "root", options=strangers()).rc != 0


def test_a_key_on_the_list_opens_the_door_and_off_the_list_does_not(
    applied: Apply, laptop: Machine, login: Callable[..., Done], strangers: Callable[[], str], targets: list[Machine]
) -> None:
    laptop.must("rm -f /root/other /root/other.pub; ssh-keygen -q -t ed25519 -N '' -f /root/other")
    other = "-o IdentitiesOnly=yes -o IdentityFile=/root/other"
    key = laptop.must("cat /root/other.pub").strip()
    own = [target.must("sha256sum /home/*/.ssh/authorized_keys") for target in targets]

    applied({"ssh_authorized_keys": [{"user": "guest", "keys": [key]}]})
    for target in targets:
        assert login(target, "guest", options=other).rc == 0
        assert login(target, "owner", options=f"{other} {strangers()}").rc != 0

    applied()
    for target in targets:
        assert login(target, "guest", options=f"{other} {strangers()}").rc != 0
    assert [target.must("sha256sum /home/*/.ssh/authorized_keys") for target in targets] == own


def test_only_the_allowed_groups_get_in(
    applied: Apply, login: Callable[..., Done], strangers: Callable[[], str], targets: list[Machine]
) -> None:
    groups = {"ssh_allow_groups": [{"name": "remote", "members": ["owner"]}]}
    with kept(targets, "/etc/group*", "/etc/gshadow*"):
        applied(groups)
        for target in targets:
            assert login(target, "owner").rc == 0
            assert login(target, "guest", options=strangers()).rc != 0

        again = applied(groups)

        assert set(again.changed().values()) == {0}
        for target in targets:
            assert again.hosts[target.host.name]["roles"]["ssh"]["module_runs"] == 5
        applied()
    for target in targets:
        assert login(target, "guest").rc == 0


def test_a_jupyter_on_the_host_is_reached_and_the_way_back_is_closed(
    laptop: Machine, login: Callable[..., Done], strangers: Callable[[], str], target: Machine
) -> None:
    target.put({"/srv/notebook/index.html": Entry(b"a notebook")})
    target.start("cd /srv/notebook && exec timeout 20 python3 -m http.server --bind 127.0.0.1 8888")
    tunnel = f"{SSH} -fL 8888:127.0.0.1:8888 owner@{target.host.address} sleep 5"

    assert laptop.must(f"{tunnel} && for i in $(seq 20); do {FETCH} && break; sleep 0.2; done") == "a notebook"

    back = login(target, "owner", options="-o ExitOnForwardFailure=yes -R 9999:127.0.0.1:22")
    assert "remote port forwarding failed" in back.stderr
    target.must("rm -r /srv/notebook")


def test_a_guesser_is_banned_and_nobody_else(
    laptop: Machine, login: Callable[..., Done], strangers: Callable[[], str], target: Machine
) -> None:
    options = strangers()
    address = options.rpartition("=")[2]
    for name in ("admin", "test", "oracle", "ubuntu", "postgres"):
        assert "Permission denied" in login(target, name, options=options).stderr

    # fail2ban counts a ban before nftables has it.
    target.must(f"for i in $(seq 50); do nft list ruleset | grep -qw {address} && exit; sleep 0.2; done; exit 1")

    assert address in target.must("fail2ban-client status sshd")
    assert "Connection refused" in login(target, "owner", options=options).stderr
    assert login(target, "owner").rc == 0
    target.must(f"fail2ban-client unban {address}")
    assert login(target, "owner", options=options).rc == 0


# Log as sshd does, and stay until the reader of the output has gone: journald reads the name of a process that is there.
AS_SSHD = """
import os, signal, sys, syslog
open("/proc/self/comm", "w").write("sshd")
syslog.openlog("sshd", syslog.LOG_PID, syslog.LOG_AUTH)
for _time in range(5):
    syslog.syslog(f"Failed password for root from {sys.argv[1]} port 9 ssh2")
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
while True:
    os.write(1, b"done\\n")
"""


def test_a_local_user_cannot_have_an_address_banned(target: Machine) -> None:
    target.put({"/srv/as_sshd.py": Entry(AS_SSHD.encode())})
    logged = "runuser -u {} -- python3 /srv/as_sshd.py {} | {{ read -r _line && journalctl --sync; }}"

    # A service's user: with a journal on disk, fail2ban does not read that of a person at all.
    target.must(logged.format("nobody", "203.0.113.8"))
    # Read after the user's: as root the same lines count.
    target.must(logged.format("root", "203.0.113.9"))

    banned = "fail2ban-client status sshd | grep -q 203.0.113.9"
    target.must(f"for i in $(seq 50); do {banned} && exit; sleep 0.2; done; exit 1")
    assert "203.0.113.8" not in target.must("fail2ban-client status sshd")
    target.must("fail2ban-client unban 203.0.113.9; rm /srv/as_sshd.py")


@pytest.mark.both_releases
@pytest.mark.parametrize("somebody_else", [True, False], ids=["of others", "of the role"])
def test_without_the_jail_fail2ban_goes_on_for_others_alone(
    applied: Apply, targets: list[Machine], somebody_else: bool
) -> None:
    with kept(targets, "/etc/fail2ban/jail.local"):
        for target in targets if somebody_else else ():
            target.put({"/etc/fail2ban/jail.local": Entry(b"# mine\n")})
        applied({"ssh_fail2ban": False})

        again = applied({"ssh_fail2ban": False})

        assert set(again.changed().values()) == {0}
        for target in targets:
            # Debian 12's own jail reads a log file that is not there; that of Debian 13 reads the journal.
            goes_on = somebody_else and target.host.name == "debian13"
            expected = "active enabled" if goes_on else "inactive disabled"
            shown = target.run("systemctl is-active fail2ban; systemctl is-enabled fail2ban").stdout.split()
            assert " ".join(shown) == expected
            # Left to others, it is theirs from now on; the next run finds it as the first one did.
            target.must("systemctl disable --now fail2ban")
    applied()
    for target in targets:
        assert "Currently banned" in target.must("fail2ban-client status sshd")


@pytest.mark.both_releases
def test_the_proofs_hold(verified: Callable[..., dict[str, dict[str, str]]], targets: list[Machine]) -> None:
    verdict = verified()
    for target in targets:
        assert set(verdict[target.host.name].values()) == {"pass"}


# --- What must not lock anybody out ---


def test_a_syntax_error_leaves_sshd_as_it_was(apply: Apply, login: Callable[..., Done], targets: list[Machine]) -> None:
    before = state(targets)

    result = apply(variables={"ssh_extra_options": {"PermitRotLogin": False}})

    assert result.rc != 0
    assert "Bad configuration option: PermitRotLogin" in result.text
    assert state(targets) == before
    for target in targets:
        assert login(target, "owner").rc == 0


def test_an_earlier_file_that_would_win_is_noticed(apply: Apply, targets: list[Machine]) -> None:
    earlier = "/etc/ssh/sshd_config.d/00-earlier.conf"
    with kept(targets, earlier):
        for target in targets:
            target.put({earlier: Entry(b"X11Forwarding yes\n")})
        before = state(targets)

        result = apply(variables={"ssh_max_auth_tries": 3})

        assert result.rc != 0
        assert "ssh_x11_forwarding: would not be in force: x11forwarding is yes and not no" in result.text
        assert f"({earlier}:1)" in result.text
        assert state(targets) == before


def test_a_match_block_that_lets_one_user_in_by_password_is_noticed(
    apply: Apply,
    applied: Apply,
    login: Callable[..., Done],
    strangers: Callable[[], str],
    verified: Callable[..., dict[str, dict[str, str]]],
    targets: list[Machine],
) -> None:
    opens = b"# for now\nMatch User guest Address 10.0.0.0/8\n  PasswordAuthentication yes\n"
    takes_away = b"Match User guest\n  X11Forwarding no\n  AllowTcpForwarding no\n  LogLevel INFO\n"
    with kept(targets, BY_HAND):
        for target in targets:
            target.put({BY_HAND: Entry(opens)})
            target.must("systemctl restart ssh")
            # It is a hole: this very login is what the role promises to refuse.
            assert login(target, "guest", password=PASSWORD).rc == 0
        before = state(targets)

        refused, verdict = apply(), verified()

        assert refused.rc != 0
        said = refused.text
        assert "ssh_passwords: would not be in force: passwordauthentication is yes for guest from 10.0.0.1" in said
        assert f"({BY_HAND}:3 below `Match User guest Address 10.0.0.0/8`)" in said
        assert state(targets) == before
        for target in targets:
            assert verdict[target.host.name]["ssh.configuration"] == "fail"
            target.put({BY_HAND: Entry(takes_away)})
        applied()
        verdict = verified()
        for target in targets:
            assert verdict[target.host.name]["ssh.configuration"] == "pass"
            assert login(target, "guest", password=PASSWORD, options=strangers()).rc != 0
    applied()


def test_what_adds_up_with_another_file_is_noticed(
    apply: Apply, verified: Callable[..., dict[str, dict[str, str]]], targets: list[Machine]
) -> None:
    with kept(targets, BY_HAND):
        for target in targets:
            target.put({BY_HAND: Entry(b"Port 2222\nAllowGroups owner\n")})
        before = state(targets)

        result = apply(variables={"ssh_allow_groups": [{"name": "owner"}, {"name": "sudo"}]})
        other = apply(variables={"ssh_allow_groups": [{"name": "guest", "members": ["owner"]}]})
        verdict = verified()

        assert result.rc != 0
        assert "ssh_ports or ssh_listen_addresses: would not be in force" in result.text
        assert f"({BY_HAND}:1)" in result.text
        assert "ssh_allow_groups" not in result.text
        assert other.rc != 0
        assert "ssh_allow_groups: would not be in force: allowgroups is guest, owner and not guest" in other.text
        assert f"({BY_HAND}:2)" in other.text
        assert state(targets) == before
        for target in targets:
            assert verdict[target.host.name]["ssh.configuration"] == "fail"


def test_a_main_file_without_the_include_gets_it_and_gives_it_back(applied: Apply, targets: list[Machine]) -> None:
    with kept(targets, "/etc/ssh/sshd_config"):
        for target in targets:
            target.must("sed -i '/^Include/d; 1i PasswordAuthentication yes' /etc/ssh/sshd_config")
        before = [target.must("cat /etc/ssh/sshd_config") for target in targets]
        for target in targets:
            assert "passwordauthentication yes" in target.must("sshd -T")

        applied()
        for target in targets:
            assert "passwordauthentication no" in target.must("sshd -T")

        applied({"ssh_state": "absent"})
        assert [target.must("cat /etc/ssh/sshd_config") for target in targets] == before
    applied()


def test_a_sshd_that_the_role_does_not_manage_is_left_alone(applied: Apply, targets: list[Machine]) -> None:
    applied({"ssh_state": "absent"})
    # What `systemctl disable` takes away, without its two reloads: on a loaded machine Debian 13's systemd has lost sight of sshd in them.
    links = ["/etc/systemd/system/multi-user.target.wants/ssh.service", "/etc/systemd/system/sshd.service"]
    with kept(targets, BY_HAND, *links):
        for target in targets:
            target.put({BY_HAND: Entry(b"# not tested yet\n")})
            target.must(f"rm {' '.join(links)}")
        before = [fingerprint.service_starts(target) for target in targets]

        again = applied({"ssh_state": "absent"})

        assert set(again.changed().values()) == {0}
        assert [fingerprint.service_starts(target) for target in targets] == before
        for target in targets:
            assert target.run("systemctl is-enabled ssh.service").stdout.strip() == "disabled"
    applied()


def test_without_a_key_for_an_administrator_passwords_stay_as_they_are(
    apply: Apply, applied: Apply, login: Callable[..., Done], strangers: Callable[[], str], targets: list[Machine]
) -> None:
    with kept(targets, SUDO_RULE):
        for target in targets:
            target.put({SUDO_RULE: Entry(CONSOLE_ONLY.encode(), 0o440)})
        before = state(targets)

        refused = apply(variables={"ssh_passwords": "refused", **CONSOLE})

        assert refused.rc != 0
        assert "ssh_passwords: is refused, but nobody who can become root would have a key" in refused.text
        assert state(targets) == before

        auto = applied(CONSOLE)
        for target in targets:
            assert auto.findings(target.host.name)["ssh.passwords"] == "warn"
            assert login(target, "guest", password=PASSWORD, options=strangers()).rc != 0

        applied({"ssh_passwords": "allowed", **CONSOLE})
        auto = applied(CONSOLE)
        for target in targets:
            assert auto.findings(target.host.name)["ssh.passwords"] == "warn"
            assert login(target, "guest", password=PASSWORD).rc == 0
    applied()


def test_an_administrator_who_would_be_left_out_is_not(apply: Apply, targets: list[Machine]) -> None:
    before = state(targets)

    result = apply(variables={"ssh_allow_groups": [{"name": "remote", "members": ["guest"]}]})

    assert result.rc != 0
    assert "ssh_allow_groups: would lock out owner, as whom Ansible is connected" in result.text
    assert state(targets) == before


def test_a_new_port_opens_before_the_old_one_closes(
    applied: Apply, login: Callable[..., Done], targets: list[Machine]
) -> None:
    first = applied({"ssh_ports": [2222]})
    for target in targets:
        assert first.findings(target.host.name)["ssh.ports"] == "warn"
        assert [login(target, "owner", port=port).rc for port in (22, 2222)] == [0, 0]

    second = applied({"ssh_ports": [2222], **through(2222)})
    for target in targets:
        assert second.findings(target.host.name)["ssh.ports"] == "pass"
        assert "Connection refused" in login(target, "owner", port=22).stderr
        assert login(target, "owner", port=2222).rc == 0

    applied(through(2222))
    applied()
    for target in targets:
        assert "Connection refused" in login(target, "owner", port=2222).stderr


def test_a_run_on_the_machine_itself_changes_the_port_at_once(
    applied: Apply, login: Callable[..., Done], targets: list[Machine]
) -> None:
    applied({"ssh_ports": [2222], **CONSOLE})
    for target in targets:
        assert "Connection refused" in login(target, "owner", port=22).stderr
        assert login(target, "owner", port=2222).rc == 0
    applied({**CONSOLE, **through(2222)})


def test_sshd_listens_on_the_address_that_is_asked_and_waits_for_it_at_boot(
    applied: Apply, login: Callable[..., Done], targets: list[Machine]
) -> None:
    applied({"ssh_listen_addresses": ["{{ ansible_host }}"]})
    for target in targets:
        listening = target.must("ss -Hltn sport = :22")
        assert f"{target.host.address}:22" in listening
        assert len(listening.splitlines()) == 1
        assert "network-online.target" in target.must("systemctl show --property=After ssh.service")
        assert login(target, "owner").rc == 0
    applied()
    for target in targets:
        assert login(target, "owner").rc == 0


def test_a_new_port_that_does_not_answer_keeps_the_old_one(
    apply: Apply, applied: Apply, login: Callable[..., Done], targets: list[Machine]
) -> None:
    for target in targets:
        target.must("nft 'add table inet deaf; add chain inet deaf in { type filter hook input priority 0; }'")
        target.must("nft add rule inet deaf in tcp dport 2222 drop")

    # The second time, sshd listens on the new port: that alone proves nothing.
    for _time in range(2):
        result = apply(variables={"ssh_ports": [2222], **CONSOLE})
        assert result.rc != 0
        assert "ssh_ports: names a port on which no ssh server answers (2222)" in result.text
        assert all(login(target, "owner").rc == 0 for target in targets)

    for target in targets:
        target.must("nft delete table inet deaf")
    applied()


@pytest.mark.both_releases
def test_ports_of_a_socket_activated_sshd_change_too(
    applied: Apply, login: Callable[..., Done], targets: list[Machine]
) -> None:
    for target in targets:
        # Stopped first: `disable` has systemd reload, and what it has lost sight of it does not stop.
        target.must("systemctl stop ssh.service && systemctl disable --quiet ssh.service")
        target.must("systemctl enable --quiet --now ssh.socket")

    applied({"ssh_ports": [22, 2222]})
    for target in targets:
        assert [login(target, "owner", port=port).rc for port in (22, 2222)] == [0, 0]
        assert "systemd" in target.must("ss -Hltnp sport = :2222")

    applied({"ssh_state": "absent"})
    for target in targets:
        assert login(target, "owner").rc == 0
        assert "Connection refused" in login(target, "owner", port=2222).stderr
        # Both at once, and before systemd reloads: on a loaded machine it has lost sight of a sshd that its socket had started.
        target.must("systemctl stop ssh.socket ssh.service && systemctl disable --quiet ssh.socket")
        target.must("systemctl enable --quiet --now ssh.service")
    applied()


# --- What is refused, before anything changes ---


def test_bad_input_is_refused_with_every_variable_and_changes_nothing(apply: Apply, targets: list[Machine]) -> None:
    for target in targets:
        target.start("exec timeout 300 python3 -m http.server 8022")
        target.must("for i in $(seq 50); do ss -Hltn sport = :8022 | grep -q . && exit; sleep 0.2; done; exit 1")
    before = state(targets)

    result = apply(
        variables={
            "ssh_ports": [0, 8022, 70000],
            "ssh_listen_addresses": ["127.0.0.1"],
            "ssh_authorized_keys": [{"user": "owner", "keys": ["ssh-ed25519 AAAA"]}],
            "ssh_extra_options": {"Port": 23},
        }
    )

    assert result.rc != 0
    said = result.text
    assert "ssh_ports: must hold ports from 1 to 65535, and has 0, 70000" in said
    assert "ssh_ports: names a port on which another program listens: 8022 python3" in said
    assert "ssh_listen_addresses: leaves out" in said
    assert "ssh_authorized_keys: holds what sshd would not accept (owner, key 1: damaged" in said
    assert "ssh_extra_options: sets port, which the role sets itself" in said
    assert state(targets) == before


def test_a_word_that_is_no_choice_is_refused(apply: Apply) -> None:
    result = apply(variables={"ssh_passwords": "no"})
    assert result.rc != 0
    assert "value of ssh_passwords must be one of: auto, allowed, refused" in result.text
