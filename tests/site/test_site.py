# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole site on the hosts of the demo, in the order in which an owner meets it. Each test goes on where the last one ended."""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness import demo
from harness.bench import site as bench
from harness.sandbox import browser, clients, fingerprint, lab
from harness.sandbox import lifecycle as sandbox
from harness.sandbox.clients import Done, Entry, Machine
from harness.sandbox.lab import ROOT
from harness.testing.stage import OUTPUT

# At most so many module runs a role and host when nothing has to change: frp_client asks the host of its server for the CA.
MODULE_RUNS = 1

CLIENT = ROOT / "harness/sandbox/rdp_client.sh"
OLDEST = ROOT / ".venv-core219" / "bin"
UNINSTALL = "rigwright.workstation.uninstall"
# What roles do not remove: users' data, and what scripts of packages (xrdp, ssl-cert, containerd, fonts) write without owning it.
KEPT = re.compile(
    r": file /(home|root|usr/local/share/(fonts|sgml|xml)"
    r"|etc/(apparmor\.d/local|cni|default/keyboard|g?shadow|group|passwd|sgml|ssl|systemd/user|xml|xrdp))(/|:|$)"
)
NEWEST = Path(sys.executable).parent


@dataclass
class Run:
    rc: int
    output: str
    hosts: dict[str, Any]

    def changed(self) -> dict[str, int]:
        return {name: host["stats"]["changed"] for name, host in self.hosts.items()}


@pytest.fixture(scope="module")
def machine() -> Iterator[Callable[[str], Machine]]:
    """Start fresh hosts of the demo, and remove them in the end."""
    demo.down(with_images=False)
    sandbox.up(dataclasses.replace(lab.read("demo"), keeps_bytecode=True))
    machines = demo.hosts()
    fingerprint.remember("demo", list(machines.values()))
    yield machines.__getitem__
    demo.down(with_images=False)


