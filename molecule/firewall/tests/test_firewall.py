# SPDX-License-Identifier: GPL-3.0-or-later
"""The firewall from two other hosts: the laptop, whose network is named, and the gateway, whose network is not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from harness.sandbox import lifecycle as sandbox
from harness.sandbox.clients import Machine

pytestmark = pytest.mark.both_releases

Apply = Callable[..., Any]
FRAGMENTS = "/etc/nftables.d/rigwright"
RULES = f"{FRAGMENTS}.nft"
UNCONFIRMED = "/var/lib/rigwright_firewall/unconfirmed"
# Ports with a listener: a declared one and an undeclared one.
DECLARED, SECRET = 8000, 8001


def serve(target: Machine) -> None:
    """Start web servers on all addresses of both families, until the next boot."""
    for port in (DECLARED, SECRET):
        program = f"python3 -m http.server {port} --bind :: --directory /srv/image"
        target.must(f"systemctl is-active --quiet web-{port} || systemd-run --quiet --unit web-{port} {program}")
        assert soon(partial(reaches, target, "127.0.0.1", port))


@pytest.fixture(scope="module", autouse=True)
def services(all_targets: list[Machine]) -> Iterator[None]:
    for target in all_targets:
        serve(target)
    yield
    for target in all_targets:
        target.run(f"systemctl stop web-{DECLARED} web-{SECRET}")


def reaches(client: Machine, address: str, port: int, seconds: float = 2) -> bool:
    return client.run(f"timeout {seconds} bash -c '</dev/tcp/{address}/{port}'").rc == 0


def soon(probe: Callable[[], bool], seconds: float = 15) -> bool:
    """Return whether the probe succeeds within some seconds."""
    end = time.monotonic() + seconds
    while not (found := probe()) and time.monotonic() < end:
        time.sleep(0.3)
    return found


def in_force(target: Machine) -> str:
    return target.must("nft --stateless list table inet rigwright")


def foreign(target: Machine) -> str:
    """Return the other tables with the handles of their rules, which change when a table is created again."""
    tables = [line for line in target.must("nft list tables").splitlines() if line != "table inet rigwright"]
    return "".join(target.must(f"nft --stateless --handle list {table}") for table in tables)


def finding(found: dict[str, dict[str, str]], name: str) -> set[str]:
    return {host[f"firewall.{name}"] for host in found.values() if f"firewall.{name}" in host}


# --- Allowed connections ---


@pytest.mark.parametrize("family", [4, 6])
def test_a_port_is_open_only_to_the_named_network(
    target: Machine, laptop: Machine, gateway: Machine, family: int
) -> None:
    address = str(target.host.address) if family == 4 else f"fd26::{str(target.host.address).split('.')[3]}"

    assert reaches(laptop, address, DECLARED)
    assert not reaches(gateway, address, DECLARED)
    assert not reaches(laptop, address, SECRET)
    assert reaches(target, address, SECRET)
    for client in (laptop, gateway):
        assert reaches(client, address, 22)


@pytest.fixture(scope="module")
def containers(all_targets: list[Machine]) -> Iterator[None]:
    """Run containers in two networks of docker; 8080 and 8081 are published."""
    web = "local /bin/busybox httpd -f -p 80 -h /www"
    for target in all_targets:
        target.must(
            "docker network create lab;"
            f"docker run --detach --stop-signal KILL --name web --publish 8080:80 {web};"
            f"docker run --detach --stop-signal KILL --name shy --network lab --publish 8081:80 {web}",
            seconds=120,
        )
    yield
    for target in all_targets:
        target.run("docker rm --force web shy; docker network rm lab")


def test_a_published_port_is_open_only_to_the_named_network(
    target: Machine, laptop: Machine, gateway: Machine, containers: None
) -> None:
    address = str(target.host.address)
    target.must("systemctl restart docker && docker start web shy", seconds=120)
    for port in (8080, 8081):
        assert soon(partial(reaches, target, "127.0.0.1", port))

    assert reaches(laptop, address, 8080)
    assert not reaches(gateway, address, 8080)
    assert not reaches(laptop, address, 8081)


def test_a_container_cannot_be_reached_by_its_own_address(target: Machine, laptop: Machine, containers: None) -> None:
    inside = target.must("docker inspect --format '{{.NetworkSettings.IPAddress}}' web").strip()
    laptop.must(f"ip route replace {inside}/32 via {target.host.address}")
    try:
        assert reaches(target, inside, 80)
        assert not reaches(laptop, inside, 80)
    finally:
        laptop.must(f"ip route del {inside}/32")


def test_containers_reach_the_world_and_each_other(target: Machine, gateway: Machine, containers: None) -> None:
    neighbour = target.must(
        "docker run --detach --stop-signal KILL --network lab local /bin/busybox httpd -f -p 80 -h /www"
    ).strip()
    try:
        inside = target.must(
            f"docker inspect --format '{{{{.NetworkSettings.Networks.lab.IPAddress}}}}' {neighbour}"
        ).strip()
        fetch = "/bin/busybox nc -w 3 {} {} < /dev/null"
        target.must(f"docker exec shy {fetch.format(inside, 80)}")
        target.must(f"docker exec web {fetch.format(gateway.host.address, 22)}")
        # Published ports of the machine, to a container in another network and to the same container.
        target.must(f"docker exec web {fetch.format(target.host.address, 8081)}")
        target.must(f"docker exec web {fetch.format(target.host.address, 8080)}")
    finally:
        target.must(f"docker rm --force {neighbour}")


# A server that sends its answer late.
LATE = "import socket, time; peer = socket.create_server(('', 9000)).accept()[0]; time.sleep(3); peer.sendall(b'late')"


def test_a_connection_older_than_the_firewall_stays_open(target: Machine, laptop: Machine) -> None:
    # A flush makes the kernel forget the connection, as if it had never tracked it.
    laptop.start(f'python3 -c "{LATE}"')
    assert soon(lambda: laptop.must("ss --no-header --listening --tcp 'sport = :9000'") != "")
    got = target.must(
        f"exec 3<>/dev/tcp/{laptop.host.address}/9000; sleep 1; conntrack --flush >&2; timeout 15 head -c 4 <&3",
        seconds=30,
    )
    assert got == "late"


# --- Declarations ---


@contextmanager
def declared(target: Machine, content: str) -> Iterator[None]:
    """Write a declaration as config_files does, by one rename, and remove it at the end."""
    target.must(f"cat > /etc/nftables.d/new <<'EOF'\n{content}\nEOF\nmv /etc/nftables.d/new {FRAGMENTS}/other.nft")
    try:
        yield
    finally:
        target.must(f"rm -f {FRAGMENTS}/other.nft")


def test_a_declaration_takes_effect_immediately(target: Machine, gateway: Machine) -> None:
    address = str(target.host.address)
    with declared(target, f'ip saddr {gateway.host.address} tcp dport {SECRET} accept comment "other"'):
        assert soon(lambda: reaches(gateway, address, SECRET))
    assert soon(lambda: not reaches(gateway, address, SECRET))


def test_a_port_of_sshd_is_open_before_sshd_listens_there(target: Machine) -> None:
    target.must("mkdir -p /etc/ssh/sshd_config.d && echo 'Port 2222' > /etc/ssh/sshd_config.d/50-test.conf")
    try:
        assert soon(lambda: "tcp dport 2222 jump ssh" in in_force(target))
    finally:
        target.must("rm /etc/ssh/sshd_config.d/50-test.conf")
    assert soon(lambda: "tcp dport 22 jump ssh" in in_force(target))


def test_what_changes_during_a_load_is_loaded_too(target: Machine) -> None:
    folder = "/run/systemd/system/rigwright-firewall-reload.service.d"
    removal = f"[Service]\\nExecStartPost=/usr/bin/rm -f {FRAGMENTS}/other.nft"
    target.must(f"mkdir -p {folder} && printf '{removal}' > {folder}/test.conf && systemctl daemon-reload")
    try:
        with declared(target, f'tcp dport {SECRET} accept comment "other"'):
            assert soon(lambda: target.run(f"test -e {FRAGMENTS}/other.nft").rc != 0)
            assert soon(lambda: str(SECRET) not in in_force(target))
    finally:
        target.must(f"rm -r {folder} && systemctl daemon-reload")


def test_a_declaration_with_an_error_leaves_the_rules_in_force(
    refused: Apply, targets: list[Machine], laptop: Machine
) -> None:
    target = targets[0]
    before = in_force(target)
    with declared(target, "tcp dport nonsense accept"):
        assert soon(lambda: target.run("systemctl is-failed --quiet rigwright-firewall-reload").rc == 0)
        assert "other.nft" in target.must("journalctl --unit rigwright-firewall --lines 20")
        assert in_force(target) == before
        refused({}, f"{FRAGMENTS}/other.nft")
    assert soon(lambda: target.run("systemctl is-failed --quiet rigwright-firewall-reload").rc != 0)
    assert in_force(target) == before
    assert reaches(laptop, str(target.host.address), DECLARED)


# --- Other tables ---


# A ban as by fail2ban's own action nftables.
BAN = r"""
table inet f2b-table {
    set addr-set-sshd { type ipv4_addr; elements = { 192.0.2.7 } }
    chain f2b-chain {
        type filter hook input priority -1;
        tcp dport 22 ip saddr @addr-set-sshd reject
    }
}
"""


def test_other_tables_do_not_change(applied: Apply, targets: list[Machine]) -> None:
    for target in targets:
        target.must(f"nft --file - <<'EOF'\n{BAN}\nEOF")
    before = [foreign(target) for target in targets]
    assert all("f2b-table" in listing and "DOCKER" in listing for listing in before)

    for target in targets:
        target.must("systemctl reload rigwright-firewall && systemctl restart rigwright-firewall")
    assert [foreign(target) for target in targets] == before

    applied({"firewall_state": "absent"})
    assert [foreign(target) for target in targets] == before
    assert all(target.run("nft list table inet rigwright").rc != 0 for target in targets)

    applied()
    assert [foreign(target) for target in targets] == before


# --- Protection against lockouts ---


def test_a_network_without_ansible_is_refused(refused: Apply) -> None:
    refused({"firewall_ssh_networks": ["192.0.2.0/24"]}, "would lock out Ansible's own connection")


def test_a_change_that_locks_out_ssh_is_reverted(
    apply: Apply, applied: Apply, targets: list[Machine], gateway: Machine
) -> None:
    def closed(target: Machine) -> bool:
        return not reaches(gateway, str(target.host.address), 22)

    before = [in_force(target) for target in targets]
    for target in targets:
        target.must(f"sed -i 's/^\\t\\taccept comment \"ssh\"$/\\t\\tdrop/' {RULES}")

    with ThreadPoolExecutor() as pool:
        half = {"apply_tasks_from": "load", "firewall_confirm_seconds": 15}
        shut_out = pool.submit(apply, "firewall", "targets", half, "--timeout", "3")
        assert soon(lambda: all(map(closed, targets)), 30)
        assert soon(lambda: not any(map(closed, targets)), 60)
        assert shut_out.result().rc != 0
    assert [in_force(target) for target in targets] == before
    # A declaration does not load unconfirmed rules either.
    assert targets[0].run("systemctl reload rigwright-firewall").rc != 0
    assert [in_force(target) for target in targets] == before

    applied()
    assert [in_force(target) for target in targets] == before
    assert all(target.run(f"test -e {UNCONFIRMED}").rc != 0 for target in targets)
    targets[0].must("systemctl reload rigwright-firewall")


# --- Proofs, and changes by others ---


def test_verify_reports_undeclared_listeners(verified: Callable[..., Any]) -> None:
    found = verified()
    assert finding(found, "in_force") == {"pass"}
    assert finding(found, "undeclared") == {"warn"}
    assert finding(found, "unused") == {"pass"}


def test_a_flushed_table_is_restored_by_a_run_and_a_reboot(
    applied: Apply, verified: Callable[..., Any], targets: list[Machine], laptop: Machine, gateway: Machine
) -> None:
    before = [in_force(target) for target in targets]
    # Debian's own unit flushes as well, and loads ours again.
    for verb in ("start", "reload", "restart", "stop"):
        targets[0].must(f"systemctl {verb} nftables")
        assert soon(lambda: targets[0].run("nft list table inet rigwright").rc == 0), verb
    for target in targets:
        target.must("nft flush ruleset")

    assert finding(verified(), "in_force") == {"fail"}
    run = applied()

    assert [in_force(target) for target in targets] == before
    # Only docker can restore its own rules.
    assert {run.findings(host)["firewall.docker"] for host in run.hosts if host != "localhost"} == {"warn"}

    # One host boots with a wrong declaration: the last good rules are in force.
    target = targets[0]
    with declared(target, "tcp dport nonsense accept"):
        with ThreadPoolExecutor() as pool:
            list(pool.map(sandbox.reboot, targets))
        for host in targets:
            serve(host)
        assert [in_force(host) for host in targets] == before
        assert target.run("systemctl is-failed --quiet rigwright-firewall").rc == 0
        for host in targets:
            assert reaches(laptop, str(host.host.address), DECLARED)
            assert not reaches(gateway, str(host.host.address), DECLARED)
    assert soon(lambda: target.run("systemctl is-active --quiet rigwright-firewall").rc == 0)
    assert [in_force(host) for host in targets] == before
