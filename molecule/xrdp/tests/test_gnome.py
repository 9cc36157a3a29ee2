# SPDX-License-Identifier: GPL-3.0-or-later
"""GNOME's own remote login on Debian 13: the login of the machine, the login of a user, and a real desktop.

The clients are xfreerdp of Debian 12, on another host, and xfreerdp3, which supports the handover. A host of the sandbox has neither
a graphics card nor /dev/fuse: GDM runs without a local screen, and the client disables the clipboard.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.sandbox.clients import Done, Entry, Machine
from molecule.conftest import Result

pytestmark = [
    pytest.mark.both_releases,
    pytest.mark.after_contract("GNOME and its display manager, as packages that stay"),
    pytest.mark.slow("installs GNOME, 400 packages, for minutes"),
]

PASSWORD = 'Trees "%$ grün 1'
REQUEST = {"remote_desktop_backend": "gnome", "xrdp_machine_password": PASSWORD, "xrdp_users": []}
UNIT = "gnome-remote-desktop.service"

Apply = Callable[..., Result]


@pytest.fixture(scope="module")
def host(machine: Callable[[str], Machine]) -> Machine:
    found = machine("debian13")
    found.must(
        "DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "
        "freerdp3-x11 xvfb xauth xdotool imagemagick",
        seconds=300,
    )
    # GNOME becomes the desktop of the host when it is installed, and has no X11 session here: set another one for xrdp.
    found.must("update-alternatives --set x-session-manager /usr/bin/openbox-session")
    # Without a graphics card GDM 48 exits and restarts endlessly.
    found.put(
        {
            "/etc/gdm3": Entry(None, mode=0o755),
            "/etc/gdm3/daemon.conf": Entry(b"[daemon]\nPreferredDisplayServer=none\n"),
        }
    )
    return found


@pytest.fixture(scope="module")
def gnome(applied: Apply, host: Machine) -> Callable[..., Result]:
    """Return a function that applies the role to this host with the backend GNOME."""
    return lambda **variables: applied({**REQUEST, **variables}, hosts=host.host.name)


@pytest.fixture(scope="module", autouse=True)
def served(applied: Apply, gnome: Callable[..., Result], host: Machine) -> Iterator[Result]:
    """Apply the role with xrdp, and then with GNOME."""
    applied(hosts=host.host.name)
    result = gnome()
    wait_for_listener(host)
    yield result
    applied({**REQUEST, "xrdp_state": "absent", "xrdp_allow_disruption": True}, hosts=host.host.name)


def wait_for_listener(host: Machine, port: int = 3389) -> None:
    """Wait until the daemon listens, which it does when GDM is ready."""
    host.must(f"until ss -Hltn 'sport = {port}' | grep -q .; do sleep 0.5; done", seconds=60)


def authenticate(
    client: Machine, password: str, program: str = "xfreerdp", options: str = "", at: str = "debian13"
) -> Done:
    """Send the credential of the machine, without a login of a user."""
    return client.run(
        f"xvfb-run -a {program} /v:{at} /u:workstation /p:{shlex.quote(password)} /cert:ignore +auth-only {options}",
        seconds=60,
    )


def allowed(client: Machine, password: str, **options: str) -> bool:
    # The daemon refuses connections that follow too quickly, as a protection against floods.
    time.sleep(2)
    return authenticate(client, password, **options).rc == 0


def session_of(host: Machine, user: str) -> str:
    """Return the session by remote login, empty where there is none."""
    listed = host.must("loginctl list-sessions --no-legend").splitlines()
    for number in (line.split()[0] for line in listed if user in line):
        shown = host.run(f"loginctl show-session {number} --property=Remote --property=Type --property=Class").stdout
        if {"Remote=yes", "Type=wayland", "Class=user"} <= {*shown.split()}:
            return number
    return ""


LOGIN = """
Xvfb :77 -screen 0 1200x700x24 & screen=$!
export DISPLAY=:77
trap 'kill $screen' EXIT
sleep 1
picture() {{ import -window root /root/$1.png; }}
colours() {{ identify -format %k /root/$1.png; }}
until_picture() {{ for _ in $(seq 40); do sleep 1; picture $1; test $(colours $1) -gt 500 && return; done; return 1; }}
# GNOME gives its login screen half a minute to start, which can be too short on a busy machine.
for attempt in 1 2 3 4; do
    timeout 150 xfreerdp3 /v:127.0.0.1 /u:workstation /p:{password} /cert:ignore /size:1200x700 -clipboard \\
        >/root/client.log 2>&1 &
    client=$!
    until_picture greeter && break
    kill $client; sleep 5
