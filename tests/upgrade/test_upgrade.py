# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of an earlier version are upgraded in use: states move once, what runs goes on, and the next run changes nothing.

Each test goes on where the last one ended.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.fakes import disks as fake_disks
from harness.sandbox import clients, engine, fingerprint, lab, site_output
from harness.sandbox import lifecycle as sandbox
from harness.sandbox.clients import Entry, Machine
from harness.sandbox.lab import ROOT
from tests.contract.test_records import OTHERS, RECORDS, kept

# The version that hosts are upgraded from: the last commit before one module planned all roles. RELEASING.md moves it to the last release.
FROM = "b6f697134fa5e77cb059767954cea2e27dc4458f"

LAB = "upgrade"
PROGRAMS = Path(sys.executable).parent
LOST, PASSWORD = "/home/owner/thesis", "owner-has-a-password"
# What the earlier version has in its inventory, and the new one refuses.
FORMER_NAMES = {
    "samba_shares": [
        {
            "name": "sets",
            "path": "/data/sets",
            "mount": "/data",
            "valid_users": ["owner"],
            "read_only": False,
            "guest_ok": False,
        }
    ]
}
# Records that move to a new name.
FORMER_RECORDS = ("/var/lib/rigwright_docker/brought.json", "/var/lib/rigwright_fail2ban/brought")
# What the upgrade is allowed to change and to start again: a pattern of its line, and the reason. The changelog says so to users.
CHANGES = {
    r"/var/lib/rigwright_(docker/(brought|units)\.json|fail2ban/(brought|installed))$": "the record has another name",
    r"/usr/local/(bin/(workstation-status|dataset-cache|gpu-who)|lib/rigwright/\w+\.pyz|sbin/(rigwright|workstation)-\w+)\b": "new code",
    r"(restart|started:) rigwright-status\.service$": "it runs such a program",
    r"^Start a trial of the new rules ": "such a program loads them",
    r"/var/lib/rigwright/config_files/\w+/manifest\.json": "it has the digests of such files",
}


@dataclass
class Run:
    rc: int
    output: str
    hosts: dict[str, Any]

    def statuses(self, host: str) -> dict[str, str]:
        return {finding["id"]: finding["status"] for finding in self.hosts[host]["findings"]}


@pytest.fixture(scope="module")
def machines() -> Iterator[dict[str, Machine]]:
    """Start fresh hosts with a data disk, and remove them in the end."""
    sandbox.down(LAB)
    wanted = lab.read(LAB)
    sandbox.up(wanted)
    found = {host.name: Machine(engine.connect(), host) for host in wanted.hosts}
    for machine in found.values():
        fake_disks.prepare(machine)
        machine.put({LOST: Entry(b"chapter 1\n", owner=sandbox.OWNER)})
    yield found
    clients.close_agents()
    sandbox.down(LAB)


@pytest.fixture(scope="module")
def keys(machines: dict[str, Machine]) -> list[dict[str, Any]]:
    return [{"user": "owner", "keys": [machine.public_key().strip() for machine in machines.values()]}]


@pytest.fixture(scope="module")
def site(keys: list[dict[str, Any]]) -> Callable[..., Run]:
    """Run the playbook `site` of an installed collection on the hosts."""

    def run(installed: Path, *options: str, **variables: Any) -> Run:
        extra, report = installed / "variables.json", installed / "report.json"
        extra.write_text(json.dumps({"ssh_authorized_keys": keys, **lab.looked_up(LAB), **variables}))
        report.unlink(missing_ok=True)
        settings = {
            "ANSIBLE_COLLECTIONS_PATH": str(installed),
            "ANSIBLE_CALLBACKS_ENABLED": "rigwright.workstation.report",
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
            "ANSIBLE_CALLBACK_FORMAT_PRETTY": "false",
            "RIGWRIGHT_REPORT_PATH": str(report),
        }
        playbook = ("rigwright.workstation.site", "-i", lab.LABS / f"{LAB}.yml", "-e", f"@{extra}")
        done = subprocess.run(
            [PROGRAMS / "ansible-playbook", *playbook, "-v", *options],
            cwd=installed,
            env=os.environ | settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert report.exists(), done.stdout
        return Run(done.returncode, done.stdout, json.loads(report.read_text())["hosts"])

    return run


def has_history() -> bool:
    """Return whether this clone has all commits, and not only the last ones."""
    is_shallow, count = (
        subprocess.check_output(["git", *options.split()], cwd=ROOT, text=True).strip()
        for options in ("rev-parse --is-shallow-repository", "rev-list --count HEAD")
    )
    return is_shallow == "false" and int(count) > 1


def source_of(commit: str, folder: Path) -> Path:
    """Unpack the tree of a commit."""
    if subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, check=False).returncode != 0:
        why = f"{commit}, which hosts are upgraded from, is not in this clone"
        if has_history():
            pytest.fail(why, pytrace=False)
        pytest.skip(f"{why}: run `git fetch --unshallow`")
    subprocess.run(["git", "archive", "--output", folder / "source.tar", commit], cwd=ROOT, check=True)
    source = folder / "source"
    with tarfile.open(folder / "source.tar") as archive:
        archive.extractall(source, filter="data")
    return source


