"""A server that lets in who has the token and trusts it, and nobody else."""

from __future__ import annotations

import shlex
import tarfile

import pytest

from harness.depot import lifecycle as depot
from harness.sandbox import fingerprint
from harness.sandbox.clients import Entry

TOKEN = "0123456789abcdef0123456789abcdef"  # molecule/frp_server/vars.yml
ARCHIVE = depot.FRP + "/v0.70.1/frp_0.70.1_linux_amd64.tar.gz"


@pytest.fixture(scope="session")
def client(laptop):
    """Install frpc on the laptop, without the role, to try what the role would never write."""
    with tarfile.open(depot.WWW / ARCHIVE) as archive:
        program = archive.extractfile("frp_0.70.1_linux_amd64/frpc").read()
    laptop.put({"/usr/local/bin/frpc": Entry(program, 0o755)})
    return laptop


@pytest.fixture
def connect(client, target):
    """Start frpc with a configuration and return its output after it gave up, or a second after it prints the awaited text."""

    def start(
        text: str = "", *, token: str = TOKEN, ca: str | None = None, awaited: str = "login to server success"
    ) -> str:
        trusted = target.must("cat /etc/frps/pki/ca.crt") if ca is None else ca
        client.put({"/root/ca.crt": Entry(trusted.encode())})
        base = f'serverAddr = "{target.host.address}"\nserverPort = 7000\nauth.token = "{token}"\n'
        tls = 'transport.tls.trustedCaFile = "/root/ca.crt"\n' if "tls" not in text else ""
        client.put({"/root/frpc.toml": Entry((base + tls + text).encode())})
        script = (
            "timeout 30 frpc -c /root/frpc.toml > /root/words 2>&1 & "
            f"while kill -0 $! 2>&-; do grep -q {shlex.quote(awaited)} /root/words && sleep 1 && kill $!; sleep 0.1; done; "
            "cat /root/words"
        )
        return client.must(script)

    return start


def proxy(port: int) -> str:
    return f'[[proxies]]\nname = "p{port}"\ntype = "tcp"\nlocalPort = 22\nremotePort = {port}\n'


def test_a_client_with_the_token_is_let_in(connect):
    assert "login to server success" in connect()


def test_a_wrong_token_is_refused(connect):
    assert "token in login doesn't match token from configuration" in connect(token="wrong" * 8)


def test_a_client_without_tls_is_refused(connect, target):
    assert "login to server success" not in connect("transport.tls.enable = false\n")
    assert "non-TLS connection received on a TlsOnly server" in target.must("journalctl -u frps --no-pager")


def test_client_with_another_ca_refuses_the_server(connect, client):
    client.must("openssl req -x509 -newkey rsa:2048 -nodes -keyout /root/k -out /root/c -subj /CN=other 2>/dev/null")
    output = connect(ca=client.must("cat /root/c"))
    assert "login to the server failed" in output
    assert "login to server success" not in output


def test_a_port_outside_the_range_is_refused(connect):
    assert "port not allowed" in connect(proxy(6011), awaited="port not allowed")


def test_a_public_port_is_opened_on_loopback_only(connect, target):
    target.start("until test -e /run/enough; do ss -Hltn sport = :6005 >> /run/6005; sleep 0.1; done; rm /run/enough")
    try:
        assert "start proxy success" in connect(proxy(6005), awaited="start proxy success")
    finally:
        target.must("touch /run/enough; while test -e /run/enough; do sleep 0.1; done")
    assert {line.split()[3] for line in target.must("cat /run/6005; rm /run/6005").splitlines()} == {"127.0.0.1:6005"}


def test_firewall_opens_the_ports_of_the_server(target):
    declared = target.must("cat /etc/nftables.d/rigwright/frp_server.nft").splitlines()
    # The public ports are on loopback, so nobody is let in there.
    assert [line for line in declared if not line.startswith("#")] == ['tcp dport 7000 accept comment "frp_server"']