done
kill -0 $client || {{ echo 'no login screen'; exit 1; }}
sleep 3
# The pointer selects the window that gets the keys. The first user is alice.
xdotool mousemove 600 650; xdotool key Return; sleep 4
xdotool type --delay 80 {login}; xdotool key Return; sleep 12
until_picture desktop || {{ echo 'no picture'; exit 1; }}
# Count the pixels that differ from the login screen.
compare -metric AE /root/greeter.png /root/desktop.png null: 2>&1
true
"""


def log_in(host: Machine, password: str, login: str) -> int:
    """Log in twice, disconnect, and return the number of pixels that differ from the login screen."""
    result = host.run(LOGIN.format(password=shlex.quote(password), login=shlex.quote(login)), seconds=400)
    assert result.rc == 0, (
        result.stdout + host.run("tail -30 /root/client.log; journalctl --lines=60 --no-pager").stdout
    )
    time.sleep(3)
    return int(float(result.stdout.split()[-1]))


def test_gnome_takes_the_port_over_from_xrdp(host: Machine, served: Result) -> None:
    assert served.findings("debian13")["xrdp.backend"] == "pass"
    assert PASSWORD not in served.output
    assert "gnome-remote-de" in host.must("ss -Hltnp 'sport = 3389'")
    assert host.run("systemctl is-active xrdp xrdp-sesman").stdout.split() == ["inactive", "inactive"]
    assert host.run("getent group xrdp-users").rc != 0
    assert PASSWORD not in host.must("journalctl --boot --no-pager")


def test_the_next_run_changes_nothing_and_all_proofs_pass(
    gnome: Callable[..., Result], verified: Callable[..., dict[str, dict[str, str]]], host: Machine
) -> None:
    started = host.must(f"systemctl show --property=InvocationID {UNIT}")
    again = gnome()
    assert again.changed() == {"debian13": 0}
    assert again.hosts["debian13"]["roles"]["xrdp"]["module_runs"] <= 4
    assert host.must(f"systemctl show --property=InvocationID {UNIT}") == started
    assert set(verified({**REQUEST, "apply_hosts": "debian13"})["debian13"].values()) == {"pass"}


def test_only_the_credential_of_the_machine_is_accepted(laptop: Machine) -> None:
    assert allowed(laptop, PASSWORD)
    assert not allowed(laptop, "Trees and leaves")
    assert not allowed(laptop, PASSWORD, options="/sec:tls")
    assert not allowed(laptop, PASSWORD, options="/sec:rdp")


def test_a_user_gets_a_desktop_and_keeps_it(host: Machine, gnome: Callable[..., Result], laptop: Machine) -> None:
    log_in(host, PASSWORD, "wrong")
    assert not session_of(host, "alice")
    # The picture is the desktop with its wallpaper, and not the login screen.
    assert log_in(host, PASSWORD, "Wonder-1and") > 1200 * 700 / 5
    number = session_of(host, "alice")
    shell = host.must("pgrep -u alice -x gnome-shell").split()
    assert number

    # A new login gets the same desktop.
    log_in(host, PASSWORD, "Wonder-1and")
    assert session_of(host, "alice") == number

    # She is disconnected but still logged in: a new password is pending, the old one works, and the role warns.
    changed = gnome(xrdp_machine_password="Oaks and beeches 2")
    assert changed.findings("debian13")["xrdp.pending"] == "warn"
    assert session_of(host, "alice") == number
    assert host.must("pgrep -u alice -x gnome-shell").split() == shell
    assert allowed(laptop, PASSWORD)

    # After her logout the pending change happens.
    host.must("loginctl terminate-user alice; while pgrep -u alice -x gnome-shell; do sleep 1; done")
    assert gnome(xrdp_machine_password="Oaks and beeches 2").findings("debian13")["xrdp.pending"] == "pass"
    wait_for_listener(host)
    assert not allowed(laptop, PASSWORD)
    assert allowed(laptop, "Oaks and beeches 2")


def test_without_networks_only_this_host_is_answered(
    gnome: Callable[..., Result], verified: Callable[..., dict[str, dict[str, str]]], host: Machine, laptop: Machine
) -> None:
    gnome(xrdp_networks=[])
    wait_for_listener(host)
    assert laptop.run("timeout 5 nc -z debian13 3389").rc != 0
    assert allowed(host, PASSWORD, program="xfreerdp3", at="127.0.0.1")
    proven: dict[str, Any] = verified({**REQUEST, "xrdp_networks": [], "apply_hosts": "debian13"})["debian13"]
    assert proven["xrdp.reach"] == "pass"


def test_a_change_back_to_xrdp_removes_everything_of_gnome(applied: Apply, host: Machine) -> None:
    applied(hosts="debian13")
    assert "xrdp" in host.must("ss -Hltnp 'sport = 3389'")
    assert host.run(f"systemctl is-active {UNIT}").stdout.strip() == "inactive"
    remaining = host.run(
        "ls /etc/gnome-remote-desktop/* /etc/rigwright/remote_desktop /etc/systemd/system/gnome-remote-desktop.service.d "
        "/etc/systemd/user/gnome-*.d /usr/share/gdm/greeter/autostart/rigwright*"
    )
    assert remaining.stdout == ""
    state = host.must(
        "runuser -u gnome-remote-desktop -- env -i HOME=/var/lib/gnome-remote-desktop PATH=/usr/bin grdctl status --show-credentials"
    )
    assert "Password: (null)" in state and "Status: disabled" in state
