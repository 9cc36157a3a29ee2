# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of modules that are in force, and devices that they keep from the host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._system import modprobe, pci

ADDRESS = "0000:01:00.0"
CARD = {
    "vendor": "0x10de",
    "device": "0x1b80",
    "subsystem_vendor": "0x1462",
    "subsystem_device": "0x3362",
    "class": "0x030000",
}
IDS = "10de:1b80,10de:10f0"
Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(path: str, text: str) -> None:
        place = tmp_path / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    for name, value in CARD.items():
        write_file(f"{pci.DEVICES}/{ADDRESS}/{name}", f"{value}\n")
    return write_file


@pytest.mark.parametrize(
    ("files", "kept_by"),
    [
        ({}, ""),
        ({"/etc/modprobe.d/vfio.conf": f"options vfio-pci ids={IDS} disable_vga=1\n"}, "vfio-pci"),
        ({"/etc/modprobe.d/vfio.conf": f"options vfio_pci disable_vga=1 \\\n  ids={IDS}\n"}, "vfio-pci"),
        ({"/etc/modprobe.d/vfio.conf": f"#options vfio-pci ids={IDS}\n"}, ""),
        ({"/etc/modprobe.d/vfio.conf": "options vfio-pci ids=10de:2684\n"}, ""),
        ({"/etc/modprobe.d/vfio": f"options vfio-pci ids={IDS}\n"}, ""),
        ({"/proc/cmdline": f"quiet intel_iommu=on vfio-pci.ids={IDS}\n"}, "vfio-pci"),
        ({"/proc/cmdline": f"vfio_pci.ids={IDS}\n"}, "vfio-pci"),
        ({"/proc/cmdline": f"pci-stub.ids={IDS}\n"}, "pci-stub"),
        ({"/proc/cmdline": "vfio-pci.ids=\n", "/etc/modprobe.d/vfio.conf": f"options vfio-pci ids={IDS}\n"}, ""),
        ({"/proc/cmdline": "vfio-pci.ids=10de:ffffffff:ffffffff:ffffffff:00030000:ffff00ff\n"}, "vfio-pci"),
        ({"/proc/cmdline": "vfio-pci.ids=10de:1b80:1462:ffff\n"}, ""),
        ({"/proc/cmdline": "vfio-pci.ids=10de,rubbish\n"}, ""),
        ({f"{pci.DEVICES}/{ADDRESS}/driver_override": "vfio-pci\n"}, "vfio-pci"),
        ({f"{pci.DEVICES}/{ADDRESS}/driver_override": "(null)\n"}, ""),
        ({f"{pci.DEVICES}/{ADDRESS}/driver_override": "nvidia\n", "/proc/cmdline": f"vfio-pci.ids={IDS}\n"}, ""),
    ],
)
def test_device_is_kept(tmp_path: Path, write: Write, files: dict[str, str], kept_by: str) -> None:
    for path, text in files.items():
        write(path, text)
    assert modprobe.kept_by(Tree(str(tmp_path)), ADDRESS) == kept_by


def test_the_last_option_counts(tmp_path: Path, write: Write) -> None:
    write("/etc/modprobe.d/b.conf", "options nvidia x=3\n")
    write("/usr/lib/modprobe.d/a.conf", "options nvidia x=1 y=1\n")
    write("/usr/lib/modprobe.d/b.conf", "options nvidia x=2\n")
    tree = Tree(str(tmp_path))
    assert [modprobe.option(tree, "nvidia", name) for name in ("x", "y", "z")] == ["3", "1", ""]
