"""Logins with the real client from the laptop, and what keeps others out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.sandbox.clients import Done, Entry, Machine, kept

Apply = Callable[..., Any]
SSH = "ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
FETCH = 'python3 -c \'from urllib.request import urlopen as get; print(get("http://127.0.0.1:8888").read().decode(), end="")\''


def test_a_login_by_key_works(login: Callable[..., Done], target: Machine) -> None:
    assert login(target, "owner", "sudo -n id -u").stdout == "0\n"


@pytest.mark.both_releases
def test_passwords_and_root_are_refused_unless_requested(
    applied: Apply,
    login: Callable[..., Done],
    other_addresses: Callable[[], str],
    password: str,
    targets: list[Machine],
) -> None:
    for target in targets:
        refused = login(target, "guest", password=password, options=other_addresses())
        assert "Permission denied (publickey)" in refused.stderr
        assert "Permission denied (publickey)" in login(target, "root", options=other_addresses()).stderr

    # The same credentials work now: they were right before.
    applied({"ssh_passwords": "allowed", "ssh_permit_root_login": "prohibit-password"})

    for target in targets:
        assert login(target, "guest", password=password).rc == 0
        assert login(target, "guest", password="wrong", options=other_addresses()).rc != 0
        assert login(target, "root").rc == 0
    applied()
    for target in targets:
        assert login(target, "guest", password=password, options=other_addresses()).rc != 0
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
