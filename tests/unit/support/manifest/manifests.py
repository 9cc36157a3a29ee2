# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's manifest for tests, from what the tools of Debian 13 said in a virtual machine (fixtures/manifest).

It boots by UEFI. vdb: EFI, /boot, and LVM inside LUKS with /, swap and an XFS as /home. sda: a table of DOS with a btrfs of two
subvolumes, and logical partitions with swap and /log. nvme0n1: an XFS without a table. vdc and vdd: a mirror of md.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import storage
from ansible_collections.rigwright.workstation.plugins.module_utils._system import mounts as system_mounts

FIXTURES = Path(__file__).parents[2] / "fixtures/manifest"
MIB, GIB = 1 << 20, 1 << 30
DISKS = ("sda", "vdb", "vdc", "vdd", "nvme0n1")


def fixture(name: str) -> str:
    """Return a recording."""
    return (FIXTURES / name).read_text()


def groups() -> dict[str, Any]:
    return storage.volume_groups(
        fixture("pvs.json"), fixture("vgs.json"), fixture("lvs.json"), {"vg0": fixture("vg0.cfg")}
    )


def recorded() -> dict[str, Any]:
    """Return the manifest of the recorded machine; 50 MiB are on each of its file systems."""
    devices = storage.parse_lsblk(fixture("lsblk.json"))
    features = {
        "vg0-root": storage.parse_dumpe2fs(fixture("dumpe2fs_root.txt")),
        "vg0-home": storage.parse_xfs_info(fixture("xfs_info_home.txt")),
    }
    mounts = [mount for mount in system_mounts.parse_mountinfo(fixture("mountinfo")) if system_mounts.holds_data(mount)]
    return {
        "schema": 1,
        "made": "2026-11-22T17:00:00Z",
        "host": {"name": "ws1", "machine_id": "0123", "distribution": "debian", "architecture": "x86_64"},
        "boot": {"mode": "uefi", "loader": "grub-efi", "secure_boot": "disabled"},
        "disks": {
            name: {
                "by_id": [f"/dev/disk/by-id/old-{name}"],
                "table": storage.parse_sfdisk(fixture(f"sfdisk_{name}.json")) if name != "nvme0n1" else {},
            }
            for name in DISKS
        },
        "devices": {name: {**device, "features": features.get(name, {})} for name, device in devices.items()},
        "volume_groups": groups(),
        "arrays": {"md127": storage.parse_mdadm(fixture("mdadm_detail.txt"))},
        "mounts": [
            {"target": m.target, "source": m.source, "type": m.fstype, "root": m.root, "size": GIB, "used": 50 * MIB}
            for m in mounts
        ],
        "swaps": storage.parse_swaps(fixture("swaps")),
        "kernels": {"running": "6.12.1", "installed": {"6.12.1": True}},
        "nvidia": {"driver": "", "cuda": []},
        "host_keys": [],
    }


def simple(*parts: tuple[str, int, int], table: str = "gpt", size: int = 8 * GIB, mode: str = "bios") -> dict[str, Any]:
    """Return a machine with the one disk sda; each part is (``type mount point``, size in MiB, used MiB)."""
    found = copy.deepcopy(recorded())
    found["boot"] |= {"mode": mode, "loader": "grub-efi" if mode == "uefi" else "grub-pc"}
    found |= {"disks": {}, "devices": {}, "volume_groups": {}, "mounts": [], "swaps": []}
    found["devices"]["sda"] = device("disk", "/dev/sda", size)
    rows, start = [], 2048
    for number, (content, mib, used) in enumerate(parts, start=1):
        kind, _blank, target = content.partition(" ")
        name = f"sda{number}"
        rows.append(
            {
                "number": number,
                "name": name,
                "start": start,
                "size": mib * MIB // 512,
                "type": "83" if table == "dos" else "0FC63DAF-8483-4772-8E79-3D69D8477DE4",
                "uuid": "" if table == "dos" else f"00000000-0000-0000-0000-00000000000{number}",
                "label": "",
                "attributes": "",
                "bootable": False,
            }
        )
        start += mib * MIB // 512
        found["devices"][name] = device(
            "part", f"/dev/{name}", mib * MIB, "sda", kind if kind != "none" else "", f"uuid-{number}"
        )
        if target:
            found["devices"][name]["mountpoints"] = [target]
            found["mounts"].append(
                {
                    "target": target,
                    "source": f"/dev/{name}",
                    "type": kind,
                    "root": "/",
                    "size": mib * MIB,
                    "used": used * MIB,
                }
            )
    found["disks"]["sda"] = {
        "by_id": ["/dev/disk/by-id/old-sda"],
        "table": {"type": table, "id": "0x1234" if table == "dos" else "AAAA", "sector": 512, "partitions": rows},
    }
    return found


def device(
    kind: str, path: str, size: int, parent: str = "", content: str = "", uuid: str = "", **more: Any
) -> dict[str, Any]:
    return {
        "kind": kind,
        "path": path,
        "parents": [parent] if parent else [],
        "size": size,
        "content": {"type": content, "version": "", "uuid": uuid, "label": ""},
        "mountpoints": [],
        "features": {},
        "read_only": False,
        "logical_sector": 512,
        "table_type": "",
        **more,
    }


def blank(**sizes: int) -> dict[str, Any]:
    """Return the devices of empty disks, as a live system sees them."""
    return {name: device("disk", f"/dev/{name}", size) for name, size in sizes.items()}
