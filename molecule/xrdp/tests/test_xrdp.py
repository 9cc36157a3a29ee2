# SPDX-License-Identifier: GPL-3.0-or-later
"""Desktops over RDP with a real client: who gets one, and that changes do not end it.

The tests depend on their order: alice logs in, other users fail to, and the configuration changes while her desktop is open.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from harness.sandbox.clients import Entry, Machine
from harness.sandbox.lab import ROOT

pytestmark = pytest.mark.both_releases

PASSWORD = "Wonder-1and"
# The colours of alice's session (prepare.yml): steelblue, with a white terminal in front of it.
ALICES_SCREEN = {(70, 130, 180), (255, 255, 255)}
# At least 50,000 pixels of each; compression changes the colours a little.
ALICES_COLOURS = r"""^ *([5-9][0-9]{4}|[0-9]{6}): .*#4[1-7][78][0-9A-F][AB][0-9A-F]
^ *([5-9][0-9]{4}|[0-9]{6}): .*#F[B-F]F[B-F]F[B-F]"""

Login = dict[str, Any]


@pytest.fixture(scope="session")
def client(laptop: Machine) -> Callable[..., str]:
    """Return a function that logs in with xfreerdp from the laptop, and returns the colours of the screen and the client's output."""
    laptop.put(
        {
            "/root/client.sh": Entry((ROOT / "harness/sandbox/rdp_client.sh").read_bytes(), 0o755),
            "/root/xrdp_probe.py": Entry((ROOT / "plugins/module_utils/_xrdp/probe.py").read_bytes()),
        }
    )

    def log_in(target: Machine, user: str, password: str = PASSWORD, security: str = "tls", colours: str = "") -> str:
        picture = f"/root/{target.host.name}-{user}.png"
        where = f"{target.host.address}:3389 {user} '{password}' {picture} '{colours}' /sec:{security}"
        return laptop.run(f"/root/client.sh {where}", seconds=120).stdout

    return log_in


@pytest.fixture(scope="session")
def everywhere(all_targets: list[Machine]) -> Callable[[Callable[[Machine], Any]], dict[str, Any]]:
    """Return a function that runs an action on all targets in parallel."""

    def run(action: Callable[[Machine], Any]) -> dict[str, Any]:
        with ThreadPoolExecutor() as pool:
            return dict(zip([target.host.name for target in all_targets], pool.map(action, all_targets), strict=True))

    return run


def probe(laptop: Machine, target: Machine, function: str, *more: str, port: int = 3389) -> str:
    """Run a function of probe.py on the laptop, which probes xrdp as a client before the login."""
    arguments = ", ".join([f'"{target.host.address}"', str(port), *more])
    program = f"import xrdp_probe as p; print(p.{function}({arguments}))"
    return laptop.must(f"cd /root && python3 -W ignore -c '{program}'").strip()


def shows(histogram: str, screen: set[tuple[int, int, int]]) -> bool:
    """Return whether each of these colours covers a large part of the picture; compression changes them a little."""
    found = re.findall(r"(\d+): .*#([0-9A-F]{2})([0-9A-F]{2})([0-9A-F]{2})", histogram)
    covering = [tuple(int(part, 16) for part in colour) for pixels, *colour in found if int(pixels) > 50_000]
    return all(
        any(max(abs(a - b) for a, b in zip(colour, other, strict=True)) < 8 for other in covering) for colour in screen
    )


def display_of(target: Machine, user: str) -> str:
    """Return the PID and command line of a user's Xorg, empty for none."""
    return target.run(f"pgrep --list-full --euid {user} Xorg").stdout.strip()


def log_of(target: Machine) -> str:
    return target.must("cat /var/log/xrdp-sesman.log")


def end_sessions(target: Machine, *users: str) -> None:
    for user in users:
        target.run(f"loginctl terminate-user {user}")
        target.must(
            f"for i in $(seq 50); do pgrep -u {user} >/dev/null || exit 0; sleep 0.2; done; pkill -9 -u {user}; true"
        )


@pytest.fixture(scope="module", autouse=True)
def ended(all_targets: list[Machine]) -> Any:
    """End all sessions after the tests, and stop fail2ban, which may still run without its jail."""
    yield
    for target in all_targets:
        end_sessions(target, "alice", "bob")
        target.must("systemctl disable --now fail2ban 2>&1")


