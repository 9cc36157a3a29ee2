"""Logins with the real client from the laptop. molecule/ssh/prepare.yml creates the users of the hosts."""

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

# Run Ansible as on the machine itself: no ancestor of its modules is a login by ssh.
CONSOLE = {"ansible_become_exe": "sudo -n systemd-run --quiet --pipe --wait sudo"}
BY_HAND = "/etc/ssh/sshd_config.d/50-by-hand.conf"
SUDO_RULE = "/etc/sudoers.d/owner"
# A sudo rule that is enough for this console and does not make its user an administrator.
CONSOLE_ONLY = "owner ALL=(root) NOPASSWD: /usr/bin/systemd-run --quiet --pipe --wait sudo *\n"


def through(port: int) -> dict[str, Any]:
    """Return the variables that make Ansible connect to this port, with the host key of the address."""
    return {"ansible_port": port, "ansible_ssh_extra_args": "-o HostKeyAlias={{ ansible_host }}"}


def state(targets: list[Machine]) -> list[Any]:
    """Return files, packages and units of the targets, and the start time of each service."""
    return [(fingerprint.of(target), fingerprint.service_starts(target)) for target in targets]


@pytest.fixture
def login(laptop: Machine) -> Callable[..., Done]:
    """Try to log in from the laptop as a user of a target, by key or with a password."""

    def attempt(target: Machine, user: str, command: str = "true", **how: Any) -> Done:
        return laptop.ssh(f"{user}@{target.host.address}", command, **how)

    return attempt


@pytest.fixture(scope="session")
def other_addresses(laptop: Machine) -> Callable[[], str]:
    """Return a function that gives the client another address, so that failures of one test do not affect another."""
    numbers = itertools.count(70)

    def options() -> str:
        address = laptop.host.address + next(numbers)
        laptop.must(f"ip address replace {address}/16 dev eth0")
        return f"-o BindAddress={address}"

    return options


# --- Logins ---


def test_a_login_by_key_works(login: Callable[..., Done], target: Machine) -> None:
    assert login(target, "owner", "sudo -n id -u").stdout == "0\n"


@pytest.mark.both_releases
def test_passwords_and_root_are_refused_unless_requested(
    applied: Apply, login: Callable[..., Done], other_addresses: Callable[[], str], targets: list[Machine]
) -> None:
    for target in targets:
        refused = login(target, "guest", password=PASSWORD, options=other_addresses())
        assert "Permission denied (publickey)" in refused.stderr
        assert "Permission denied (publickey)" in login(target, "root", options=other_addresses()).stderr

    # The same credentials work now: they were right before.
    applied({"ssh_passwords": "allowed", "ssh_permit_root_login": "prohibit-password"})

    for target in targets:
        assert login(target, "guest", password=PASSWORD).rc == 0
        assert login(target, "guest", password="wrong", options=other_addresses()).rc != 0
        assert login(target, "root").rc == 0
    applied()
    for target in targets:
        assert login(target, "guest", password=PASSWORD, options=other_addresses()).rc != 0
        assert login(target, "root", options=other_addresses()).rc != 0


def test_only_keys_on_the_list_work(
    applied: Apply,
    laptop: Machine,
    login: Callable[..., Done],
    other_addresses: Callable[[], str],
    targets: list[Machine],
) -> None:
    laptop.must("rm -f /root/other /root/other.pub; ssh-keygen -q -t ed25519 -N '' -f /root/other")
    other = "-o IdentitiesOnly=yes -o IdentityFile=/root/other"
    key = laptop.must("cat /root/other.pub").strip()
    own = [target.must("sha256sum /home/*/.ssh/authorized_keys") for target in targets]

    applied({"ssh_authorized_keys": [{"user": "guest", "keys": [key]}]})
    for target in targets:
        assert login(target, "guest", options=other).rc == 0
        assert login(target, "owner", options=f"{other} {other_addresses()}").rc != 0

    applied()
    for target in targets:
        assert login(target, "guest", options=f"{other} {other_addresses()}").rc != 0
    assert [target.must("sha256sum /home/*/.ssh/authorized_keys") for target in targets] == own


def test_only_the_allowed_groups_can_log_in(
    applied: Apply, login: Callable[..., Done], other_addresses: Callable[[], str], targets: list[Machine]
) -> None:
    groups = {"ssh_allow_groups": [{"name": "remote", "members": ["owner"]}]}
    with kept(targets, "/etc/group*", "/etc/gshadow*"):
        applied(groups)
        for target in targets:
            assert login(target, "owner").rc == 0
            assert login(target, "guest", options=other_addresses()).rc != 0

        again = applied(groups)

        assert set(again.changed().values()) == {0}
        for target in targets:
            assert again.hosts[target.host.name]["roles"]["ssh"]["module_runs"] == 1
        applied()
    for target in targets:
        assert login(target, "guest").rc == 0


