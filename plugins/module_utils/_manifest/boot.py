# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The boot of a host: firmware, its entries, the loader, the kernel's command line, and the resume device."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import lines
from ansible_collections.rigwright.workstation.plugins.module_utils._core.redact import without_secrets
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest.document import Facts

EFI, EFIVARS = "/sys/firmware/efi", "/sys/firmware/efi/efivars"
UEFI, BIOS = "uefi", "bios"
_SECURE_BOOT = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
RESUME = "/etc/initramfs-tools/conf.d/resume"
# The packages that have a loader, by the firmware that starts it. Images of clouds have those for both.
LOADERS: dict[str, dict[str, tuple[str, ...]]] = {
    UEFI: {
        "grub-efi": ("grub-efi-amd64", "grub-efi-amd64-bin", "grub-efi-arm64", "grub-efi-arm64-bin"),
        "systemd-boot": ("systemd-boot",),
    },
    BIOS: {"grub-pc": ("grub-pc", "grub-pc-bin")},
}


_EFI = {
    "entry": r"Boot(?P<number>[0-9A-Fa-f]{4})(?P<active>\*?) (?P<rest>.+)",
    "order": r"BootOrder: (?P<order>\S+)",
    "setting": r"(BootCurrent|BootNext|Timeout|Mirror\w+): .*|No BootOrder is set.*",
    "data": r"\s+(dp|data): .*",
}


def parse_efibootmgr(text: str) -> Facts:
    """Parse the firmware's entries from ``efibootmgr -v``: the UUID of the partition, and the file on it."""
    entries, order = [], ""
    for name, match in lines.parse("efibootmgr -v", text, _EFI):
        order = match["order"].upper() if name == "order" else order
        if name != "entry":
            continue
        number, active, rest = match["number"], match["active"], match["rest"]
        label, _tab, path = rest.partition("\t")
        disk = re.search(r"HD\((\d+),GPT,([0-9A-Fa-f-]{36})", path)
        # Version 17 and older print `File(\EFI\x)`, newer ones only the path after a slash, and the entry's data right behind it.
        file = re.search(r"File\(([^)]*)\)|/(\\[^/\s]*?\.efi|\\[^/\s]+)", path, re.IGNORECASE)
        entries.append(
            {
                "number": number.upper(),
                "active": bool(active),
                "label": label.strip(),
                "partition": disk.group(2).lower() if disk else "",
                "file": (file.group(1) or file.group(2)) if disk and file else "",
            }
        )
    return {"order": order.split(",") if order else [], "entries": entries}


def boot_mode(tree: Tree) -> str:
    return UEFI if tree.exists(EFI) else BIOS


def secure_boot(tree: Tree) -> str:
    """Return ``enabled``, ``disabled``, ``unsupported`` without UEFI, or ``unknown`` where its variables cannot be read."""
    if boot_mode(tree) == BIOS:
        return "unsupported"
    # efivarfs puts four bytes of attributes before the value.
    value = tree.bytes(f"{EFIVARS}/{_SECURE_BOOT}")[4:5]
    return {b"\x01": "enabled", b"\x00": "disabled"}.get(value, "unknown")


def loader(packages: t.Container[str], mode: str, efi: Facts | None = None) -> str:
    """Return the loader that this firmware starts: ``grub-pc``, ``grub-efi``, ``systemd-boot``, or an empty string."""
    found = [name for name, owners in LOADERS[mode].items() if any(package in packages for package in owners)]
    entries = {entry["number"]: entry["file"].lower() for entry in (efi or {}).get("entries", ())}
    first = next((entries[number] for number in (efi or {}).get("order", ()) if entries.get(number)), "")
    if "systemd" in first and "systemd-boot" in found:
        return "systemd-boot"
    return next(iter(found), "")


def read_boot(tree: Tree, efibootmgr: str, packages: t.Container[str]) -> Facts:
    resume = re.search(r"^RESUME=(.*)$", tree.text(RESUME), re.MULTILINE)
    mode, efi = boot_mode(tree), parse_efibootmgr(efibootmgr)
    return {
        "mode": mode,
        "secure_boot": secure_boot(tree),
        "loader": loader(packages, mode, efi),
        "command_line": without_secrets(tree.text("/proc/cmdline").strip()),
        "resume": resume.group(1).strip().strip("\"'") if resume else "",
        "efi": efi,
    }