def test_the_server_listens_only_on_its_declared_addresses(host):
    sockets = {line.split()[3] for line in host.check_output("ss -Hltnp").splitlines() if "frps" in line}
    assert sockets - {"0.0.0.0:7000", "*:7000"} == {"127.0.0.1:7500"}


def test_the_dashboard_wants_the_password(target, laptop):
    ask = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://{}:7500/metrics\", timeout=3).status)'"
    assert "401" in target.run(ask.format("127.0.0.1")).stderr
    assert "refused" in laptop.run(ask.format(target.host.address)).stderr


def test_server_runs_unprivileged_and_sandboxed(host):
    pid = host.check_output("systemctl show --property=MainPID --value frps")
    assert host.check_output(f"stat -c %u /proc/{pid}") != "0"
    rating = host.check_output("systemd-analyze security --no-pager frps | tail -n 1").split(": ")[1]
    assert float(rating.split()[0]) < 2.5


SECRETS = {
    "frp_server_token": "a-token-that-nobody-may-see-anywhere",
    "frp_server_dashboard_password": "a-password-that-nobody-may-see",
    "a path in frp_server_extra": "a-path-that-nobody-may-see",
}


@pytest.fixture(scope="module")
def secret_variables():
    token, password, path = SECRETS.values()
    plugin = {"name": "judge", "addr": "127.0.0.1:9", "path": f"/{path}", "ops": ["Ping"]}
    return {
        "frp_server_token": token,
        "frp_server_dashboard_password": password,
        "frp_server_extra": {"httpPlugins": [plugin]},
    }


