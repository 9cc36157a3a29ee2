"""What is refused before it changes anything: requests and files that would lock people out, or let more in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.sandbox import fingerprint
from harness.sandbox.clients import Done, Entry, Machine, kept

Apply = Callable[..., Any]
BY_HAND = "/etc/ssh/sshd_config.d/50-by-hand.conf"
SUDO_RULE = "/etc/sudoers.d/owner"
# A sudo rule that is enough for this console and does not make its user an administrator.
CONSOLE_ONLY = "owner ALL=(root) NOPASSWD: /usr/bin/systemd-run --quiet --pipe --wait sudo *\n"


def state(targets: list[Machine]) -> list[Any]:
    """Return files, packages and units of the targets, and the start time of each service."""
    return [(fingerprint.of(target), fingerprint.service_starts(target)) for target in targets]


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
    password: str,
    targets: list[Machine],
) -> None:
    opens = b"# for now\nMatch User guest Address 10.0.0.0/8\n  PasswordAuthentication yes\n"
    restricts = b"Match User guest\n  X11Forwarding no\n  AllowTcpForwarding no\n  LogLevel INFO\n"
    with kept(targets, BY_HAND):
        for target in targets:
            target.put({BY_HAND: Entry(opens)})
            target.must("systemctl restart ssh")
            # This login works before the role refuses the configuration.
            assert login(target, "guest", password=password).rc == 0
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
            assert login(target, "guest", password=password, options=other_addresses()).rc != 0
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
    apply: Apply,
    applied: Apply,
    login: Callable[..., Done],
    other_addresses: Callable[[], str],
    password: str,
    console: dict[str, Any],
    targets: list[Machine],
) -> None:
    with kept(targets, SUDO_RULE):
        for target in targets:
            target.put({SUDO_RULE: Entry(CONSOLE_ONLY.encode(), 0o440)})
        before = state(targets)

        refused = apply(variables={"ssh_passwords": "refused", **console})

        assert refused.rc != 0
        assert "ssh_passwords: is refused, but nobody who can become root would have a key" in refused.text
        assert state(targets) == before

        auto = applied(console)
        for target in targets:
            assert auto.findings(target.host.name)["ssh.passwords"] == "warn"
            assert login(target, "guest", password=password, options=other_addresses()).rc != 0

        applied({"ssh_passwords": "allowed", **console})
        auto = applied(console)
        for target in targets:
            assert auto.findings(target.host.name)["ssh.passwords"] == "warn"
            assert login(target, "guest", password=password).rc == 0
    applied()


def test_a_lockout_of_the_administrator_is_refused(apply: Apply, targets: list[Machine]) -> None:
    before = state(targets)

    result = apply(variables={"ssh_allow_groups": [{"name": "remote", "members": ["guest"]}]})

    assert result.rc != 0
    assert "ssh_allow_groups: would lock out owner, as whom Ansible is connected" in result.text
    assert state(targets) == before


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
