"""The displays on real terminals, at a real login, and in a real browser.

The console is a fake without a screen (harness/fakes/console.py), and a unit of a user writes the snapshot that gpu_usage would write.
Display, units, getty, sshd and Chromium are real.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.fakes import console
from harness.sandbox import browser
from harness.sandbox.clients import Machine
from harness.sandbox.engine import wait_for
from tests.unit.support.gpu import snapshot

pytestmark = pytest.mark.both_releases

Verified = Callable[..., dict[str, dict[str, str]]]
SNAPSHOT = "/run/rigwright-gpu-usage/snapshot.json"
PAGE, LINE = "/run/rigwright-status/status.html", "/run/rigwright-status/login"
DISPLAY, LOGIN, FILES = "rigwright-status-console.service", "getty@tty1.service", "rigwright-status.service"
SIZES = [(53, 20), (80, 24), (160, 50)]
PROCESS = {
    **snapshot.PROCESS,
    "kind": "ssh",
    "name": "",
    "command": "<script>alert(1)</script>",
    "started": 1764070000.0,
}
GPU = {**snapshot.GPU, "processes": [PROCESS]}
IDLE = {**GPU, "index": 1, "memory_used_mib": 0, "utilization_percent": 0, "processes": []}
# Writes the snapshot again and again, each time with the time of the write, as the sampler does.
SAMPLER = """\
import json, os, time
content = json.loads(os.environ["CONTENT"])
while True:
    with open("/run/rigwright-gpu-usage/next", "w") as file:
        json.dump({**content, "time": time.time()}, file)
    os.replace("/run/rigwright-gpu-usage/next", "/run/rigwright-gpu-usage/snapshot.json")
    time.sleep(0.5)