def install(source: Path, folder: Path) -> Path:
    """Build the archive of a tree, install it, and return the folder of collections."""
    galaxy, installed = PROGRAMS / "ansible-galaxy", folder / "collections"
    subprocess.run([galaxy, "collection", "build", "--output-path", folder, source], check=True, cwd=folder)
    (archive,) = folder.glob("*.tar.gz")
    subprocess.run(
        [galaxy, "collection", "install", "--force", "--offline", "-p", installed, archive], check=True, cwd=folder
    )
    return installed


@pytest.fixture(scope="module")
def former_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return source_of(FROM, tmp_path_factory.mktemp("former"))


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(ROOT, tmp_path_factory.mktemp("new"))


@pytest.fixture(scope="module")
def before(
    site: Callable[..., Run], former_source: Path, machines: dict[str, Machine]
) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """Apply the earlier version, use the hosts, and return what they have and when their services started."""
    result = site(install(former_source, former_source.parent), **FORMER_NAMES)
    assert result.rc == 0, result.output
    for name, machine in machines.items():
        assert set(result.statuses(name).values()) <= {"pass", "skip", "warn"}
        machine.must(f"rigwright-backup run home && rm {LOST}", seconds=120)
        use(machine)
    return {name: (fingerprint.of(machine), fingerprint.service_starts(machine)) for name, machine in machines.items()}


def use(machine: Machine) -> None:
    """Use a host as its users do: the share, the tunnel to the other host, the environment and docker."""
    machine.put({"/root/.smb": Entry(f"username=owner\npassword={PASSWORD}\n".encode(), mode=0o600)})
    machine.must(
        "smbclient --authentication-file /root/.smb //127.0.0.1/sets --command 'put /etc/hostname there; get there /tmp/back'"
        " && cmp /etc/hostname /tmp/back"
    )
    tunnel = machine.ssh("owner@127.0.0.1", "hostname", port=6022)
    assert tunnel.stdout.strip() not in ("", machine.host.name), tunnel.stderr
    machine.must("/opt/conda/envs/research/bin/python -c 'import sys' && docker info", user="owner")


def records(machine: Machine) -> list[str]:
    """Return the records of roles on a host; those of sets of files are tested on their own."""
    listed = machine.must("find /var/lib/rigwright* -type f ! -path '/var/lib/rigwright/config_files/*'")
    return sorted(listed.splitlines())


def test_each_record_of_the_earlier_version_is_read(former_source: Path) -> None:
    sources = (former_source / "plugins").rglob("*.py")
    read = {path for path, *_rest in RECORDS.values()} | set(OTHERS)
    assert {path for file in sources for path in kept(file.read_text())} - read == set()


def test_only_what_the_changelog_says_changes(site, before, new, machines):
    result = site(new)
    assert result.rc == 0, result.output
    for name, machine in machines.items():
        files, starts = before[name]
        changes = [
            *site_output.changes(result.output, name),
            *fingerprint.difference(files, fingerprint.of(machine)),
            *(
                f"started: {unit}"
                for unit, start in fingerprint.service_starts(machine).items()
                if starts.get(unit) != start
            ),
        ]
        assert unexpected(changes, CHANGES) == []
        assert "fail" not in result.statuses(name).values()
        assert set(records(machine)).isdisjoint(FORMER_RECORDS)


def unexpected(lines: Sequence[str], reasons: dict[str, str]) -> list[str]:
    return [line for line in lines if not any(re.search(pattern, line) for pattern in reasons)]


def test_users_go_on_after_the_upgrade(machines, new):
    for machine in machines.values():
        use(machine)
        machine.must(f"rigwright-backup restore home --path {LOST} --target / && grep chapter {LOST}", seconds=120)


def test_the_next_run_changes_nothing(site, new, machines):
    before = {
        name: (fingerprint.of(machine), fingerprint.service_starts(machine)) for name, machine in machines.items()
    }
    result = site(new)
    assert result.rc == 0, result.output
    assert {name: host["stats"]["changed"] for name, host in result.hosts.items()} == dict.fromkeys(machines, 0)
    for name, machine in machines.items():
        files, starts = before[name]
        assert fingerprint.difference(files, fingerprint.of(machine)) == []
        assert fingerprint.service_starts(machine) == starts
