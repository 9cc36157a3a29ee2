# SPDX-License-Identifier: GPL-3.0-or-later
"""A booted machine of qemu: provisioned over ssh, without power, without its data disk. Each test goes on where the last one ended."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.depot import lifecycle as depot
from harness.progress import say, step
from harness.sandbox import engine
from harness.sandbox.lab import CACHE, DEPOT
from harness.vm import qemu, systems
from harness.vm.machine import Played, cut_power, play
from harness.vm.qemu import Disk, Machine
from harness.vm.systems import Drill

CLOUD = Drill("debian13", "bios", "cloud", ((6144, 6144),), ("/",))
SITE = "site.yml"
VERIFY = "playbooks/verify.yml"
PROXY = f'Acquire::http::Proxy "http://{DEPOT}:{depot.APT_PORT}";\n'
# As the owner of a machine of the cloud would write it.
REQUEST: dict[str, Any] = {
    "docker_state": "absent",
    "conda_state": "absent",
    "workstation_gpu": False,
    "storage_disks": [{"serial": "DATA", "role": "data", "quota": True}],
    "storage_directories": [{"path": "/data/sets", "owner": "alice", "mode": "2775", "quota": "200M"}],
    "samba_users": [{"name": "alice", "password": "samba-password-of-alice"}],
    "samba_shares": [{"name": "sets", "path": "/data/sets", "read_only": False, "write_list": ["alice"]}],
    "samba_networks": ["10.0.2.0/24"],
    "firewall_ssh_networks": ["10.0.2.0/24"],
    "backup_repositories": [{"name": "disk", "url": "/srv/backup", "password": "password-of-the-repository"}],
    "backup_jobs": [{"name": "data", "paths": ["/etc", "/data"]}],
}


@pytest.fixture(scope="module")
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """Boot a machine of Debian 13 as it comes from the cloud, with a second, empty disk."""
    systems.check_tools()
    client = engine.connect()
    engine.ensure_network(client)
    depot.up(client)
    folder = CACHE / "machine"
    folder.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(dir=folder))
    with step("make the machine"), engine.making("bare_metal"):
        (original,) = systems.prepare(CLOUD)
        system = systems.copy(original, place / "system")
    data = systems.blank(place / "data", 2048)
    disks = [Disk(system, "SYSTEM"), Disk(data, "DATA")]
    started = Machine("workstation", "bios", place, systems.KEY, disks, user="debian")
    boot(started)
    # Check mode cannot fetch the lists of packages; cloud-init does with `package_update`.
    started.ssh("sudo tee /etc/apt/apt.conf.d/90depot && sudo apt-get update", PROXY)
    failed = request.session.testsfailed
    yield started
    started.stop()
    if request.session.testsfailed == failed:
        shutil.rmtree(place)
    else:
        for disk in (system, data):
            disk.unlink()
        say(f"the logs of the failed run: {place}; the console ends so:\n{started.console()[-3000:]}")


def boot(machine: Machine) -> None:
    with step("boot the machine"):
        machine.boot_up()


def site(machine: Machine, *options: str, must_work: bool = True, **more: Any) -> Played:
    with step(f"run the site {' '.join(options)}"):
        return play(machine, SITE, *options, variables=REQUEST | more, must_work=must_work)


def verify(machine: Machine, *options: str, **more: Any) -> Played:
    with step(f"verify {' '.join(options)}"):
        return play(machine, VERIFY, *options, variables=REQUEST | more, must_work=False)


def cut(machine: Machine, condition: str, *options: str, **more: Any) -> None:
    """Cut the power while the site runs, as soon as the condition holds, and boot again."""
    with step(f"run the site until {condition}, and cut the power"):
        cut_power(machine, condition, SITE, *options, variables=REQUEST | more)
    boot(machine)


def failed_units(machine: Machine) -> str:
    return machine.ssh("systemctl --failed --plain --no-legend")


def test_check_mode_passes_on_a_fresh_machine(machine):
    before = machine.ssh("sudo find /etc /var/lib/dpkg/info -newermt @0 -printf '%p %T@ %s\n' | sort")
    assert site(machine, "--check").rc == 0
    assert machine.ssh("sudo find /etc /var/lib/dpkg/info -newermt @0 -printf '%p %T@ %s\n' | sort") == before


def test_check_mode_knows_the_mounts_to_come(machine):
    jobs = [{"name": "system", "paths": ["/"]}]
    refused = site(machine, "--check", "--tags", "storage,backup", must_work=False, backup_jobs=jobs)
    assert refused.rc != 0
    assert "have nothing of /data" in refused.output


def test_a_power_cut_while_samba_is_configured_is_healed(machine):
    cut(machine, "grep -sq rigwright /etc/samba/smb.conf")
    site(machine)


def test_the_run_after_changes_nothing(machine):
    assert site(machine).changed == []


def test_a_rebooted_machine_is_green(machine):
    machine.shut_down()
    boot(machine)
    assert verify(machine).failed == {}
    assert failed_units(machine) == ""


def test_a_power_cut_while_ssh_is_configured_is_healed(machine):
    cut(machine, "test -e /var/lib/rigwright/config_files/ssh/journal.json", "--tags", "ssh", ssh_max_auth_tries=3)
    # The boot itself has put the files back, and the unit for it is gone.
    assert machine.ssh("sudo find /var/lib/rigwright /etc/systemd/system -name journal.json -o -name '*recover*'") == ""
    site(machine, "--tags", "ssh", ssh_max_auth_tries=3)
    assert site(machine, "--tags", "ssh", ssh_max_auth_tries=3).changed == []
    assert "maxauthtries 3" in machine.ssh("sudo sshd -T")


def test_without_its_data_disk_the_machine_boots(machine):
    machine.shut_down()
    machine.disks, data = machine.disks[:1], machine.disks[1]
    boot(machine)
    assert "read-only" not in machine.ssh("findmnt --noheadings --output OPTIONS /")
    assert machine.ssh("sudo touch /data/stray; ls -A /data", must_work=False) == ""
    failed = verify(machine, "--tags", "storage,samba,backup").failed
    assert "no disk of this host is called so" in failed["storage.disks"]["evidence"], failed
    assert failed["storage.fstab"]["remedy"] == failed["storage.disks"]["remedy"]
    # E4: a disk that is late.
    machine.plug_in(data)
    with step("wait for the disk that came late"):
        machine.ssh("until findmnt /data; do sleep 1; done", seconds=qemu.BOOT_S)
    assert verify(machine, "--tags", "storage,samba,backup").failed == {}
    machine.disks = [*machine.disks, data]


def test_booted_with_its_disk_again_it_is_green(machine):
    machine.shut_down()
    boot(machine)
    assert machine.ssh("findmnt --noheadings --output TARGET /data") == "/data\n"
    # As the last run has set it.
    assert verify(machine, ssh_max_auth_tries=3).failed == {}
