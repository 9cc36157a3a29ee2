"""The whole tunnel: a workstation that offers ssh, a gateway in between, and a laptop that logs in."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from harness import fingerprint

SECRET = "0123456789abcdef"  # molecule/frp_client/vars.yml
PORTS = {"debian12": 6012, "debian13": 6013}


@pytest.fixture(scope="session")
def visitors():
    """What the laptop visits: ssh of each target, on a loopback port of its own."""
    return {
        "frp_client_services": [],
        "frp_client_visitors": [{"name": "ssh", "user": name, "bind_port": port} for name, port in PORTS.items()],
    }


@pytest.fixture(scope="session")
def tunnel(apply, laptop, targets, visitors):
    """Everything as vars.yml and `visitors` have it, and the laptop's key on the targets."""
    for one in targets:
        one.must(
            f"mkdir -p ~owner/.ssh; grep -qF '{laptop.public_key().strip()}' ~owner/.ssh/authorized_keys || "
            f"echo '{laptop.public_key().strip()}' >> ~owner/.ssh/authorized_keys"
        )
    for hosts, variables in (("targets", {}), ("laptop", visitors)):
        result = apply(hosts=hosts, variables=variables)
        assert result.rc == 0, result.output
    return lambda target, command, **options: laptop.ssh(
        "owner@127.0.0.1", command, port=PORTS[target.host.name], **options
    )