@pytest.fixture(scope="module")
def alice(client: Callable[..., str], everywhere: Callable[..., dict[str, Any]]) -> dict[str, Login]:
    """Log in as alice on every target, and return the output of the client and the process of her display."""

    def log_in(target: Machine) -> Login:
        output = client(target, "alice", colours=ALICES_COLOURS)
        return {"output": output, "display": display_of(target, "alice")}

    return everywhere(log_in)


# --- Logins ---


def test_a_user_gets_a_desktop(alice: dict[str, Login], target: Machine) -> None:
    login = alice[target.host.name]
    assert "the client goes on" in login["output"]
    assert shows(login["output"], ALICES_SCREEN), login["output"]
    assert re.search(r"Xorg :1\d .*xrdp/xorg\.conf", login["display"])
    assert target.must("pgrep --euid alice openbox")
    assert re.search(r"(?i)session.*for user alice|login request .* user: alice", log_of(target))


def test_the_session_has_its_variables(alice: dict[str, Login], target: Machine) -> None:
    environment = dict(line.split("=", 1) for line in target.must("cat ~alice/session.env").splitlines() if "=" in line)
    assert environment["XRDP_SESSION"]
    assert environment["RIGWRIGHT_GREETING"] == "hello = world"
    assert environment["USER"] == "alice"


def test_other_users_get_no_desktop(
    client: Callable[..., str], everywhere: Callable[..., dict[str, Any]], targets: list[Machine]
) -> None:
    def try_all(target: Machine) -> list[str]:
        before = len(log_of(target))
        outputs = [
            client(target, "alice", "wrong"),
            client(target, "root"),
            client(target, "bob"),
        ]
        return [log_of(target)[before:], *outputs]

    found = everywhere(try_all)

    for target in targets:
        log, *outputs = found[target.host.name]
        assert "AUTHFAIL: user=alice" in log
        assert "ROOT login attempted, but root login is disabled" in log
        assert re.search("login denied for user bob|group problem for user: bob", log)
        assert "tarting X server" not in log and "Session started" not in log
        assert not any(shows(output, ALICES_SCREEN) for output in outputs)
        for user in ("root", "bob"):
            assert display_of(target, user) == ""


def test_the_server_accepts_only_tls_with_our_certificate(
    client: Callable[..., str], laptop: Machine, target: Machine
) -> None:
    assert "the client ended with" in client(target, "alice", security="rdp")
    assert "TLS is required" in probe(laptop, target, "negotiate", "p.PLAIN")
    assert probe(laptop, target, "speaks_old_tls") == "False"
    deployed = (
        target.must("openssl x509 -in /etc/xrdp/tls/server.crt -noout -fingerprint -sha256").strip().partition("=")[2]
    )
    assert probe(laptop, target, "certificate") == deployed
    assert target.must("stat -c %a:%U:%G /etc/xrdp/tls/server.key").strip() == "640:root:xrdp"


def test_the_network_process_has_no_rights(target: Machine) -> None:
    pid = target.must("systemctl show --property=MainPID --value xrdp").strip()
    assert target.must(f"stat -c %U /proc/{pid}").strip() == "xrdp"
    assert "CapEff:\t0000000000000000" in target.must(f"cat /proc/{pid}/status")


def test_polkit_denies_without_a_question(alice: dict[str, Login], target: Machine) -> None:
    # Exit status 1 is a denial; 2 would be a question for a password.
    session = target.must("pgrep --euid alice --oldest openbox").strip()
    action = "org.freedesktop.color-manager.create-device"
    assert target.run(f"pkcheck --action-id {action} --process {session}").rc == 1


def test_the_proofs_hold(verified: Callable[..., Any], targets: list[Machine]) -> None:
    verdict = verified()
    for target in targets:
        assert set(verdict[target.host.name].values()) == {"pass"}


# --- Changes that do not end a desktop ---


@pytest.fixture(scope="module")
def own_certificate(laptop: Machine) -> dict[str, str]:
    laptop.must(
        "cd /root && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 90 -subj /CN=ours"
        " -addext subjectAltName=DNS:ours -keyout own.key -out own.crt 2>/dev/null"
    )
    return {
        "xrdp_tls_cert_content": laptop.must("cat /root/own.crt"),
        "xrdp_tls_key_content": laptop.must("cat /root/own.key"),
    }


