"""Ports and addresses: a new one answers before an old one closes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.sandbox.clients import Done, Machine

Apply = Callable[..., Any]


def through(port: int) -> dict[str, Any]:
    """Return the variables that make Ansible connect to this port, with the host key of the address."""
    return {"ansible_port": port, "ansible_ssh_extra_args": "-o HostKeyAlias={{ ansible_host }}"}


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
    applied: Apply, login: Callable[..., Done], console: dict[str, Any], targets: list[Machine]
) -> None:
    applied({"ssh_ports": [2222], **console})
    for target in targets:
        assert "Connection refused" in login(target, "owner", port=22).stderr
        assert login(target, "owner", port=2222).rc == 0
    applied({**console, **through(2222)})


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
    apply: Apply, applied: Apply, login: Callable[..., Done], console: dict[str, Any], targets: list[Machine]
) -> None:
    for target in targets:
        target.must("nft 'add table inet deaf; add chain inet deaf in { type filter hook input priority 0; }'")
        target.must("nft add rule inet deaf in tcp dport 2222 drop")

    # In the second run sshd listens on the new port already, which alone proves nothing.
    for _time in range(2):
        result = apply(variables={"ssh_ports": [2222], **console})
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
