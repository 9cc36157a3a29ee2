# SPDX-License-Identifier: GPL-3.0-or-later
"""A desktop over RDP, as a real client sees it: who gets one and who does not, and that nothing ends it.

The tests tell one story in their order: alice logs in, others fail to, and while her desktop is open everything around it changes.
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
# What alice's session puts on her screen (prepare.yml): steelblue, and before it a terminal in white.
HER_SCREEN = {(70, 130, 180), (255, 255, 255)}
# The terminal is the last to appear: 50,000 pixels and more that are white.
LIKE_HERS = "^ *([5-9][0-9]{4}|[0-9]{6}): .*#FFFFFF "

Seen = dict[str, Any]


@pytest.fixture(scope="session")
def client(laptop: Machine) -> Callable[..., str]:
    """Log in with xfreerdp from the laptop; what is told is what its user sees, and its words."""
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
    """Do something with all targets side by side."""

    def run(action: Callable[[Machine], Any]) -> dict[str, Any]:
        with ThreadPoolExecutor() as pool:
            return dict(zip([target.host.name for target in all_targets], pool.map(action, all_targets), strict=True))

    return run


def knock(laptop: Machine, target: Machine, question: str, *more: str, port: int = 3389) -> str:
    """Ask xrdp as a client does before a login, from the laptop, with a function of the probe."""
    arguments = ", ".join([f'"{target.host.address}"', str(port), *more])
    program = f"import xrdp_probe as p; print(p.{question}({arguments}))"
    return laptop.must(f"cd /root && python3 -W ignore -c '{program}'").strip()


def shows(told: str, screen: set[tuple[int, int, int]]) -> bool:
    """Whether each of these colours covers a good part of the picture; compression on the way changes them a little."""
    found = re.findall(r"(\d+): .*#([0-9A-F]{2})([0-9A-F]{2})([0-9A-F]{2})", told)
    covering = [tuple(int(part, 16) for part in colour) for pixels, *colour in found if int(pixels) > 50_000]
    return all(
        any(max(abs(a - b) for a, b in zip(colour, one, strict=True)) < 8 for one in covering) for colour in screen
    )


def display_of(target: Machine, user: str) -> str:
    """The number of a user's Xorg process and what it was started with, empty for none."""
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
    """Nobody is logged in when the role's own tests are over, and fail2ban, which may have gone on without its jail, is as it was."""
    yield
    for target in all_targets:
        end_sessions(target, "alice", "bob")
        target.must("systemctl disable --now fail2ban 2>&1")


@pytest.fixture(scope="module")
def alice(client: Callable[..., str], everywhere: Callable[..., dict[str, Any]]) -> dict[str, Seen]:
    """Alice has logged in on every target; what she saw, and which process is her display."""

    def log_in(target: Machine) -> Seen:
        told = client(target, "alice", colours=LIKE_HERS)
        return {"told": told, "display": display_of(target, "alice")}

    return everywhere(log_in)


# --- Who gets a desktop ---


def test_a_user_sees_a_desktop_of_her_own(alice: dict[str, Seen], target: Machine) -> None:
    seen = alice[target.host.name]
    assert "the client goes on" in seen["told"]
    assert shows(seen["told"], HER_SCREEN), seen["told"]
    assert re.search(r"Xorg :1\d .*xrdp/xorg\.conf", seen["display"])
    assert target.must("pgrep --euid alice openbox")
    assert re.search(r"(?i)session.*for user alice|login request .* user: alice", log_of(target))


def test_the_session_knows_that_it_is_one_and_has_its_variables(alice: dict[str, Seen], target: Machine) -> None:
    environment = dict(line.split("=", 1) for line in target.must("cat ~alice/session.env").splitlines() if "=" in line)
    assert environment["XRDP_SESSION"]
    assert environment["RIGWRIGHT_GREETING"] == "hello = world"
    assert environment["USER"] == "alice"


def test_others_get_none(
    client: Callable[..., str], everywhere: Callable[..., dict[str, Any]], targets: list[Machine]
) -> None:
    def try_all(target: Machine) -> list[str]:
        before = len(log_of(target))
        told = [
            client(target, "alice", "wrong"),
            client(target, "root"),
            client(target, "bob"),
        ]
        return [log_of(target)[before:], *told]

    found = everywhere(try_all)

    for target in targets:
        log, *told = found[target.host.name]
        assert "AUTHFAIL: user=alice" in log
        assert "ROOT login attempted, but root login is disabled" in log
        assert re.search("login denied for user bob|group problem for user: bob", log)
        assert "tarting X server" not in log and "Session started" not in log
        assert not any(shows(words, HER_SCREEN) for words in told)
        for user in ("root", "bob"):
            assert display_of(target, user) == ""


def test_only_tls_from_1_2_on_is_spoken_and_the_certificate_is_ours(
    client: Callable[..., str], laptop: Machine, target: Machine
) -> None:
    assert "the client ended with" in client(target, "alice", security="rdp")
    assert "TLS is required" in knock(laptop, target, "negotiate", "p.PLAIN")
    assert knock(laptop, target, "speaks_old_tls") == "False"
    deployed = (
        target.must("openssl x509 -in /etc/xrdp/tls/server.crt -noout -fingerprint -sha256").strip().partition("=")[2]
    )
    assert knock(laptop, target, "certificate") == deployed
    assert target.must("stat -c %a:%U:%G /etc/xrdp/tls/server.key").strip() == "640:root:xrdp"