def test_local_forwarding_works_and_remote_forwarding_does_not(
    laptop: Machine, login: Callable[..., Done], other_addresses: Callable[[], str], target: Machine
) -> None:
    target.put({"/srv/notebook/index.html": Entry(b"a notebook")})
    target.start("cd /srv/notebook && exec python3 -m http.server --bind 127.0.0.1 8888")
    tunnel = f"{SSH} -S /run/tunnel owner@{target.host.address}"
    laptop.must(f"{tunnel} -M -o ExitOnForwardFailure=yes -fNL 8888:127.0.0.1:8888")

    assert laptop.must(f"until {FETCH}; do sleep 0.2; done") == "a notebook"

    laptop.must(f"{tunnel} -O exit")
    target.must("pkill -f '[h]ttp.server'")
    back = login(target, "owner", options="-o ExitOnForwardFailure=yes -R 9999:127.0.0.1:22")
    assert "remote port forwarding failed" in back.stderr
    target.must("rm -r /srv/notebook")


def test_only_the_attacker_is_banned(
    laptop: Machine, login: Callable[..., Done], other_addresses: Callable[[], str], target: Machine
) -> None:
    options = other_addresses()
    address = options.rpartition("=")[2]
    for name in ("admin", "test", "oracle", "ubuntu", "postgres"):
        assert "Permission denied" in login(target, name, options=options).stderr

    # fail2ban reports a ban before nftables has it.
    target.must(f"for i in $(seq 50); do nft list ruleset | grep -qw {address} && exit; sleep 0.2; done; exit 1")

    assert address in target.must("fail2ban-client status sshd")
    assert "Connection refused" in login(target, "owner", options=options).stderr
    assert login(target, "owner").rc == 0
    target.must(f"fail2ban-client unban {address}")
    assert login(target, "owner", options=options).rc == 0


# Log as sshd does, and run until the reader of the output exits: journald reads the name of a running process.
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

    # A user of a service: with a journal on disk, fail2ban does not read the journal of a real user at all.
    target.must(logged.format("nobody", "203.0.113.8"))
    # fail2ban reads these lines later than the user's: from root, the same lines count.
    target.must(logged.format("root", "203.0.113.9"))

    banned = "fail2ban-client status sshd | grep -q 203.0.113.9"
    target.must(f"for i in $(seq 50); do {banned} && exit; sleep 0.2; done; exit 1")
    assert "203.0.113.8" not in target.must("fail2ban-client status sshd")
    target.must("fail2ban-client unban 203.0.113.9; rm /srv/as_sshd.py")


@pytest.mark.both_releases
@pytest.mark.parametrize("other_jail", [True, False], ids=["of others", "of the role"])
def test_without_the_jail_fail2ban_runs_only_for_other_jails(
    applied: Apply, targets: list[Machine], other_jail: bool
) -> None:
    with kept(targets, "/etc/fail2ban/jail.local"):
        for target in targets if other_jail else ():
            target.put({"/etc/fail2ban/jail.local": Entry(b"# mine\n")})
        applied({"ssh_fail2ban": False})

        again = applied({"ssh_fail2ban": False})

        assert set(again.changed().values()) == {0}
        for target in targets:
            # Debian 12's own jail reads a log file that does not exist; Debian 13's reads the journal.
            runs = other_jail and target.host.name == "debian13"
            expected = "active enabled" if runs else "inactive disabled"
            shown = target.run("systemctl is-active fail2ban; systemctl is-enabled fail2ban").stdout.split()
            assert " ".join(shown) == expected
            # From now on fail2ban belongs to the other jail; the next run has to find it as the first one did.
            target.must("systemctl disable --now fail2ban")
    applied()
    for target in targets:
        assert "Currently banned" in target.must("fail2ban-client status sshd")


@pytest.mark.both_releases
def test_the_proofs_hold(verified: Callable[..., dict[str, dict[str, str]]], targets: list[Machine]) -> None:
    verdict = verified()
    for target in targets:
        assert set(verdict[target.host.name].values()) == {"pass"}


# --- Protection against lockouts ---


def test_a_syntax_error_changes_nothing(apply: Apply, login: Callable[..., Done], targets: list[Machine]) -> None:
    before = state(targets)

    result = apply(variables={"ssh_extra_options": {"PermitRotLogin": False}})

    assert result.rc != 0
    assert "Bad configuration option: PermitRotLogin" in result.text
    assert state(targets) == before
    for target in targets:
        assert login(target, "owner").rc == 0


