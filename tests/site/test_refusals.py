# SPDX-License-Identifier: GPL-3.0-or-later
"""What a newcomer's machine may lack: each refusal is one sentence with a remedy, and leaves everything as it was.

The bare machine is a host of the demo: Debian 12 without docker, without a Python environment, and here without a network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from harness.sandbox import engine, fingerprint, lab
from harness.sandbox import lifecycle as sandbox
from harness.sandbox.clients import Done, Entry, Machine
from harness.sandbox.lab import ROOT

CHECKOUT = "/srv/rigwright"
SHIPPED = ("script", "requirements")


@pytest.fixture(scope="module")
def bare() -> Iterator[Machine]:
    """Return a host with the scripts of this checkout, and from the first test on without a network."""
    wanted = lab.read("demo")
    sandbox.down("demo")
    sandbox.up(wanted)
    machine = Machine(engine.connect(), wanted.host("laptop"))
    files = [path for folder in SHIPPED for path in (ROOT / folder).iterdir() if path.is_file()]
    machine.put({CHECKOUT: Entry(None, mode=0o755)})
    machine.put(
        {
            f"{CHECKOUT}/{path.relative_to(ROOT)}": Entry(path.read_bytes(), path.stat().st_mode & 0o777)
            for path in files
        }
    )
    machine.must("ip link set eth0 down")
    yield machine
    sandbox.down("demo")


@pytest.fixture
def unchanged(bare: Machine) -> Iterator[None]:
    """Check that the machine is afterwards what it was before the test."""
    before = fingerprint.of(bare)
    yield
    assert fingerprint.difference(before, fingerprint.of(bare)) == []


def refused(done: Done, problem: str, remedy: str) -> None:
    assert done.rc != 0
    assert problem in done.stderr
    assert f"remedy: {remedy}" in done.stderr


@pytest.mark.usefixtures("unchanged")
def test_a_user_who_is_not_root_is_refused(bare):
    done = bare.run(f"{CHECKOUT}/script/demo", user="owner")
    refused(done, "needs root", "run it as root, for example with sudo")
    assert done.stdout == ""


@pytest.mark.usefixtures("unchanged")
def test_a_disk_that_is_nearly_full_is_refused_with_its_name(bare):
    bare.must("mount -t tmpfs -o size=64m tmpfs /mnt && cp -r /srv/rigwright /mnt/")
    done = bare.run("/mnt/rigwright/script/demo")
    bare.must("umount /mnt")
    refused(done, "the disk of /mnt/rigwright has 0.0 GiB free, 8 GiB are needed", "free some space")


@pytest.mark.usefixtures("unchanged")
def test_missing_docker_without_network_names_the_network(bare):
    done = bare.run(f"{CHECKOUT}/script/demo", seconds=120)
    bare.must(f"rm -r {CHECKOUT}/.cache")
    refused(done, "docker.io", "is there a network and a working package source (apt-get update)?")


@pytest.mark.usefixtures("unchanged")
def test_a_controller_of_real_machines_is_asked_for_no_docker(bare):
    done = bare.run(f"{CHECKOUT}/script/bootstrap", seconds=120)
    bare.must(f"rm -rf {CHECKOUT}/.cache {CHECKOUT}/.venv")
    assert done.rc != 0, "without a network it ends at what it lacks"
    assert "docker" not in done.stdout + done.stderr


@pytest.mark.usefixtures("unchanged")
def test_another_system_than_debian_is_refused(bare):
    bare.must("echo ID=fedora > /run/os-release && mount --bind /run/os-release /usr/lib/os-release")
    done = bare.run(f"{CHECKOUT}/script/demo")
    bare.must("umount /usr/lib/os-release")
    refused(done, "this system (fedora) is neither Debian nor Ubuntu", "use Debian 12 or newer, or Ubuntu")


@pytest.fixture(scope="module")
def harness() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `python -m harness up --lab demo` on this machine, after shell commands in a network namespace of its own."""

    def run(prepare: str = "true", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                *("unshare", "--net", "sh", "-c", f'{prepare} && exec "$@"', "-"),
                *(sys.executable, "-m", "harness", "up", "--lab", "demo"),
            ],
            cwd=ROOT,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_addresses_in_use_are_refused_with_a_remedy(harness):
    networks = len(engine.connect().networks.list())
    done = harness(
        "ip link add v0 type veth && ip addr add 10.99.7.1/24 dev v0 && ip link set v0 up", RIGWRIGHT_SANDBOX="99"
    )
    assert done.returncode == 1
    assert "wants the addresses 10.99.0.0/16, but this machine has a route to 10.99.7.0/24" in done.stderr
    assert "RIGWRIGHT_SANDBOX=77" in done.stderr
    assert len(engine.connect().networks.list()) == networks


def test_stopped_docker_is_refused_with_its_start_script(harness):
    done = harness(DOCKER_HOST="unix:///run/no-docker.sock")
    assert done.returncode == 1
    assert "No docker engine answers" in done.stderr
    assert "run script/bootstrap --sandbox" in done.stderr


@pytest.mark.parametrize("subcommand", ["up", "down"])
def test_the_sandbox_of_another_checkout_is_left_alone(bare, tmp_path, subcommand):
    shutil.copytree(ROOT / "harness", tmp_path / "harness")
    done = subprocess.run(
        [sys.executable, "-m", "harness", subcommand, "--lab", "demo"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"belongs to the checkout {ROOT}" in done.stderr
    assert bare.must("echo still here") == "still here\n"
