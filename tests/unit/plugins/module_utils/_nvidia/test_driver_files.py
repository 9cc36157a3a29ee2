# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and units of a planned driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_files import (
    ARCHIVE_SOURCE,
    FABRIC,
    PERSISTENCE,
    PERSISTENCE_DROP_INS,
    SETTLE,
    SETTLE_LINK,
    apt_files,
    boot_units,
    directories,
    modprobe_files,
    option_value,
    persistence_files,
    source_files,
    units,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import Change
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_requirements import requirements
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_state import DriverState

from tests.unit.support.nvidia.driver_states import PARAMS, See, unmet


def test_the_archives_components_come_first(see: See) -> None:
    assert source_files("Types: deb\n") == [{"path": ARCHIVE_SOURCE, "content": "Types: deb\n"}]
    assert source_files(None) == []


@pytest.mark.parametrize(
    ("lock", "paths"),
    [
        (
            True,
            [
                "/etc/apt/apt.conf.d/52rigwright-nvidia-driver",
                "/etc/needrestart/conf.d/rigwright-nvidia-driver.conf",
            ],
        ),
        (False, []),
    ],
)
def test_lock_configures_upgrade_helpers(see: See, lock: bool, paths: list[str]) -> None:
    files = apt_files(see("healthy_workstation"), lock)
    assert [row["path"] for row in files] == paths
    assert directories(files) == [{"path": path} for path in ("/etc/needrestart", "/etc/needrestart/conf.d") if lock]


def test_without_a_pinning_package_the_role_pins(see: See) -> None:
    files = apt_files(see("mismatch_after_upgrade"), lock=False)
    (pin,) = files
    assert pin["path"] == "/etc/apt/preferences.d/rigwright-nvidia-driver"
    assert "Pin-Priority: -1" in pin["content"]


def test_nouveau_goes_only_if_another_module_replaces_it(see: See) -> None:
    bare = see("nouveau_bound")
    assert modprobe_files(bare, None, {}) == []
    (modprobe,) = modprobe_files(bare, Change(580), {})
    assert "blacklist nouveau" in modprobe["content"]
    (modprobe,) = modprobe_files(see("healthy_workstation"), None, {"NVreg_B": 1, "NVreg_A": 0})
    assert (
        "".join(
            f"options {module} NVreg_A=0 NVreg_B=1\n" for module in ("nvidia", "nvidia-current", "nvidia-current-open")
        )
        in modprobe["content"]
    )


@pytest.mark.parametrize(
    ("value", "written"),
    [
        *((True, "1"), (False, "0"), (0, "0"), ("0x1f", "0x1f"), ("a=1;b=2,3", "a=1;b=2,3"), ('"a b"', '"a b"')),
        *((None, ""), ([1, 2], ""), ({}, ""), ("", ""), ("a b", ""), ('a"', ""), ("x\ninstall nvidia /bin/false", "")),
        *(("x\n", ""), ("x\\", ""), ('"a\nb"', "")),
    ],
)
def test_module_option_is_readable_by_modprobe(see: See, value: Any, written: str) -> None:
    state, options = see("healthy_workstation"), {"NVreg_A": value}
    assert option_value(value) == written
    refused = unmet(requirements(state, None, PARAMS | {"module_options": options}))
    assert ("nvidia_driver_module_options" in refused) is (written == "")
    (modprobe,) = modprobe_files(state, None, options)
    assert f"options nvidia NVreg_A={written}\n" in modprobe["content"]


def test_ubuntus_daemon_gets_persistence_mode(see: See) -> None:
    unit = "[Service]\nExecStart=/usr/bin/nvidia-persistenced --user x --no-persistence-mode --verbose\n"
    files = persistence_files(see("healthy_workstation", persistence_unit=unit))
    (drop_in,) = files
    assert drop_in["content"].endswith("ExecStart=\nExecStart=/usr/bin/nvidia-persistenced --user x --verbose\n")
    assert {"path": PERSISTENCE_DROP_INS} in directories(files)


def test_daemons_run_once_the_driver_is_loaded(see: See) -> None:
    def names(state: DriverState) -> list[str]:
        return [row["name"] for row in units(state)]

    unit = "[Service]\nExecStart=/usr/bin/nvidia-persistenced\n"
    assert names(see("healthy_workstation", persistence_unit=unit)) == [PERSISTENCE]
    assert names(see("nouveau_bound", persistence_unit=unit)) == []
    switches = see("healthy_workstation", persistence_unit=unit, facts={"nvswitch": True})
    assert FABRIC in names(switches)


def test_check_at_boot_is_enabled_once(tmp_path: Path) -> None:
    tree = Tree(str(tmp_path))
    assert boot_units(tree) == [{"name": SETTLE, "enabled": True, "state": "stopped"}]
    link = Path(tree.at(SETTLE_LINK))
    link.parent.mkdir(parents=True)
    link.symlink_to(f"/etc/systemd/system/{SETTLE}")
    assert boot_units(tree) == []