@pytest.fixture(scope="module")
def site(machine: Callable[[str], Machine], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """Run ansible-playbook of an environment on the inventory of the demo: `site(NEWEST, "--check")`."""
    assert machine("gateway")

    def run(programs: Path, *options: str, playbook: str = "site.yml", cwd: Path = ROOT, **environment: str) -> Run:
        report = tmp_path_factory.mktemp("run") / "report.json"
        done = subprocess.run(
            [
                programs / "ansible-playbook",
                playbook,
                "-i",
                lab.LABS / "demo.yml",
                "-e",
                f"@{demo.VARIABLES}",
                *options,
            ],
            cwd=cwd,
            env=os.environ | {"RIGWRIGHT_REPORT_PATH": str(report)} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert report.exists(), done.stdout
        # Where the demo has its own.
        demo.REPORT.write_bytes(report.read_bytes())
        return Run(done.returncode, done.stdout, json.loads(report.read_text())["hosts"])

    return run


@pytest.fixture(scope="module")
def oldest() -> Path:
    """Return the programs of ansible-core 2.19 on Python 3.11, as in Debian 12; skip where there is no Python 3.11."""
    if not OLDEST.is_dir():
        pytest.skip("no Python 3.11 was found for a second controller")
    return OLDEST


def test_check_mode_on_fresh_hosts_ends_well_and_shows_no_secret(site):
    result = site(NEWEST, "--check", "--diff", "-vvv")
    assert result.rc == 0, result.output
    assert_no_secret_shows(result)


def assert_no_secret_shows(result: Run) -> None:
    variables = json.loads(demo.VARIABLES.read_text())
    secrets = ("demo_token", "demo_secret", "demo_password", "demo_backup_password")
    assert [name for name in secrets if variables[name] in result.output] == []


def test_unsupported_release_is_refused_before_changes(site, machine):
    laptop = machine("laptop")
    laptop.must(
        "sed 's/12/11/g; s/bookworm/bullseye/g' /etc/os-release > /run/os-release && echo 11.9 > /run/debian_version"
    )
    laptop.must(
        "mount --bind /run/os-release /usr/lib/os-release && mount --bind /run/debian_version /etc/debian_version"
    )
    result = site(NEWEST, "--limit", "laptop")
    laptop.must("umount /usr/lib/os-release /etc/debian_version")
    assert result.rc != 0
    assert "laptop: runs Debian 11.9, which is not supported; use one of Debian 12" in " ".join(result.output.split())
    assert result.changed() == {"laptop": 0}


def test_the_oldest_controller_provisions_fresh_hosts(site, oldest):
    result = site(oldest)
    assert result.rc == 0, result.output
    assert all(count > 0 for count in result.changed().values())


@pytest.fixture(scope="module")
def second_run(site, tmp_path_factory) -> Run:
    """Run the installed archive with the newest controller on hosts that the oldest has provisioned."""
    if not OLDEST.is_dir():
        assert site(NEWEST).rc == 0  # nothing has provisioned the hosts
    folder = tmp_path_factory.mktemp("installed")
    galaxy = NEWEST / "ansible-galaxy"
    subprocess.run([galaxy, "collection", "build", "--output-path", folder, ROOT], check=True, cwd=folder)
    (archive,) = folder.glob("*.tar.gz")
    place = folder / "collections"
    subprocess.run(
        [galaxy, "collection", "install", "--force", "--offline", "-p", place, archive], check=True, cwd=folder
    )
    return site(
        NEWEST,
        playbook="rigwright.workstation.site",
        cwd=folder,
        ANSIBLE_COLLECTIONS_PATH=str(place),
        ANSIBLE_CALLBACKS_ENABLED="rigwright.workstation.report",
    )


def test_the_installed_archive_finds_nothing_to_change(second_run):
    assert second_run.rc == 0, second_run.output
    assert_nothing_to_change(second_run)


def test_every_finding_passes_or_states_why_it_was_skipped(second_run):
    findings = {
        (name, finding["id"]): finding["status"]
        for name, host in second_run.hosts.items()
        for finding in host["findings"]
    }
    assert findings["workstation", "frp_client.services"] == "pass"
    assert findings["laptop", "frp_client.visitors"] == "pass"
    # A user of docker is as good as root, and every run says who is one.
    assert findings.pop(("workstation", "docker.group")) == "warn"
    # The first backup waits for its timer, or for the test of a lost file.
    assert findings.pop(("workstation", "backup.run.home")) == "warn"
    assert {where: status for where, status in findings.items() if status not in ("pass", "skip")} == {}


def test_the_oldest_controller_finds_nothing_and_shows_no_secret(site, oldest):
    result = site(oldest, "-vvv")
    assert result.rc == 0, result.output
    assert_nothing_to_change(result)
    assert_no_secret_shows(result)


def test_mitogen_finds_nothing_to_change(site):
    result = site(NEWEST, **bench.mitogen())
    assert result.rc == 0, result.output
    assert_nothing_to_change(result)


@pytest.mark.parametrize("controller", ["newest", "oldest"])
def test_findings_are_the_same_without_parts_of_ansible_core(site, second_run, oldest, controller):
    result = site({"newest": NEWEST, "oldest": oldest}[controller], RIGWRIGHT_REPORT_INTERNALS="false")
    assert result.rc == 0, result.output
    assert set(result.changed().values()) == {0}
    assert {name: verdicts(host) for name, host in result.hosts.items()} == {
        name: verdicts(host) for name, host in second_run.hosts.items()
    }


def verdicts(host: Any) -> dict[str, str]:
    return {finding["id"]: finding["status"] for finding in host["findings"]}


def assert_nothing_to_change(result: Run) -> None:
    assert set(result.changed().values()) == {0}
    runs = {
        (name, role): row["module_runs"] for name, host in result.hosts.items() for role, row in host["roles"].items()
    }
    assert sum(runs.values()) > 0
    assert {where: count for where, count in runs.items() if count > MODULE_RUNS} == {}
    for host in result.hosts.values():
        # All roles are planned in one, and verified in one.
        assert (host["outside_roles"]["module_runs"], host["outside_roles"]["verify_module_runs"]) == (1, 1)
        assert not any(row["verify_module_runs"] for row in host["roles"].values())


def test_laptop_logs_in_through_the_gateway(machine):
    demo.log_in(machine("laptop"))


def test_output_of_a_short_program_reaches_a_slow_client(machine, monkeypatch):
    answer = http.client.HTTPConnection.getresponse

    def late(self: http.client.HTTPConnection) -> http.client.HTTPResponse:
        time.sleep(0.5)
        return answer(self)

    monkeypatch.setattr(http.client.HTTPConnection, "getresponse", late)
    clients.close_agents()
    done = machine("laptop").run("echo words; echo errors >&2; exit 3")
    assert done == Done(3, "words\n", "errors\n")


def test_a_file_goes_to_the_share_through_the_gateway_and_back(machine):
    machine("workstation").must("findmnt --target /data/sets --noheadings --output TARGET | grep --line-regexp /data")
    demo.put_file(machine("laptop"))


def test_a_lost_file_is_restored_from_the_backup(machine):
    # Raises where it does not.
    demo.restore_file(machine("workstation"))


def test_pages_of_the_demo_open_in_a_browser(machine):
    laptop = machine("laptop")
    demo.write_pages(machine("workstation"))
    laptop.must(f"{demo.INSTALL} {' '.join(browser.PACKAGES)}", seconds=300)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for page in (demo.REPORT_PAGE, demo.STATUS_PAGE):
        visited = browser.visit(laptop, page.read_text())
        (OUTPUT / page.with_suffix(".png").name).write_bytes(visited.picture)
        assert (visited.console, visited.requests) == ([], [])
        assert "workstation" in visited.document


def test_laptop_gets_a_desktop_through_the_gateway(machine):
    workstation, laptop = machine("workstation"), machine("laptop")
    workstation.put({"/home/owner/.xsession": Entry(b"xsetroot -solid steelblue\nexec openbox\n", owner=1000)})
    workstation.must(f"{demo.INSTALL} x11-xserver-utils", seconds=300)
    laptop.must(f"{demo.INSTALL} freerdp2-x11 xvfb xauth x11-utils x11-apps imagemagick", seconds=300)
    laptop.put({"/root/client.sh": Entry(CLIENT.read_bytes(), mode=0o755)})

    # Steelblue, but for what compression changes, covers nearly all of the 800 by 600 pixels.
    screen = "^ *[1-4][0-9]{5}: .*#4[1-7]8[0-4]B[0-6]"
    printed = laptop.must(
        f"/root/client.sh 127.0.0.1:{demo.RDP_PORT} owner {demo.password()} /root/desktop.png '{screen}' /sec:tls",
        seconds=150,
    )

    assert "the client goes on" in printed
    assert re.search(screen, printed, re.MULTILINE), printed
    assert workstation.must("pgrep --euid owner Xorg")
    workstation.must("loginctl terminate-user owner")


def test_a_finding_that_fails_fails_the_run(site, machine):
    machine("gateway").must("systemctl stop frps")
    result = site(NEWEST, "--limit", "gateway", playbook="playbooks/verify.yml")
    machine("gateway").must("systemctl start frps")
    assert result.rc != 0
    assert "frp_server.tls" in result.output


FAILING = {
    "ends at once": "Type=simple\nExecStart=/bin/false",
    "ends after 2 s": "Type=simple\nExecStart=/bin/sh -c 'sleep 2; exit 1'",
    "is never ready": "Type=notify\nTimeoutStartSec=2\nExecStart=/bin/sleep infinity",
}


def test_a_unit_that_fails_leaves_the_old_one_running(site, machine, tmp_path):
    unit, host = "/etc/systemd/system/rigwright-example.service", machine("laptop")

    def configure(service: str, **options: Any) -> Run:
        task = {
            "name": "example",
            "files": [{"path": unit, "content": f"[Service]\n{service}\n"}],
            "units": [{"name": "rigwright-example.service", "restart_on": [unit]}],
            "settle": 3,
            **options,
        }
        play = {"hosts": "laptop", "become": True, "gather_facts": False}
        playbook = tmp_path / "example.yml"
        playbook.write_text(json.dumps([{**play, "tasks": [{"rigwright.workstation.config_files": task}]}]))
        return site(NEWEST, playbook=str(playbook))

    good = "Type=simple\nExecStart=/bin/sleep infinity"
    assert configure(good).rc == 0
    for failure, service in FAILING.items():
        result = configure(service)
        assert result.rc != 0, failure
        assert "Files and units are as they were before" in " ".join(result.output.split()), result.output
        assert "active" in host.must("systemctl is-active rigwright-example").split(), failure
        assert "sleep infinity" in host.must(f"cat {unit}") and "Type=simple" in host.must(f"cat {unit}")
        assert configure(good).changed() == {"laptop": 0}
    stopped = {"name": "rigwright-example.service", "state": "stopped"}
    assert configure(good, state="absent", units=[stopped]).rc == 0
    assert host.run(f"test -e {unit}").rc != 0


def test_uninstall_restores_the_hosts(site, machine):
    assert site(NEWEST, "--check", playbook=UNINSTALL).rc == 0
    removed = site(NEWEST, playbook=UNINSTALL)
    assert removed.rc == 0, removed.output
    for name, before in fingerprint.remembered("demo").items():
        after = fingerprint.without_packages(before, fingerprint.of(machine(name)))
        changes = [line for line in fingerprint.difference(before, after) if not KEPT.search(line)]
        assert (name, changes) == (name, [])
        # The comment of accounts that roles make.
        assert "rigwright" not in machine(name).must("cat /etc/passwd")
    again = site(NEWEST, playbook=UNINSTALL)
    assert (again.rc, set(again.changed().values())) == (0, {0}), again.output


def test_the_example_inventory_needs_no_secret(machine, tmp_path):
    """Run `ansible-playbook site.yml -i inventory`, with a host of the sandbox as this machine."""
    host = machine("laptop").host
    known_hosts = lab.STATE / "demo.known_hosts"
    connection = {
        "ansible_connection": "ssh",
        "ansible_host": str(host.address),
        "ansible_user": "owner",
        "ansible_ssh_private_key_file": str(sandbox.KEY),
        "ansible_ssh_args": f"-o UserKnownHostsFile={known_hosts}",
        # What the internet has for another machine.
        "conda_channel_alias": f"http://{lab.DEPOT}/conda",
        "conda_index_url": f"http://{lab.DEPOT}/simple/",
        "conda_base_packages": ["conda"],
    }
    (tmp_path / "connection.json").write_text(json.dumps(connection))
    done = subprocess.run(
        [NEWEST / "ansible-playbook", "site.yml", "-i", "inventory", "-e", f"@{tmp_path}/connection.json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_a_machine_without_systemd_is_refused():
    if Path("/run/systemd/system").exists():
        pytest.skip("this machine runs systemd")
    done = subprocess.run(
        [NEWEST / "ansible-playbook", "site.yml", "-i", "inventory"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "is not run by systemd" in done.stdout