def test_settings_change_under_an_open_session(
    alice: dict[str, Login],
    applied: Callable[..., Any],
    client: Callable[..., str],
    laptop: Machine,
    everywhere: Callable[..., dict[str, Any]],
    own_certificate: dict[str, str],
    targets: list[Machine],
) -> None:
    starts = {target.host.name: target.must("systemctl show -p MainPID --value xrdp xrdp-sesman") for target in targets}
    variables = {
        "xrdp_users": ["alice", "bob"],
        "xrdp_session_env": {"RIGWRIGHT_GREETING": "another"},
        "xrdp_clipboard_out": False,
        "xrdp_fail2ban": True,
        "xrdp_fail2ban_maxretry": 1,
        **own_certificate,
    }

    result = applied(variables)

    for target in targets:
        assert result.findings(target.host.name)["xrdp.pending"] == "pass"
        assert target.must("systemctl show -p MainPID --value xrdp xrdp-sesman") == starts[target.host.name]
        assert display_of(target, "alice") == alice[target.host.name]["display"]
        # The wrong password of an earlier test has banned only the laptop.
        target.must(
            f"for i in $(seq 50); do nft list ruleset 2>/dev/null | grep -qw {laptop.host.address} && exit; sleep 0.2; done; exit 1"
        )
        status = target.must("fail2ban-client status rigwright-xrdp")
        assert status.split("Banned IP list:")[1].split() == [str(laptop.host.address)]
        target.must(f"fail2ban-client unban {laptop.host.address}")
        own = laptop.must("openssl x509 -in /root/own.crt -noout -fingerprint -sha256").strip().partition("=")[2]
        assert probe(laptop, target, "certificate") == own
    assert own_certificate["xrdp_tls_key_content"].splitlines()[1] not in result.output

    everywhere(lambda target: client(target, "bob"))
    for target in targets:
        assert "RIGWRIGHT_GREETING=another" in target.must(
            "tr '\\0' '\\n' < /proc/$(pgrep --euid bob --oldest openbox)/environ"
        )
        end_sessions(target, "bob")


def test_a_restart_waits_until_all_users_log_out(
    alice: dict[str, Login],
    apply: Callable[..., Any],
    applied: Callable[..., Any],
    laptop: Machine,
    targets: list[Machine],
) -> None:
    result = applied({"xrdp_port": 3390})

    for target in targets:
        assert result.findings(target.host.name)["xrdp.pending"] == "warn"
        assert display_of(target, "alice") == alice[target.host.name]["display"]
        assert "TLS" in probe(laptop, target, "negotiate", "p.TLS")
    absent = apply(variables={"xrdp_state": "absent"})
    assert absent.rc != 0
    assert "would end the desktop of alice" in absent.text

    # Reinstall the package, as in an upgrade: her desktop survives, and the next test reconnects to it.
    for target in targets:
        target.must("DEBIAN_FRONTEND=noninteractive apt-get install --reinstall -qq xrdp 2>&1", seconds=120)
        assert display_of(target, "alice") == alice[target.host.name]["display"]


def test_a_pending_restart_happens_after_the_logout(
    alice: dict[str, Login],
    applied: Callable[..., Any],
    client: Callable[..., str],
    everywhere: Callable[..., dict[str, Any]],
    laptop: Machine,
    targets: list[Machine],
) -> None:
    outputs = everywhere(lambda target: client(target, "alice", colours=ALICES_COLOURS))
    for target in targets:
        assert shows(outputs[target.host.name], ALICES_SCREEN), outputs[target.host.name]
        assert display_of(target, "alice") == alice[target.host.name]["display"]
        end_sessions(target, "alice")

    result = applied({"xrdp_port": 3390})

    for target in targets:
        assert result.findings(target.host.name)["xrdp.pending"] == "pass"
        assert "TLS" in probe(laptop, target, "negotiate", "p.TLS", port=3390)
        assert "nobody answers" in probe(laptop, target, "negotiate", "p.TLS")


# --- Refused requests ---


def test_a_taken_port_and_a_missing_user_are_refused(refused: Callable[..., None]) -> None:
    refused({"xrdp_port": 22, "xrdp_users": ["nobodyhere"]}, "xrdp_users: names no user of this host: nobodyhere")


def test_without_networks_only_this_host_can_connect(
    applied: Callable[..., Any], laptop: Machine, targets: list[Machine]
) -> None:
    applied({"xrdp_networks": []})
    for target in targets:
        assert "127.0.0.1:3389" in target.must("ss -Hltn sport = :3389")
        assert "nobody answers" in probe(laptop, target, "negotiate", "p.TLS")
        ports = {line.split()[3].rpartition(":")[0] for line in target.must("ss -Hltnp").splitlines() if "xrdp" in line}
        assert ports <= {"127.0.0.1", "[::ffff:127.0.0.1]"}