def test_what_speaks_to_strangers_has_no_rights(target: Machine) -> None:
    pid = target.must("systemctl show --property=MainPID --value xrdp").strip()
    assert target.must(f"stat -c %U /proc/{pid}").strip() == "xrdp"
    assert "CapEff:\t0000000000000000" in target.must(f"cat /proc/{pid}/status")


def test_polkit_asks_nothing_and_grants_nothing(alice: dict[str, Seen], target: Machine) -> None:
    """Exit status 1: not authorized. 2 would be a question for a password."""
    session = target.must("pgrep --euid alice --oldest openbox").strip()
    action = "org.freedesktop.color-manager.create-device"
    assert target.run(f"pkcheck --action-id {action} --process {session}").rc == 1


def test_the_proofs_hold(verified: Callable[..., Any], targets: list[Machine]) -> None:
    verdict = verified()
    for target in targets:
        assert set(verdict[target.host.name].values()) == {"pass"}


# --- What does not end it ---


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


def test_settings_change_under_an_open_session_and_hold_for_the_next_login(
    alice: dict[str, Seen],
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
        # The wrong password of before has banned the laptop, and nobody else.
        target.must(
            f"for i in $(seq 50); do nft list ruleset 2>/dev/null | grep -qw {laptop.host.address} && exit; sleep 0.2; done; exit 1"
        )
        status = target.must("fail2ban-client status rigwright-xrdp")
        assert status.split("Banned IP list:")[1].split() == [str(laptop.host.address)]
        target.must(f"fail2ban-client unban {laptop.host.address}")
        own = laptop.must("openssl x509 -in /root/own.crt -noout -fingerprint -sha256").strip().partition("=")[2]
        assert knock(laptop, target, "certificate") == own
    assert own_certificate["xrdp_tls_key_content"].splitlines()[1] not in result.output

    everywhere(lambda target: client(target, "bob"))
    for target in targets:
        assert "RIGWRIGHT_GREETING=another" in target.must(
            "tr '\\0' '\\n' < /proc/$(pgrep --euid bob --oldest openbox)/environ"
        )
        end_sessions(target, "bob")


def test_a_restart_waits_until_nobody_is_logged_in(
    alice: dict[str, Seen],
    apply: Callable[..., Any],
    applied: Callable[..., Any],
    laptop: Machine,
    targets: list[Machine],
) -> None:
    result = applied({"xrdp_port": 3390})

    for target in targets:
        assert result.findings(target.host.name)["xrdp.pending"] == "warn"
        assert display_of(target, "alice") == alice[target.host.name]["display"]
        assert "TLS" in knock(laptop, target, "negotiate", "p.TLS")
    absent = apply(variables={"xrdp_state": "absent"})
    assert absent.rc != 0
    assert "would end the desktop of alice" in absent.text

    # The package comes once more, as with an upgrade; she is still there, and gets her desktop back.
    for target in targets:
        target.must("DEBIAN_FRONTEND=noninteractive apt-get install --reinstall -qq xrdp 2>&1", seconds=120)
        assert display_of(target, "alice") == alice[target.host.name]["display"]


def test_she_comes_back_to_the_same_desktop_and_when_she_has_left_the_restart_is_made_up_for(
    alice: dict[str, Seen],
    applied: Callable[..., Any],
    client: Callable[..., str],
    everywhere: Callable[..., dict[str, Any]],
    laptop: Machine,
    targets: list[Machine],
) -> None:
    told = everywhere(lambda target: client(target, "alice", colours=LIKE_HERS))
    for target in targets:
        assert shows(told[target.host.name], HER_SCREEN), told[target.host.name]
        assert display_of(target, "alice") == alice[target.host.name]["display"]
        end_sessions(target, "alice")

    result = applied({"xrdp_port": 3390})

    for target in targets:
        assert result.findings(target.host.name)["xrdp.pending"] == "pass"
        assert "TLS" in knock(laptop, target, "negotiate", "p.TLS", port=3390)
        assert "nobody answers" in knock(laptop, target, "negotiate", "p.TLS")


# --- What is refused ---


def test_a_port_that_is_taken_and_a_user_who_is_not_there_are_refused(refused: Callable[..., None]) -> None:
    refused({"xrdp_port": 22, "xrdp_users": ["nobodyhere"]}, "xrdp_users: names no user of this host: nobodyhere")


def test_without_networks_it_is_for_this_host_alone(
    applied: Callable[..., Any], laptop: Machine, targets: list[Machine]
) -> None:
    applied({"xrdp_networks": []})
    for target in targets:
        assert "127.0.0.1:3389" in target.must("ss -Hltn sport = :3389")
        assert "nobody answers" in knock(laptop, target, "negotiate", "p.TLS")
        ports = {line.split()[3].rpartition(":")[0] for line in target.must("ss -Hltnp").splitlines() if "xrdp" in line}
        assert ports <= {"127.0.0.1", "[::ffff:127.0.0.1]"}
