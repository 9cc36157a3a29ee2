# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot of a machine, from its files and from a recording of efibootmgr in a virtual machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import boot

from tests.unit.support.manifest.manifests import fixture


def write(root: Path, path: str, content: str | bytes) -> None:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content if isinstance(content, bytes) else content.encode())


def test_entries_name_partition_and_file() -> None:
    found = boot.parse_efibootmgr(fixture("efibootmgr.txt"))
    assert found["order"] == ["0002", "0001", "0000"]
    assert found["entries"][2] == {
        "number": "0002",
        "active": True,
        "label": "debian",
        "partition": "066e07c4-3c5a-4c69-b797-95f4fbffc9ff",
        "file": "\\EFI\\debian\\shimx64.efi",
    }
    # What the firmware has by itself is on no partition.
    assert (found["entries"][0]["label"], found["entries"][0]["partition"], found["entries"][0]["file"]) == (
        "UiApp",
        "",
        "",
    )


def test_the_newer_form_without_the_word_file_is_understood() -> None:
    line = "Boot0001* debian\tHD(1,GPT,066e07c4-3c5a-4c69-b797-95f4fbffc9ff,0x800,0x20000)/\\EFI\\debian\\shimx64.efi\n"
    (entry,) = boot.parse_efibootmgr(line)["entries"]
    assert entry["file"] == "\\EFI\\debian\\shimx64.efi"


def test_a_host_without_uefi_has_neither_entries_nor_secure_boot(tmp_path: Path) -> None:
    found = boot.read_boot(Tree(str(tmp_path)), "", {"grub-pc"})
    assert (found["mode"], found["secure_boot"], found["loader"]) == ("bios", "unsupported", "grub-pc")
    assert found["efi"] == {"order": [], "entries": []}


@pytest.mark.parametrize(
    ("value", "expected"), [(b"\6\0\0\0\1", "enabled"), (b"\6\0\0\0\0", "disabled"), (b"", "unknown")], ids=str
)
def test_secure_boot_follows_the_efi_variable(tmp_path: Path, value: bytes, expected: str) -> None:
    write(tmp_path, "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", value)
    assert boot.secure_boot(Tree(str(tmp_path))) == expected


@pytest.mark.parametrize(
    ("packages", "mode", "expected"),
    [
        ({"grub-efi-amd64", "grub-efi-amd64-signed"}, "uefi", "grub-efi"),
        ({"grub-pc", "grub-pc-bin", "grub-efi-amd64-bin", "grub-efi-amd64-signed"}, "uefi", "grub-efi"),
        ({"grub-pc", "grub-pc-bin", "grub-efi-amd64-bin", "grub-efi-amd64-signed"}, "bios", "grub-pc"),
        ({"grub-efi-amd64"}, "bios", ""),
        ({"systemd-boot"}, "uefi", "systemd-boot"),
        (set(), "uefi", ""),
    ],
)
def test_the_loader_is_that_of_the_firmware(packages: set[str], mode: str, expected: str) -> None:
    assert boot.loader(packages, mode) == expected


def test_of_two_loaders_the_firmware_names_the_first() -> None:
    entry = {"number": "0001", "file": "\\EFI\\systemd\\systemd-bootx64.efi"}
    both = {"systemd-boot", "grub-efi-amd64"}
    assert boot.loader(both, "uefi", {"order": ["0001"], "entries": [entry]}) == "systemd-boot"
    assert boot.loader(both, "uefi", {"order": ["0002"], "entries": [entry]}) == "grub-efi"


def test_command_line_and_resume(tmp_path: Path) -> None:
    write(tmp_path, "/proc/cmdline", "root=UUID=1 quiet password=secret\n")
    write(tmp_path, "/etc/initramfs-tools/conf.d/resume", "# where to\nRESUME='UUID=2'\n")
    found = boot.read_boot(Tree(str(tmp_path)), "", ())
    assert found["resume"] == "UUID=2"
    assert found["command_line"] == "root=UUID=1 quiet password=***"
