"""The whole tunnel: a workstation that offers ssh, a gateway in between, and a laptop that logs in."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from harness.sandbox import fingerprint

PORTS = {"debian12": 6012, "debian13": 6013}


def visit(user: str, name: str, port: int) -> dict[str, object]:
    return {"server_user": user, "server_name": name, "bind_port": port}


@pytest.fixture(scope="session")
def visitors():
    """Return the visitors of the laptop: ssh of each target, on a loopback port of its own."""
    return {"frp_client_visitors": [visit(name, "ssh", port) for name, port in PORTS.items()]}


@pytest.fixture(scope="session")
def tunnel(apply, laptop, all_targets, visitors):
    """Apply vars.yml and `visitors`, and put the laptop's key on the targets."""
    for target in all_targets:
        target.must(
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


@pytest.mark.both_releases
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


def test_tunnel_recovers_after_the_server_was_away(tunnel, gateway, target):
    assert until(lambda: tunnel(target, "true").rc == 0)
    gateway.must("systemctl stop frps; sleep 10; systemctl start frps")
    assert until(lambda: tunnel(target, "true").rc == 0, seconds=60)


def test_added_service_keeps_open_connections(tunnel, apply, laptop, targets):
    target = targets[0]
    assert until(lambda: tunnel(target, "true").rc == 0)
    starts = fingerprint.service_starts(target)["frpc.service"]
    trust = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    laptop.start(
        f"ssh {trust} -p {PORTS[target.host.name]} owner@127.0.0.1 'for i in $(seq 40); do echo $i; sleep 0.5; done' > /root/long"
    )
    assert until(lambda: laptop.run("test -s /root/long").rc == 0)

    result = apply(variables={"frp_client_services": [{"name": "ssh"}, {"name": "web", "local_port": 8080}]})

    assert result.rc == 0
    assert set(result.changed().values()) == {1}, "the file with the reload"
    assert fingerprint.service_starts(target)["frpc.service"] == starts
    assert until(lambda: laptop.must("tail -n 1 /root/long").strip() == "40"), "the session ran to its end"
    assert "running" in target.must("set -a; . /run/frpc/admin; frpc status -c /etc/frpc/frpc.toml | grep web")
    assert apply().rc == 0


@pytest.mark.usefixtures("tunnel")
def test_a_remote_port_works_when_the_server_allows_it(apply, gateway, targets):
    name = targets[0].host.name
    service = [{"name": "ssh"}, {"name": "open", "local_port": 22, "remote_port": 6001}]
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


def test_client_runs_unprivileged_sandboxed_and_on_loopback(host):
    pid = host.check_output("systemctl show --property=MainPID --value frpc")
    assert host.check_output(f"stat -c %U /proc/{pid}") == "frpc"
    rating = host.check_output("systemd-analyze security --no-pager frpc | tail -n 1").split(": ")[1]
    assert float(rating.split()[0]) < 2.5
    sockets = [line.split()[3] for line in host.check_output("ss -Hltnp").splitlines() if "frpc" in line]
    assert sockets == ["127.0.0.1:574"]


@pytest.mark.usefixtures("tunnel")
def test_password_of_the_interface_is_of_this_start(target):
    before = target.must("cat /run/frpc/admin")
    assert len(before.strip()) == len("FRPC_ADMIN_PASSWORD=") + 64
    assert target.must("stat -c %a:%U /run/frpc /run/frpc/admin").split() == ["700:frpc", "600:frpc"]
    target.must("systemctl restart frpc")
    assert target.must("cat /run/frpc/admin") != before
    target.must("systemctl reload frpc")


def test_port_that_another_user_took_gets_no_password(apply, proof, target):
    port = {"frp_client_admin_port": 7400}
    assert apply(hosts=target.host.name, variables=port).rc == 0
    assert proof(target.host.name, port)["frp_client.admin_port"][0] == "warn"
    target.must("systemctl stop frpc")
    target.start("runuser -u owner -- python3 -m http.server --bind 127.0.0.1 7400")
    assert until(lambda: target.run("ss -Hltn | grep -q 127.0.0.1:7400").rc == 0)
    status, evidence = proof(target.host.name, port)["frp_client.services"]
    target.must("kill $(pgrep -f '[h]ttp.server')")
    assert (status, "the user owner listens there" in evidence) == ("fail", True)
    assert apply().rc == 0


SECRETS = {
    "frp_client_token": "a-token-that-nobody-may-see-anywhere",
    "frp_client_secret_key": "a-secret-that-nobody-may-see",
    "of a service": "a-services-secret-that-nobody-may-see",
    "of a visitor": "a-visitors-secret-that-nobody-may-see",
}


@pytest.fixture(scope="module")
def output(apply, all_targets):
    """Return all output, with -vvv and differences, while the role installs, verifies and refuses the secrets."""
    token, secret, of_service, of_visitor = SECRETS.values()
    variables = {
        "frp_client_token": token,
        "frp_client_secret_key": secret,
        "frp_client_services": [{"name": "ssh"}, {"name": "web", "local_port": 80, "secret_key": of_service}],
        "frp_client_visitors": [{**visit("nobody", "ssh", 6022), "secret_key": of_visitor}],
    }
    loud = ("--diff", "-vvv")
    check_mode = apply("frp_client", "targets", variables, *loud, check=True)
    real = apply("frp_client", "targets", variables, *loud)
    proof = apply("frp_client", "targets", {**variables, "apply_tasks_from": "verify"}, *loud)
    refusal = apply("frp_client", "targets", {**variables, "frp_client_extra": {"user": secret, "usr": token}}, *loud)

    assert [result.rc for result in (check_mode, real, proof)] == [0, 0, 0]
    assert refusal.rc != 0 and "frpc verify" in refusal.text
    for result in (check_mode, real):
        assert "/etc/frpc/token" in result.output and "(the content after is secret)" in result.output
    for target in all_targets:
        held = target.must("cat /etc/frpc/token /etc/frpc/frpc.toml /etc/frpc/conf.d/*")
        assert all(secret in held for secret in SECRETS.values()), "there is something to show"
    outputs = {
        "Ansible": "".join(result.output for result in (check_mode, real, proof, refusal)),
        # The journal has Ansible's own log of each module call; command lines are public.
        "the hosts": "".join(
            target.must("journalctl --no-pager; cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
            for target in all_targets
        ),
        "own passwords": [
            target.must("sed -n 's/^FRPC_ADMIN_PASSWORD=//p' /run/frpc/admin").strip() for target in all_targets
        ],
    }
    assert apply().rc == 0
    return outputs


@pytest.mark.both_releases
@pytest.mark.parametrize("place", ["Ansible", "the hosts"])
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_no_secret_shows(output, secret, place):
    assert output[place].count(secret) == 0


@pytest.mark.both_releases
def test_password_of_the_frpc_interface_does_not_show(output):
    assert [len(password) for password in output["own passwords"]] == [64, 64]
    assert not any(
        password in output[place] for password in output["own passwords"] for place in ("Ansible", "the hosts")
    )


def test_only_root_and_the_service_read_secrets(target):
    assert target.must("stat -c %a:%U:%G /etc/frpc/token /etc/frpc/frpc.toml").split() == ["640:root:frpc"] * 2


# --- What its other ends do not carry ---


@pytest.fixture
def proof(apply):
    """Return the findings of verify on a host: `{id: (status, evidence)}`."""

    def find(hosts: str, variables: dict[str, object]) -> dict[str, tuple[str, str]]:
        report = apply(hosts=hosts, variables={**variables, "apply_tasks_from": "verify"}).hosts[hosts]
        return {finding["id"]: (finding["status"], finding["evidence"]) for finding in report["findings"]}

    return find


@pytest.mark.usefixtures("tunnel")
def test_a_tunnel_that_works_is_proven_from_both_ends(proof, visitors):
    assert proof("laptop", visitors)["frp_client.visitors"] == (
        "pass",
        "debian12-ssh, debian13-ssh reach the other end",
    )
    findings = proof("debian12", {})
    assert findings["frp_client.services"][0] == "pass"
    assert findings["frp_client.confinement"][0] == "pass"


@pytest.mark.usefixtures("tunnel")
def test_misspelt_user_and_stopped_service_fail_with_the_reason(apply, proof, targets, visitors):
    """Check both: neither sends data first, and unlike a service that waits, both close the connection."""
    name = targets[0].host.name
    services = [{"name": "ssh"}, {"name": "waits", "local_port": 8080}, {"name": "down", "local_port": 8081}]
    assert apply(hosts=name, variables={"frp_client_services": services}).rc == 0
    targets[0].start("python3 -m http.server --bind 127.0.0.1 8080")
    wanted = [visit(name, "waits", 6022), visit(name, "down", 6023), visit("debain12", "waits", 6024)]
    assert apply(hosts="laptop", variables={"frp_client_visitors": wanted}).rc == 0

    status, evidence = proof("laptop", {"frp_client_visitors": wanted})["frp_client.visitors"]

    targets[0].must("kill $(pgrep -f '[h]ttp.server')")
    assert status == "fail"
    assert "custom listener for [debain12.waits] doesn't exist" in evidence
    assert "debian12-down: the connection is closed at once" in evidence
    assert "debian12-waits" not in evidence
    assert apply().rc == 0
    assert apply(hosts="laptop", variables=visitors).rc == 0


def test_a_port_that_the_server_refuses_is_named_with_its_reason(apply, proof, targets):
    name = targets[0].host.name
    services = {"frp_client_services": [{"name": "ssh"}, {"name": "open", "local_port": 22, "remote_port": 7001}]}
    assert apply(hosts=name, variables=services).rc == 0, "what the server allows is not known in this run"
    status, evidence = proof(name, services)["frp_client.services"]
    assert (status, evidence.partition(" ")[2]) == ("fail", "did not accept open: port not allowed")
    assert apply().rc == 0


def test_absent_keeps_a_foreign_service_and_user(apply, gateway):
    unit = "/etc/systemd/system/frpc.service"
    gateway.must(
        f"useradd --system frpc && printf '[Service]\\nExecStart=/usr/bin/sleep infinity\\nUser=frpc\\n' > {unit}"
    )
    gateway.must("systemctl daemon-reload && systemctl start frpc")
    result = apply(hosts="gateway", variables={"frp_client_state": "absent"})
    remaining = gateway.run("systemctl is-active frpc; id -un frpc").stdout.split()
    gateway.must(f"systemctl stop frpc; rm {unit}; systemctl daemon-reload; userdel frpc")
    assert (result.rc, result.changed(), remaining) == (0, {"gateway": 0}, ["active", "frpc"])


def test_bad_input_is_refused_with_the_variable(all_refused):
    all_refused(
        [
            ({"frp_client_token": "x" * 31}, "frp_client_token: is missing or shorter than 32"),
            ({"frp_client_server_address": ""}, "frp_client_server_address: is missing"),
            ({"frp_client_secret_key": "short"}, "frp_client_secret_key: is missing or shorter than 16"),
            ({"frp_client_services": [{"name": "web"}]}, "has no port for web"),
            ({"frp_client_services": [{"name": "ssh"}, {"name": "ssh", "local_port": 2222}]}, "name a tunnel twice"),
            (
                {
                    "frp_client_visitors": [
                        visit("a", "ssh", 6022),
                        visit("b", "ssh", 6022),
                    ]
                },
                "frp_client_visitors: wants port 6022, which is asked for twice",
            ),
            ({"frp_client_admin_port": 22}, "frp_client_admin_port: wants port 22, which is taken by sshd"),
            ({"frp_client_services": [{"nam": "ssh"}]}, "frp_client_services"),
            ({"frp_client_extra": {"serverAdr": "x"}}, "unknown field"),
        ]
    )


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"frp_client_services": [{"name": "ssh"}], "frp_client_visitors": [visit("debian13", "shh", 6022)]},
            "frp_client_visitors: asks for shh of debian13, which offers ssh",
        ),
        (
            {
                "frp_client_services": [{"name": "web", "local_port": 80, "remote_port": 7001}],
                "frp_server_allow_ports": [{"start": 6000, "end": 6010}],
            },
            "frp_client_services: asks for public port 7001 for web, which gateway does not allow",
        ),
        # As the server's play leaves it; the plays themselves: tests/unit/playbooks/test_site.py.
        ({"__frp_server_ended": False}, "frp_client_server_host: is gateway, which has failed earlier in this run"),
        ({"frp_client_server_host": "nowhere"}, "frp_client_tls_trusted_ca: is missing"),
    ],
    ids=["not offered", "not allowed", "failed server", "no CA"],
)
def test_service_that_no_host_offers_is_refused(refused, variables, message):
    refused(variables, message)


@pytest.mark.both_releases
def test_two_clients_with_the_same_name_are_refused(apply, unchanged):
    result = apply(variables={"frp_client_user": "same"})
    assert result.rc != 0
    assert "frp_client_user: is the same on debian1" in result.text
    unchanged()