"""


def sample(target: Machine, **changes: Any) -> None:
    """Start a unit of an unprivileged user that writes the snapshot."""
    content = {"format": 1, "interval_s": 2, "host": "ws1", "driver": "580.95.05", "problem": "", "gpus": [GPU, IDLE]}
    target.must(
        "systemctl stop fake-sampler.service 2>/dev/null; systemctl reset-failed fake-sampler.service 2>/dev/null; true"
    )
    target.must(
        # A user that stays: systemd hides what the directories of others keep.
        "systemd-run --unit fake-sampler --description 'fake sampler' --property User=nobody"
        " --property RuntimeDirectory=rigwright-gpu-usage"
        " --property RuntimeDirectoryPreserve=yes --property UMask=0022"
        f" --setenv CONTENT={shlex.quote(json.dumps({**content, **changes}))}"
        f" python3 -I -c {shlex.quote(SAMPLER)}"
    )
    wait_for(lambda: target.run(f"test -e {SNAPSHOT}").rc == 0 or None, "a snapshot")


def stop_sampler(target: Machine) -> None:
    target.must("systemctl stop fake-sampler.service")


def is_active(target: Machine, unit: str) -> bool:
    return target.run(f"systemctl is-active --quiet {unit}").rc == 0


def wait_for_unit(target: Machine, unit: str) -> None:
    wait_for(lambda: is_active(target, unit) or None, f"{unit} on {target.host.name}")


def wait_for_text(target: Machine, path: str, text: str) -> None:
    """Wait until everybody can read a text in a file, which a unit that starts has not written yet."""
    wait_for(lambda: text in target.run(f"cat {path}", user="nobody").stdout or None, f"{text} in {path}")


def replace(target: Machine, content: str) -> None:
    """Put another file in place of the snapshot."""
    stop_sampler(target)
    target.must(f"mkdir -p /run/rigwright-gpu-usage; rm -rf {SNAPSHOT}; printf %s {shlex.quote(content)} > {SNAPSHOT}")


@pytest.fixture(autouse=True)
def with_display(targets: list[Machine]) -> Iterator[None]:
    """Give each test a snapshot, and the display on the console."""
    for target in targets:
        sample(target)
        target.must(f"systemctl start {DISPLAY} {FILES}")
        console.resize(target, 80, 24)
    yield
    for target in targets:
        target.must(f"systemctl start {DISPLAY} {FILES}; systemctl stop fake-sampler.service 2>/dev/null; true")


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_console_shows_what_the_snapshot_says(target: Machine, columns: int, rows: int) -> None:
    console.resize(target, columns, rows)
    lines = console.wait_for_frame(target, "alice", "93%", "free", columns=columns)
    assert len(lines) <= rows
    assert max(len(line) for line in lines) <= columns
    shown = "\n".join(lines)
    for text in ("0 H200", "1 H200", "18.0/140 GiB", "CPU", "memory", target.run("hostname").stdout.strip()):
        assert text in shown, text
    if columns >= 80:
        assert "61 C" in shown and "<script>alert(1)" in shown
    assert not is_active(target, LOGIN)


def test_stopped_sampler_is_marked_with_its_age(target: Machine) -> None:
    console.wait_for_frame(target, "alice", absent="stale")
    stop_sampler(target)
    console.wait_for_frame(target, "stale", "alice")
    wait_for_text(target, PAGE, "stale")
    sample(target)
    console.wait_for_frame(target, "alice", absent="stale")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"format": 2, "time": 1}', "has format 2"),
        ('{"format": 1, "time": 17640', "half written"),
        ("[" * 100_000, "half written"),
    ],
)
def test_unusable_snapshot_is_reported_and_the_rest_shown(target: Machine, content: str, message: str) -> None:
    replace(target, content)
    console.wait_for_frame(target, message, "CPU", "memory")
    sample(target)
    console.wait_for_frame(target, "alice")


def test_link_and_fifo_in_place_of_the_snapshot_are_left_unread(target: Machine) -> None:
    replace(target, "")
    for command in ("ln -s /etc/shadow", "mkfifo"):
        target.must(f"rm -f {SNAPSHOT}; {command} {SNAPSHOT}")
        console.wait_for_frame(target, "left unread", "CPU")
    target.must(f"rm -f {SNAPSHOT}")
    console.wait_for_frame(target, "role gpu_usage is not set up")


def test_tunnel_is_up_while_its_unit_runs(target: Machine) -> None:
    unit = "/etc/systemd/system/frpc.service"
    target.must(
        f"printf '[Service]\\nExecStart=/bin/sleep infinity\\n' > {unit}; systemctl daemon-reload; systemctl start frpc"
    )
    try:
        console.wait_for_frame(target, "tunnel", "up  since")
        target.must("systemctl stop frpc")
        console.wait_for_frame(target, "frpc.service does not run")
    finally:
        target.must(f"systemctl stop frpc; rm {unit}; systemctl daemon-reload")


def test_login_comes_back_when_the_display_ends(target: Machine) -> None:
    for ending in (f"kill --signal=KILL {DISPLAY}", f"kill --signal=INT {DISPLAY}", f"start {LOGIN}"):
        target.must(f"systemctl start {DISPLAY}")
        # Before the first frame, a signal meets Python's own start.
        console.resize(target, 80, 24)
        console.wait_for_frame(target, "CPU")
        assert not is_active(target, LOGIN)
        target.must(f"systemctl {ending}")
        wait_for_unit(target, LOGIN)
        assert not is_active(target, DISPLAY)
        target.must(f"systemctl reset-failed {DISPLAY} 2>/dev/null; true")


def test_display_has_the_console_when_a_target_wants_both(target: Machine) -> None:
    """Start both in one transaction, as a boot does: getty.target wants the login, and multi-user.target the display."""
    unit = "/run/systemd/system/both.target"
    target.must(f"printf '[Unit]\\nWants={LOGIN} {DISPLAY}\\n' > {unit}; systemctl daemon-reload")
    target.must(f"systemctl stop {DISPLAY}; systemctl stop {LOGIN}; systemctl start both.target")
    wait_for_unit(target, DISPLAY)
    assert not is_active(target, LOGIN)
    target.must(f"systemctl stop both.target; rm {unit}; systemctl daemon-reload")
    # A restart, as after an update of the program, is no end that the login waits for.
    target.must(f"systemctl restart {DISPLAY}")
    console.resize(target, 80, 24)
    console.wait_for_frame(target, "alice")
    assert (is_active(target, DISPLAY), is_active(target, LOGIN)) == (True, False)


def test_console_can_be_taken_away(applied: Callable[..., Any], targets: list[Machine]) -> None:
    applied({"status_console": ""})
    for target in targets:
        wait_for_unit(target, LOGIN)
        assert target.run(f"systemctl cat {DISPLAY}").rc != 0
    applied()
    for target in targets:
        wait_for_unit(target, DISPLAY)


def login(laptop: Machine, target: Machine) -> str:
    """Log in with a terminal, and return what sshd and the shell print."""
    user = f"owner@{target.host.address}"
    return laptop.must(
        f"echo 'unset HISTFILE; exit' | ssh -tt -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null {user} 2>/dev/null",
        seconds=30,
    )


def test_login_prints_the_line(laptop: Machine, target: Machine) -> None:
    key = laptop.public_key()
    target.must(
        f"grep -qF '{key.strip()}' ~owner/.ssh/authorized_keys || echo '{key.strip()}' >> ~owner/.ssh/authorized_keys"
    )
    wait_for_text(target, LINE, "1 of 2 GPUs free")
    assert login(laptop, target).count("1 of 2 GPUs free") == 1


def test_link_and_fifo_in_place_of_the_line_print_nothing(target: Machine) -> None:
    script = "/etc/update-motd.d/60-rigwright-status"
    target.must(f"systemctl stop {FILES} && mkdir -p /run/rigwright-status")
    try:
        assert target.run(f"timeout 10 {script}").stdout == ""
        for command in ("ln -s /etc/shadow", "ln -s /etc/hostname", "mkfifo"):
            target.must(f"rm -f {LINE}; {command} {LINE}")
            done = target.run(f"timeout 10 {script}")
            assert (done.rc, done.stdout, done.stderr) == (0, "", "")
        target.must(rf"rm -f {LINE}; printf 'a\033[2Jb\n' > {LINE}; chmod 644 {LINE}")
        assert target.must(script) == "a[2Jb\n"
    finally:
        target.must("rm -rf /run/rigwright-status")


def test_page_in_a_browser(laptop: Machine, target: Machine) -> None:
    wait_for_text(target, PAGE, "alice")
    page = target.must(f"cat {PAGE}", user="nobody")
    assert "&lt;script&gt;alert(1)" in page and "<script" not in page
    visited = browser.visit(laptop, page)
    assert (visited.console, visited.requests) == ([], [])
    assert visited.picture.startswith(b"\x89PNG")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in visited.document and "alice" in visited.document


def test_findings_pass_and_a_stopped_display_fails(verified: Verified, targets: list[Machine]) -> None:
    passing = {f"status.{name}" for name in ("program", "snapshot", "page", "login_line", "console", "confinement")}
    for found in verified().values():
        assert {name: status for name, status in found.items() if name in passing and status != "pass"} == {}
        assert passing <= found.keys()
    for target in targets:
        target.must(f"systemctl stop {DISPLAY} {FILES}")
        stop_sampler(target)
        target.must(f"rm -f {SNAPSHOT}")
    for found in verified().values():
        states = {name: found[f"status.{name}"] for name in ("console", "page", "login_line", "snapshot", "program")}
        assert states == {
            "console": "fail",
            "page": "fail",
            "login_line": "fail",
            "snapshot": "skip",
            "program": "pass",
        }


def test_bad_requests_are_refused(all_refused: Callable[..., None]) -> None:
    all_refused(
        [
            ({"status_console": "tty9"}, "status_console: is tty9, and the host has no /dev/tty9"),
            ({"status_console": "../tty1"}, "status_console: is '../tty1', which is no virtual console"),
            ({"status_interval_s": 1}, "status_interval_s: is 1; set it to a number from 2 to 3600"),
        ]
    )
