# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of modules that are in force, and devices that they keep from the host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._system import modprobe, pci

ADDRESS, LIKE = "0000:01:00.0", "0000:02:00.0"
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


@pytest.mark.parametrize(
    ("driver", "files", "kept_by"),
    [
        ("nvidia", {}, ""),
        ("nouveau", {}, ""),
        ("vfio-pci", {}, "vfio-pci"),
        ("", {}, "vfio-pci"),
        # It needs no other ids for that.
        ("nvidia", {"driver_override": "nvidia\n"}, "vfio-pci"),
        ("nvidia", {"driver_override": "(null)\n"}, ""),
        # Another model, and the sound of the card, which its own driver often takes first.
        ("nvidia", {"device": "0x2204\n"}, "vfio-pci"),
        ("snd_hda_intel", {"device": "0x10f0\n", "class": "0x040300\n"}, "vfio-pci"),
    ],
)
def test_ids_of_a_device_that_the_host_uses_are_old(
    tmp_path: Path, write: Write, driver: str, files: dict[str, str], kept_by: str
) -> None:
    for name, value in {**CARD, **files}.items():
        write(f"{pci.DEVICES}/{LIKE}/{name}", value)
    if driver:
        (tmp_path / f"{pci.DEVICES}/{LIKE}/driver".lstrip("/")).symlink_to(f"../../../../bus/pci/drivers/{driver}")
    write("/etc/modprobe.d/vfio.conf", f"options vfio-pci ids={IDS}\n")
    assert modprobe.kept_by(Tree(str(tmp_path)), ADDRESS) == kept_by


def test_ids_keep_no_device_that_the_host_has_used(tmp_path: Path, write: Write) -> None:
    write("/proc/cmdline", f"vfio-pci.ids={IDS}\n")
    assert modprobe.kept_by(Tree(str(tmp_path)), ADDRESS, was_used=True) == ""
    write(f"{pci.DEVICES}/{ADDRESS}/driver_override", "vfio-pci\n")
    assert modprobe.kept_by(Tree(str(tmp_path)), ADDRESS, was_used=True) == "vfio-pci"


def test_the_last_option_counts(tmp_path: Path, write: Write) -> None:
    write("/etc/modprobe.d/b.conf", "options nvidia x=3\n")
    write("/usr/lib/modprobe.d/a.conf", "options nvidia x=1 y=1\n")
    write("/usr/lib/modprobe.d/b.conf", "options nvidia x=2\n")
    tree = Tree(str(tmp_path))
    assert [modprobe.option(tree, "nvidia", name) for name in ("x", "y", "z")] == ["3", "1", ""]
