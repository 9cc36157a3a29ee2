# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that keep the driver's modules from loading."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.module_loading import read_obstacles

from tests.unit.support.nvidia.roots import Root


@pytest.mark.parametrize("directory", ["/etc", "/run", "/usr/lib", "/lib"])
@pytest.mark.parametrize(
    "line",
    [
        "alias nvidia off",
        "alias nvidia null",
        "install nvidia /bin/false",
        "install  nvidia\t/bin/true",
        "install nvidia-uvm /usr/bin/false",
        "install nvidia-current /bin/false",
        "install nvidia_current_open \\\n/bin/false",
    ],
)
def test_setting_that_keeps_the_module_out_is_found(root: Root, directory: str, line: str) -> None:
    path = f"{directory}/modprobe.d/own.conf"
    root.write(path, f"# nothing\n{line}\n")
    (found,) = read_obstacles(root.tree)
    assert found.file == path


@pytest.mark.parametrize(
    "line",
    [
        "blacklist nvidia",
        "# install nvidia /bin/false",
        "install nvidia-drm /bin/false",
        "alias nvidia-modeset off",
        "alias nvidia nvidia-current",
        "install nvidia modprobe -i nvidia-current $CMDLINE_OPTS",
        "install nvidiafb /bin/false",
        "install nouveau /bin/false",
        "alias nouveau off",
        "softdep nvidia pre: vfio-pci",
        "options nvidia NVreg_DynamicPowerManagement=0x02",
        "remove nvidia modprobe -r -i nvidia-drm nvidia",
    ],
)
def test_setting_with_which_the_module_loads_is_no_obstacle(root: Root, line: str) -> None:
    root.write("/etc/modprobe.d/own.conf", f"{line}\n")
    assert read_obstacles(root.tree) == []


def test_file_of_a_name_counts_in_its_first_directory(root: Root) -> None:
    root.write("/lib/modprobe.d/blacklist-nvidia.conf", "alias nvidia off\n")
    root.write("/etc/modprobe.d/blacklist-nvidia.conf", "")
    root.write("/etc/modprobe.d/old.conf.bak", "alias nvidia off\n")
    assert read_obstacles(root.tree) == []


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("ro module_blacklist=nouveau,nvidia quiet", 1),
        ("ro module_blacklist=nouveau quiet", 0),
        ("ro modprobe.blacklist=nvidia rd.driver.blacklist=nouveau", 0),
    ],
)
def test_kernels_own_list_is_read(root: Root, line: str, number: int) -> None:
    root.write("/proc/cmdline", f"{line}\n")
    assert len(read_obstacles(root.tree)) == number