@pytest.fixture(scope="module")
def output(apply, secret_variables, all_targets):
    """Return all output, with -vvv and differences, while the role installs, verifies and refuses the secrets."""
    loud = ("--diff", "-vvv")
    check_mode = apply("frp_server", "targets", secret_variables, *loud, check=True)
    real = apply("frp_server", "targets", secret_variables, *loud)
    proof = apply("frp_server", "targets", {**secret_variables, "apply_tasks_from": "verify"}, *loud)
    extra = {**secret_variables["frp_server_extra"], "bindPrt": SECRETS["a path in frp_server_extra"]}
    refusal = apply("frp_server", "targets", {**secret_variables, "frp_server_extra": extra}, *loud)

    assert [result.rc for result in (check_mode, real, proof)] == [0, 0, 0]
    assert refusal.rc != 0 and "frps verify" in refusal.text
    for result in (check_mode, real):
        assert "/etc/frps/token" in result.output and "(the content after is secret)" in result.output
    for target in all_targets:
        held = target.must("cat /etc/frps/token /etc/frps/frps.toml")
        assert all(secret in held for secret in SECRETS.values()), "there is something to show"
    outputs = {
        "Ansible": "".join(result.output for result in (check_mode, real, proof, refusal)),
        # The journal has Ansible's own log of each module call; command lines are public.
        "the hosts": "".join(
            target.must("journalctl --no-pager; cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
            for target in all_targets
        ),
    }
    assert apply().rc == 0
    return outputs


@pytest.mark.parametrize("place", ["Ansible", "the hosts"])
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
@pytest.mark.both_releases
def test_no_secret_shows(output, secret, place):
    assert output[place].count(secret) == 0


def test_only_root_reads_secrets(target):
    assert target.must("stat -c %a:%U /etc/frps/token /etc/frps/frps.toml").split() == ["600:root"] * 2


def test_verify_detects_a_stopped_server(apply, target):
    name = target.host.name
    proof = {"apply_tasks_from": "verify"}
    findings = ("tls", "dashboard", "confinement", "drop_ins")
    assert apply(hosts=name, variables=proof).findings(name) == {f"frp_server.{part}": "pass" for part in findings}
    target.must("systemctl stop frps")
    broken = apply(hosts=name, variables=proof).findings(name)
    target.must("systemctl start frps")
    assert (broken["frp_server.tls"], broken["frp_server.dashboard"]) == ("fail", "fail")


# --- What is refused, before anything changes ---


def test_bad_input_is_refused_with_the_variable(all_refused):
    all_refused(
        [
            ({"frp_server_token": ""}, "frp_server_token: is missing"),
            ({"frp_server_token": "x" * 31}, "frp_server_token: is missing or shorter than 32"),
            ({"frp_server_dashboard_password": "short"}, "frp_server_dashboard_password: is shorter"),
            ({"frp_server_bind_port": 22}, "frp_server_bind_port: wants port 22, which is taken by sshd"),
            ({"frp_server_bind_port": 70000}, "frp_server_bind_port: is not a TCP port"),
            (
                {"frp_server_dashboard_port": 7000},
                "frp_server_dashboard_port: wants port 7000, which is asked for twice",
            ),
            ({"frp_server_bind_port": "many"}, "frp_server_bind_port"),
            ({"frp_server_version": "0.1.0"}, "frp_server_releases: has no SHA-256 of frp 0.1.0"),
            ({"frp_server_allow_ports": [{"first": 1}]}, "frp_server_allow_ports"),
            ({"frp_server_extra": {"bindPrt": 1}}, "unknown field"),
            ({"frp_server_state": "gone"}, "frp_server_state"),
        ]
    )


def test_braces_that_frp_would_run_are_refused(apply, tmp_path):
    unsafe = tmp_path / "unsafe.yml"
    unsafe.write_text('frp_server_extra: {subDomainHost: !unsafe "{{ .Envs.HOME }}"}\n')
    result = apply("frp_server", "debian12", {}, "--extra-vars", f"@{unsafe}")
    assert result.rc != 0
    assert "frp_server_extra: holds two opening braces" in result.output


def test_a_disk_that_is_nearly_full_is_refused(refused):
    refused({"__common_free_bytes": 10**18}, "left on its root file system")


def test_a_tampered_archive_is_refused_and_changes_nothing(refused, publish):
    """Offer an archive as 0.69.0 that does not have its checksum, to a server on 0.70.1."""
    with publish(ARCHIVE.replace("0.70.1", "0.69.0"), (depot.WWW / ARCHIVE).read_bytes()):
        refused({"frp_server_version": "0.69.0"}, "is not the requested archive")


def test_an_upgrade_and_the_way_back(apply, targets):
    def versions() -> set[str]:
        return {target.must("frps --version").strip() for target in targets}

    assert apply(variables={"frp_server_version": "0.69.0"}).rc == 0
    assert versions() == {"0.69.0"}
    assert apply().rc == 0
    assert versions() == {"0.70.1"}
    assert all(target.must("ls /opt/frp").split() == ["0.69.0", "0.70.1"] for target in targets), (
        "the old one stays for going back"
    )
    fetched = depot.REQUESTS.stat().st_size
    assert apply(variables={"frp_server_version": "0.69.0"}).rc == 0
    assert versions() == {"0.69.0"}
    assert depot.REQUESTS.stat().st_size == fetched, "going back needs no network"
    assert apply().rc == 0


def test_next_run_completes_a_killed_run(apply, target):
    """Replace the file that the service loaded: that alone makes the next run restart it."""
    assert apply().rc == 0
    target.must("sed -i 's/maxPortsPerClient = 10/maxPortsPerClient = 11/' /etc/frps/frps.toml")
    before = fingerprint.service_starts(target)["frps.service"]
    result = apply(variables={"frp_server_max_ports_per_client": 11})
    assert result.rc == 0
    assert fingerprint.service_starts(target)["frps.service"] != before
    assert apply().rc == 0


def test_a_file_edited_by_hand_is_put_right(apply, target):
    target.must("echo '# mine' >> /etc/frps/frps.toml")
    assert apply().rc == 0
    assert "# mine" not in target.must("cat /etc/frps/frps.toml")
