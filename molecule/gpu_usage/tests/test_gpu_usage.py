"""Who uses the GPUs: real processes of three users, NVML that hangs, a missing driver, messages, refused requests.

The GPUs are fakes (harness/fakes/gpu_hosts.py), and a control group plays the container. The rest is real: logins, units, the sampler,
nvidia-ml-py, terminals, and apprise with an HTTP server for its messages.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import playbook
from harness.fakes import nvml as fake_nvml
from harness.fakes.gpu_hosts import state
from harness.sandbox import engine, lab
from harness.sandbox.clients import Machine

pytestmark = pytest.mark.both_releases

Verified = Callable[..., dict[str, dict[str, str]]]
SERVICE = "rigwright-gpu-usage.service"
TEXTFILE = "/var/lib/prometheus/node-exporter/rigwright_gpu_usage.prom"
CONTAINER = "5e" * 32
# Below the hierarchy of systemd, of which cgroup v1 and v2 have one each.
GROUP = f"$(dirname $(ls /sys/fs/cgroup/{{systemd/,}}cgroup.procs 2>/dev/null | head -n 1))/system.slice/docker-{CONTAINER}.scope"
LATER = 2**62  # a time after any sample
GIB = 1 << 30


def who(target: Machine) -> dict[str, Any]:
    """Read what gpu-who prints for a user without rights."""
    found: dict[str, Any] = json.loads(target.must("gpu-who --json", user="nobody"))
    return found


def wait_for(
    target: Machine, condition: Callable[[dict[str, Any]], bool], label: str, seconds: float = 60
) -> dict[str, Any]:
    def probe() -> dict[str, Any] | None:
        done = target.run("gpu-who --json", user="nobody")
        found = json.loads(done.stdout) if done.rc == 0 else {}
        return found if found and condition(found) else None

    return engine.wait_for(probe, label, seconds)


def owners(found: dict[str, Any]) -> dict[int, tuple[str, str, str]]:
    return {row["pid"]: (row["user"], row["kind"], row["name"]) for gpu in found["gpus"] for row in gpu["processes"]}


def use(target: Machine, pids: dict[int, int]) -> None:
    """Let processes use the first GPU: 2 GiB each, and this percent of the SMs."""
    facts: dict[str, str | None] = {}
    for pid, percent in pids.items():
        facts[f"gpu__0__process__{pid}"] = fake_nvml.described_process(2 * GIB)
        if percent:
            facts[f"gpu__0__use__{pid}"] = f"{LATER} {percent} 0 0 0"
    target.put(state(**facts))


def start_by_ssh(target: Machine) -> int:
    """Log in as alice, and leave a process behind."""
    key = target.public_key().strip()
    target.must(
        f"install -d -o alice -g alice -m 700 ~alice/.ssh && echo '{key}' > ~alice/.ssh/authorized_keys"
        " && chown alice: ~alice/.ssh/authorized_keys"
    )
    done = target.ssh("alice@127.0.0.1", "nohup sleep infinity >/dev/null 2>&1 </dev/null & echo $!")
    assert done.rc == 0, done.stderr
    return int(done.stdout)


def start_by_user_unit(target: Machine) -> int:
    """Start a unit of bob."""
    target.must("loginctl enable-linger bob && systemctl start user@$(id -u bob).service")
    command = "env XDG_RUNTIME_DIR=/run/user/$(id -u bob) runuser -u bob --"
    target.must(f"{command} systemd-run --user --quiet --unit=train sleep infinity")
    return int(target.must(f"{command} systemctl --user show --property=MainPID --value train"))


def start_in_container(target: Machine) -> int:
    """Start a process of root in the control group of a container, which has the label of carol."""
    names = json.dumps({"containers": {CONTAINER: {"name": "trainer", "user": "carol"}}})
    target.must(
        f"mkdir -p /run/rigwright-gpu-containers && echo '{names}' > /run/rigwright-gpu-containers/containers.json"
    )
    pid = int(target.must("setsid sleep infinity >/dev/null 2>&1 </dev/null & echo $!"))
    target.must(f"mkdir -p {GROUP} && echo {pid} > {GROUP}/cgroup.procs")
    return pid


@pytest.fixture
def pids(targets: list[Machine]) -> Iterator[dict[str, dict[str, int]]]:
    """Start a process of each user on each host."""
    starts = {"alice": start_by_ssh, "bob": start_by_user_unit, "carol": start_in_container}
    found = {target.host.name: {user: start(target) for user, start in starts.items()} for target in targets}
    yield found
    for target in targets:
        target.put(state())
        target.must(
            f"kill {' '.join(map(str, found[target.host.name].values()))}; rm -rf /run/rigwright-gpu-containers"
        )
        target.must(f"loginctl disable-linger bob; until rmdir {GROUP}; do sleep 0.2; done")
        target.must("rm -rf ~alice/.ssh")


def test_processes_of_three_users_are_attributed(
    verified: Verified, targets: list[Machine], pids: dict[str, dict[str, int]]
) -> None:
    for target in targets:
        own = pids[target.host.name]
        use(target, {own["alice"]: 60, own["bob"]: 20, own["carol"]: 0})
        wait_for(target, lambda found: len(owners(found)) == 3, "three processes")
        # The second sample has something to add up.
        found = wait_for(target, lambda found: any(row["idle_s"] > 0 for row in found["gpus"][0]["processes"]), "time")
        assert owners(found) == {
            own["alice"]: ("alice", "ssh", ""),
            own["bob"]: ("bob", "unit", "train.service"),
            own["carol"]: ("carol", "container", "trainer"),
        }
        rows = {row["user"]: row for row in found["gpus"][0]["processes"]}
        assert (rows["alice"]["share_percent"], rows["alice"]["memory_mib"], rows["alice"]["command"]) == (
            60,
            2048,
            "sleep",
        )
        text = target.must("gpu-who", user="nobody")
        assert "alice  ssh" in text and "carol  container trainer" in text
        metrics = target.must(f"cat {TEXTFILE}", user="nobody")
        assert 'rigwright_gpu_usage_sm_ratio{gpu="0",user="alice",kind="ssh"} 0.6\n' in metrics
        target.must(f"systemctl restart {SERVICE}")
        sums = json.loads(target.must("gpu-who day --json", user="nobody"))
        hours = {row["user"]: (row["kind"], row["gpu_hours"] > 0, row["busy_gpu_hours"] > 0) for row in sums["rows"]}
        assert hours == {
            "alice": ("ssh", True, True),
            "bob": ("unit", True, True),
            "carol": ("container", True, False),
        }
        assert target.must("gpu-who month --csv", user="nobody").startswith("user,kind,gpu_hours,busy_gpu_hours,")
    for found_ids in verified().values():
        assert {name: status for name, status in found_ids.items() if name.startswith("gpu_usage.")} == {
            f"gpu_usage.{name}": "pass" for name in ("sampler", "fresh", "nvml", "metrics", "confinement", "drop_ins")
        }


# Start a program as a user, with a pid of choice: clone3(2) with set_tid, as CRIU does.
CLONE = """\
import ctypes, os, signal, struct, sys
pid, uid = map(int, sys.argv[1:])
wanted = (ctypes.c_int * 1)(pid)
arguments = struct.pack('11Q', 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(wanted), 1, 0)
child = ctypes.CDLL(None).syscall(435, arguments, len(arguments))
if child == 0:
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    os.execvp('sleep', ['sleep', 'infinity'])
sys.exit(child != pid)
"""


def start_as(target: Machine, user: str, pid: int) -> None:
    target.must(f'python3 -c "{CLONE}" {pid} $(id -u {user}) >/dev/null 2>&1 </dev/null')


def test_reused_pid_belongs_to_its_new_user(targets: list[Machine]) -> None:
    pid = 54321
    for target in targets:
        start_as(target, "alice", pid)
        use(target, {pid: 10})
        wait_for(target, lambda found: owners(found).get(pid, ("",))[0] == "alice", "the process of alice")
        target.must(f"kill -9 {pid}; while kill -0 {pid} 2>/dev/null; do sleep 0.1; done")
        # The driver releases the memory; the same amount under the same pid would be what it has not released yet.
        target.put(state())
        wait_for(target, lambda found: pid not in owners(found), "no process")
        start_as(target, "bob", pid)
        use(target, {pid: 10})
        wait_for(target, lambda found: owners(found).get(pid, ("",))[0] == "bob", "the process of bob")
        target.must(f"kill {pid}")
        target.put(state())


def test_hanging_nvml_is_reported_and_asked_again(targets: list[Machine]) -> None:
    for target in targets:
        child = target.must("pgrep -f '[g]pu_usage.pyz probe'").strip()
        # A process that waits for the driver answers nobody.
        target.must(f"kill -STOP {child}")
        found = wait_for(target, lambda found: "does not answer" in found["problem"], "a problem")
        assert (found["gpus"], found["stale"]) == ([], False)
        found = wait_for(target, lambda found: not found["problem"], "an answer")
        assert len(found["gpus"]) == 2
        assert target.run(f"kill -0 {child}").rc != 0


def test_missing_driver_is_reported(verified: Verified, targets: list[Machine]) -> None:
    for target in targets:
        target.put(state(driver__module=None))
        wait_for(target, lambda found: found["problem"].startswith("NVML: DRIVER_NOT_LOADED"), "a problem")
    for found_ids in verified().values():
        assert (found_ids["gpu_usage.nvml"], found_ids["gpu_usage.fresh"]) == ("warn", "pass")
    for target in targets:
        target.put(state())
        wait_for(target, lambda found: not found["problem"], "an answer")


def test_stopped_sampler_leaves_a_stale_snapshot(verified: Verified, targets: list[Machine]) -> None:
    for target in targets:
        target.must(f"systemctl stop {SERVICE}")
        wait_for(target, lambda found: bool(found["stale"]), "a stale snapshot")
        assert target.must("gpu-who", user="nobody").startswith("STALE: the sampler has written nothing for ")
    for found_ids in verified().values():
        assert (found_ids["gpu_usage.sampler"], found_ids["gpu_usage.fresh"]) == ("fail", "fail")
    for target in targets:
        target.must(f"systemctl start {SERVICE}")
        wait_for(target, lambda found: not found["stale"], "a fresh snapshot")


def test_damaged_snapshot_is_refused(targets: list[Machine]) -> None:
    path = "/run/rigwright-gpu-usage/snapshot.json"
    for target in targets:
        target.must(f"systemctl stop {SERVICE}")
        for text, message in (
            ('{"format": 2}', "has format 2, and this program reads 1"),
            ('{"format": 1, "ti', "half written"),
        ):
            target.must(f"echo '{text}' > {path}")
            done = target.run("gpu-who", user="nobody")
            assert done.rc == 1 and message in done.stderr, done
        target.must(f"systemctl start {SERVICE}")
        wait_for(target, lambda found: not found["stale"], "a fresh snapshot")


# Takes messages as a chat service does, and records which programs run meanwhile, with their arguments.
RECEIVER = """\
import http.server, json, subprocess
class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        programs = subprocess.check_output(['ps', '-eo', 'args'], text=True)
        with open('/tmp/received', 'a') as file:
            print(json.dumps([self.headers['Authorization'], message['title'], message['message'], programs]), file=file)
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(('127.0.0.1', 8127), Receiver).serve_forever()
"""
PASSWORD = "Sandbox-notify-1"
LOGIN = f"Basic {base64.b64encode(f'robot:{PASSWORD}'.encode()).decode()}"


def start_receiver(target: Machine) -> None:
    target.start(f'rm -f /tmp/received; exec python3 -c "{RECEIVER}"')
    engine.wait_for(lambda: target.run("ss -Hltn 'sport = 8127'").stdout or None, "the receiver")


def received(target: Machine, label: str) -> list[list[str]]:
    """Return login, title, text and running programs of each message, once there are some."""
    text = engine.wait_for(lambda: target.run("cat /tmp/received").stdout or None, label)
    return [json.loads(line) for line in text.splitlines()]


def stop_receiver(target: Machine) -> None:
    target.must("pkill -f '[R]eceiver'; rm -f /tmp/received")


def test_test_message_fails_where_no_server_is(targets: list[Machine]) -> None:
    start_receiver(targets[0])
    names = [target.host.name for target in targets]
    options = ["--inventory", str(lab.LABS / "molecule.yml"), "--limit", ",".join(names), "-vvv"]
    # As the inventory of an owner has them.
    variables = json.dumps(
        {**lab.looked_up("molecule"), "workstation_notify_urls": [f"json://robot:{PASSWORD}@127.0.0.1:8127/"]}
    )
    rc, output = playbook.run(["playbooks/notify.yml", *options, "--extra-vars", variables], lab.ROOT, os.environ)
    ((login, title, text, programs),) = received(targets[0], "the test message")
    assert (login, title) == (LOGIN, f"{names[0]}: test message") and text.startswith("This is a test of ")
    stop_receiver(targets[0])
    assert rc == (2 if names[1:] else 0)
    assert "1 of 1 addresses took the message" in output
    assert output.count("workstation_notify_urls[0] (json://): it cannot be reached") >= len(names[1:])
    assert PASSWORD not in output + programs


def test_owner_of_an_idle_process_has_one_message(targets: list[Machine]) -> None:
    terminal = (
        "import os, pty; pid, fd = pty.fork()\n"
        "if pid == 0: os.execlp('sleep', 'sleep', 'infinity')\n"
        "with open('/tmp/terminal', 'wb', 0) as file:\n"
        "    file.write(b'ready ')\n"
        "    while True: file.write(os.read(fd, 1000))\n"
    )
    for target in targets:
        target.start(f'rm -f /tmp/terminal; exec python3 -c "{terminal}"', user="alice")
        engine.wait_for(lambda target=target: target.run("grep ready /tmp/terminal").stdout or None, "a terminal")
        pid = int(
            target.must(
                "setsid setpriv --reuid alice --clear-groups sleep infinity >/dev/null 2>&1 </dev/null & echo $!"
            )
        )
        start_receiver(target)
        use(target, {pid: 0})
        text = engine.wait_for(
            lambda target=target: target.run("grep -a 'ran no kernel' /tmp/terminal").stdout or None,
            "a message",
            150,
        )
        assert f"sleep (pid {pid}) holds 2.0 GiB of GPU 0 on " in text and "for 1 min" in text
        wait_for(
            target,
            lambda found, pid=pid: any(row["idle_s"] >= 80 for row in found["gpus"][0]["processes"]),
            "more time",
        )
        assert target.must("grep -ac 'ran no kernel' /tmp/terminal") == "1\n"
        ((login, title, text, programs),) = received(target, "a message for the notify list")
        name = target.must("hostname").strip()
        assert (login, title) == (LOGIN, f"{name}: GPU 0 is idle")
        assert text.startswith(f"alice: sleep (pid {pid}) holds 2.0 GiB of GPU 0 on {name}")
        # Neither arguments nor the journal have the address, and neither the sampler nor a user can read or use it.
        assert PASSWORD not in programs + target.must("journalctl --no-pager --output=cat")
        for user in ("rigwright-gpu-usage", "alice"):
            assert target.run("cat /etc/workstation-notify.json", user=user).rc != 0
            assert target.run("test -w /run/rigwright-notify.socket", user=user).rc != 0
        assert target.run("test -w /run/rigwright-gpu-usage-notify.socket", user="alice").rc != 0
        stop_receiver(target)
        target.put(state())
        target.must(f"kill {pid}; pkill -u alice sleep; rm /tmp/terminal")


def test_message_is_plain_text_by_mail_and_in_chats(targets: list[Machine]) -> None:
    script = (Path(__file__).parent / "sinks.py").read_text()
    for target in targets:
        arguments = f"{shlex.quote(script)} /usr/local/sbin/workstation-notify"
        found = json.loads(target.must(f"/opt/rigwright/notify/bin/python3 -I -c {arguments}"))
        assert [problems for problems, _message in found.values()] == [[], [], []]
        ((kind, mail),) = found["mail"][1].items()
        assert (kind, "<b>x</b>" in mail, "no <config/>" in mail) == ("text/plain", True, True)
        html = found["html"][1]["text"]
        assert "<b>x" not in html and "&lt;b&gt;x" in html and "no &lt;config/&gt;" in html
        markdown = found["markdown"][1]["embeds"][0]["description"]
        assert "[click](" not in markdown and "click" in markdown
        for text in (mail, html, markdown, found["markdown"][1].get("content", "")):
            assert "@everyone" not in text and "<!" not in text
        assert "backup@home.service" in mail


def test_bad_input_changes_nothing(all_refused: Callable[..., None]) -> None:
    all_refused(
        [
            ({"gpu_usage_idle_after": "2 fortnights"}, "gpu_usage_idle_after: is not valid: '2 fortnights' is no time"),
            ({"gpu_usage_idle_after": "20s"}, "gpu_usage_idle_after: is not valid: '20s' is less than a minute"),
            ({"gpu_usage_idle_memory": "18 h"}, "gpu_usage_idle_memory: is not valid: '18 h' is no size"),
            ({"gpu_usage_interval_s": 1}, "gpu_usage_interval_s: is 1"),
            ({"gpu_usage_keep_days": 3}, "gpu_usage_keep_days: is 3"),
            ({"gpu_usage_textfile_directory": "metrics"}, "gpu_usage_textfile_directory: is not an absolute path"),
            ({"workstation_notify_urls": f"json://{PASSWORD}@x"}, "workstation_notify_urls: is no list"),
            (
                {"workstation_notify_urls": ["mail@example.org"]},
                "workstation_notify_urls: has 1 of 1 entries that are no",
            ),
            # apprise itself says so on the host.
            (
                {"workstation_notify_urls": [f"mail://{PASSWORD}@x"]},
                "workstation_notify_urls[0] (mail://) is no address",
            ),
        ],
        but="/var/lib/rigwright_gpu_usage",
    )