def until(check: Callable[[], bool], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while not check():
        if time.monotonic() > end:
            return False
        time.sleep(0.5)
    return True


def test_a_login_from_the_laptop_reaches_the_workstation(tunnel, target):
    assert until(lambda: tunnel(target, "hostname").stdout.strip() == target.host.name)


def test_a_file_of_50_mb_arrives_whole(tunnel, target, laptop):
    assert until(lambda: tunnel(target, "true").rc == 0)
    target.must("head -c 50M /dev/urandom > /srv/big")
    tunnel(target, "cat /srv/big", seconds=120)
    trust = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    laptop.must(f"scp -q {trust} -P {PORTS[target.host.name]} owner@127.0.0.1:/srv/big /srv/big", seconds=120)
    digest = "sha256sum < /srv/big; stat -c %s /srv/big"
    assert laptop.must(digest) == target.must(digest)


@pytest.mark.usefixtures("tunnel")
def test_nothing_is_opened_at_the_gateway(gateway):
    ports = {line.split()[3] for line in gateway.must("ss -Hltnp").splitlines() if "frps" in line}
    assert {port.rsplit(":", 1)[1] for port in ports} == {"7000"}


def test_a_visitor_with_another_secret_is_turned_away(tunnel, apply, target, visitors):
    assert apply(hosts="laptop", variables={**visitors, "frp_client_secret_key": "f" * 16}).rc == 0
    assert tunnel(target, "true").rc != 0
    assert apply(hosts="laptop", variables=visitors).rc == 0
    assert until(lambda: tunnel(target, "true").rc == 0)


def test_a_user_who_is_not_allowed_is_turned_away(tunnel, apply, target):
    services = [{"name": "ssh", "allow_users": ["somebody"]}]
    assert apply(variables={"frp_client_services": services}).rc == 0
    assert not until(lambda: tunnel(target, "true").rc == 0, seconds=4)
    assert apply().rc == 0
    assert until(lambda: tunnel(target, "true").rc == 0)


def test_the_tunnel_comes_back_by_itself_when_the_server_was_away(tunnel, gateway, target):
    assert until(lambda: tunnel(target, "true").rc == 0)
    gateway.must("systemctl stop frps; sleep 10; systemctl start frps")
    assert until(lambda: tunnel(target, "true").rc == 0, seconds=60)


def test_another_service_is_added_without_ending_an_open_connection(tunnel, apply, laptop, targets):
    target = targets[0]
    assert until(lambda: tunnel(target, "true").rc == 0)
    starts = fingerprint.service_starts(target)["frpc.service"]
    trust = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    laptop.start(
        f"ssh {trust} -p {PORTS[target.host.name]} owner@127.0.0.1 'for i in $(seq 40); do echo $i; sleep 0.5; done' > /root/long"
    )
    assert until(lambda: laptop.run("test -s /root/long").rc == 0)

    result = apply(variables={"frp_client_services": [{"name": "ssh"}, {"name": "web", "port": 8080}]})

    assert result.rc == 0
    assert result.changed() == {"debian12": 2, "debian13": 2}, "the file, and the reload"
    assert fingerprint.service_starts(target)["frpc.service"] == starts
    assert until(lambda: laptop.must("tail -n 1 /root/long").strip() == "40"), "the session ran to its end"
    assert "running" in target.must("frpc status -c /etc/frpc/frpc.toml | grep web")
    assert apply().rc == 0


@pytest.mark.usefixtures("tunnel")
def test_a_remote_port_works_when_the_server_allows_it(apply, gateway, targets):
    name = targets[0].host.name
    service = [{"name": "ssh"}, {"name": "open", "port": 22, "remote_port": 6001}]
    assert apply(hosts=name, variables={"frp_client_services": service}).rc == 0
    banner = "python3 -c 'import socket; print(socket.create_connection((\"127.0.0.1\", 6001), 5).recv(7))'"
    assert until(lambda: "SSH-2.0" in gateway.run(banner).stdout)
    assert apply().rc == 0


def test_a_changed_token_restarts_the_client(tunnel, apply, target):
    before = fingerprint.service_starts(target)["frpc.service"]
    assert apply(hosts=target.host.name, variables={"frp_client_token": "f" * 32}).rc == 0
    assert fingerprint.service_starts(target)["frpc.service"] != before
    assert until(lambda: "token in login doesn't match" in target.must("journalctl -u frpc --no-pager -n 20"))
    assert apply().rc == 0
    assert until(lambda: tunnel(target, "true").rc == 0)


def test_it_runs_unprivileged_confined_and_on_loopback(host):
    pid = host.check_output("systemctl show --property=MainPID --value frpc")
    assert host.check_output(f"stat -c %U /proc/{pid}") == "frpc"
    rating = host.check_output("systemd-analyze security --no-pager frpc | tail -n 1").split(": ")[1]
    assert float(rating.split()[0]) < 2.5
    sockets = [line.split()[3] for line in host.check_output("ss -Hltnp").splitlines() if "frpc" in line]
    assert sockets == ["127.0.0.1:7400"]


def test_no_secret_shows(apply, target):
    other = "fedcba9876543210" * 2
    words = apply(
        "frp_client", target.host.name, {"frp_client_token": other, "frp_client_secret_key": other}, "--diff", "-vvv"
    ).output
    assert other not in words
    assert other not in target.must("journalctl --no-pager; cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' '; true")
    assert target.must("stat -c %a:%U:%G /etc/frpc/token /etc/frpc/frpc.toml").split() == ["640:root:frpc"] * 2
    assert apply().rc == 0


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        pytest.param(
            {"frp_client_token": "x" * 31}, "frp_client_token: is missing or shorter than 32", id="short token"
        ),
        pytest.param({"frp_client_server_address": ""}, "frp_client_server_address: is missing", id="no server"),
        pytest.param(
            {"frp_client_secret_key": "short"}, "frp_client_secret_key: is missing or shorter than 16", id="short secret"
        ),
        pytest.param({"frp_client_services": [{"name": "web"}]}, "has no port for web", id="no port"),
        pytest.param(
            {"frp_client_services": [{"name": "ssh"}, {"name": "ssh", "port": 2222}]}, "name a tunnel twice", id="twice"
        ),
        pytest.param(
            {"frp_client_user": "same"},
            "frp_client_user: is the same on debian1",
            id="two clients, the same proxy name",
        ),
        pytest.param(
            {
                "frp_client_visitors": [
                    {"name": "ssh", "user": "a", "bind_port": 6022},
                    {"name": "ssh", "user": "b", "bind_port": 6022},
                ]
            },
            "frp_client_visitors: name a bind_port twice",
            id="a port twice",
        ),
        pytest.param({"frp_client_admin_port": 22}, "frp_client_admin_port: wants port 22, taken by", id="port taken"),
        pytest.param({"frp_client_services": [{"nam": "ssh"}]}, "frp_client_services", id="unknown key"),
        pytest.param({"frp_client_server_host": "nowhere"}, "frp_client_tls_trusted_ca: is missing", id="no CA"),
        pytest.param({"frp_client_extra": {"serverAdr": "x"}}, "unknown field", id="unknown key of frpc"),
    ],
)
def test_bad_input_is_refused_with_the_variable_and_changes_nothing(apply, unchanged, variables, words):
    result = apply(variables=variables)
    assert result.rc != 0
    assert words in " ".join(result.output.split())
    unchanged()