def test_a_drop_in_with_an_earlier_name_is_refused(apply: Apply, targets: list[Machine]) -> None:
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


def test_a_match_block_with_passwords_for_one_user_is_refused(
    apply: Apply,
    applied: Apply,
    login: Callable[..., Done],
    other_addresses: Callable[[], str],
    verified: Callable[..., dict[str, dict[str, str]]],
    targets: list[Machine],
) -> None:
    opens = b"# for now\nMatch User guest Address 10.0.0.0/8\n  PasswordAuthentication yes\n"
    restricts = b"Match User guest\n  X11Forwarding no\n  AllowTcpForwarding no\n  LogLevel INFO\n"
    with kept(targets, BY_HAND):
        for target in targets:
            target.put({BY_HAND: Entry(opens)})
            target.must("systemctl restart ssh")
            # This login works before the role refuses the configuration.
            assert login(target, "guest", password=PASSWORD).rc == 0
        before = state(targets)

        refused, verdict = apply(), verified()

        assert refused.rc != 0
        output = refused.text
        assert "ssh_passwords: would not be in force: passwordauthentication is yes for guest from 10.0.0.1" in output
        assert f"({BY_HAND}:3 below `Match User guest Address 10.0.0.0/8`)" in output
        assert state(targets) == before
        for target in targets:
            assert verdict[target.host.name]["ssh.configuration"] == "fail"
            target.put({BY_HAND: Entry(restricts)})
        applied()
        verdict = verified()
        for target in targets:
            assert verdict[target.host.name]["ssh.configuration"] == "pass"
            assert login(target, "guest", password=PASSWORD, options=other_addresses()).rc != 0
    applied()


def test_additional_ports_and_groups_of_a_file_are_refused(
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


def test_the_include_is_added_and_removed_again(applied: Apply, targets: list[Machine]) -> None:
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


def test_an_unmanaged_sshd_is_not_restarted(applied: Apply, targets: list[Machine]) -> None:
    applied({"ssh_state": "absent"})
    # Remove what `systemctl disable` removes, without its two reloads: on a busy machine Debian 13's systemd loses track of sshd in them.
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


def test_without_a_key_of_an_administrator_passwords_stay(
    apply: Apply, applied: Apply, login: Callable[..., Done], other_addresses: Callable[[], str], targets: list[Machine]
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
            assert login(target, "guest", password=PASSWORD, options=other_addresses()).rc != 0

        applied({"ssh_passwords": "allowed", **CONSOLE})
        auto = applied(CONSOLE)
        for target in targets:
            assert auto.findings(target.host.name)["ssh.passwords"] == "warn"
            assert login(target, "guest", password=PASSWORD).rc == 0
    applied()


def test_a_lockout_of_the_administrator_is_refused(apply: Apply, targets: list[Machine]) -> None:
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


def test_a_run_on_the_machine_itself_changes_the_port_in_one_run(
    applied: Apply, login: Callable[..., Done], targets: list[Machine]
) -> None:
    applied({"ssh_ports": [2222], **CONSOLE})
    for target in targets:
        assert "Connection refused" in login(target, "owner", port=22).stderr
        assert login(target, "owner", port=2222).rc == 0
    applied({**CONSOLE, **through(2222)})


def test_sshd_listens_only_on_the_requested_address(
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

    # In the second run sshd listens on the new port already, which alone proves nothing.
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
        # Stop it first: `disable` makes systemd reload, and systemd cannot stop a process that it has lost track of.
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
        # Stop both in one command before systemd reloads: on a busy machine it loses track of a sshd that its socket has started.
        target.must("systemctl stop ssh.socket ssh.service && systemctl disable --quiet ssh.socket")
        target.must("systemctl enable --quiet --now ssh.service")
    applied()


# --- Refused requests ---


def test_an_invalid_request_is_refused_with_all_variables(apply: Apply, targets: list[Machine]) -> None:
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
    output = result.text
    assert "ssh_ports: must list ports from 1 to 65535, and has 0, 70000" in output
    assert "ssh_ports: names a port on which another program listens: 8022 python3" in output
    assert "ssh_listen_addresses: leaves out" in output
    assert "ssh_authorized_keys: has keys that sshd would not accept (owner, key 1: damaged" in output
    assert "ssh_extra_options: sets port, which the role sets itself" in output
    assert state(targets) == before


def test_an_invalid_choice_is_refused(apply: Apply) -> None:
    result = apply(variables={"ssh_passwords": "no"})
    assert result.rc != 0
    assert "value of ssh_passwords must be one of: auto, allowed, refused" in result.text
