# SPDX-License-Identifier: GPL-3.0-or-later
"""What apt says that it would do, and which transaction is sound."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.apt_transaction import (
    OWN_PREFERENCES,
    Simulation,
    parse_simulation,
    preferences_parts,
    simulation_problem,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import Change

from tests.unit.support.nvidia.machine import Machine, change, host

SIMULATED = """\
NOTE: This is only a simulation!
Remv nvidia-kernel-dkms [580.159.04-1]
Inst libcuda1 [580.159.04-1] (590.48.01-1 NVIDIA CUDA:NVIDIA [amd64]) []
Inst dkms (3.0.10-8+deb12u1 Debian:12.9/oldstable [all])
Conf libcuda1 (590.48.01-1 NVIDIA CUDA:NVIDIA [amd64])
"""


def test_simulation_is_parsed() -> None:
    found = parse_simulation(0, SIMULATED, "")
    assert found.install == {"libcuda1": "590.48.01-1", "dkms": "3.0.10-8+deb12u1"}
    assert found.remove == ["nvidia-kernel-dkms"]


def test_a_tool_of_the_archive_may_have_a_version_of_its_own() -> None:
    simulation = Simulation({"libcuda1": "550.163.01-2", "nvidia-modprobe": "570.133.07-1"}, [])
    assert simulation_problem(simulation, Change(branch=550)) == ""


def test_only_the_branch_and_the_drivers_own_packages() -> None:
    sound = Simulation({"libcuda1": "590.48.01-1", "dkms": "3.0"}, ["nvidia-kernel-dkms", "nvidia-driver-pinning-580"])
    assert simulation_problem(sound, change()) == ""
    other = Simulation({"libcuda1": "580.1.1-1", "libnvidia-ml1": "595.71.05-1"}, [])
    assert simulation_problem(other, change()) == "apt would install libnvidia-ml1 595.71.05-1"


def test_libraries_of_a_second_architecture_are_the_drivers_own() -> None:
    goes = Simulation({"libcuda1": "590.48.01-1"}, ["libcuda1:i386"])
    assert simulation_problem(goes, change()) == ""
    other = Simulation({"libcuda1:i386": "595.71.05-1"}, [])
    assert simulation_problem(other, change()) == "apt would install libcuda1:i386 595.71.05-1"


def test_the_pin_of_the_new_branch_takes_the_place_of_the_old(machine: Machine) -> None:
    machine.write("/etc/apt/preferences.d/nvidia-driver-pinning", "Pin: version 580.*\n")
    machine.write(
        "/var/lib/dpkg/info/nvidia-driver-pinning-580.list", "/.\n/etc/apt/preferences.d/nvidia-driver-pinning\n"
    )
    wanted = dataclasses.replace(change(), preferences="Pin: version 590.*\n")
    with preferences_parts(host(machine).tree, wanted) as parts:
        assert sorted(path.name for path in Path(parts).iterdir()) == ["mine", OWN_PREFERENCES]
        assert (Path(parts) / OWN_PREFERENCES).read_text() == "Pin: version 590.*\n"
