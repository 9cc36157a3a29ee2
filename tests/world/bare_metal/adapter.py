"""Edit files of a lost machine as its rebuild does."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import files, steps
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.layout import DoesNotFit
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import boot, storage

GIB = 1 << 30
REFUSALS = (DoesNotFit,)


def machine(disks: dict[str, list[dict[str, Any]]], groups: dict[str, list[str]] | None = None) -> dict[str, Any]:
    """Return the manifest of a machine: by disk, its partitions; what is on a partition (`above`) has the same fields."""
    manifest: dict[str, Any] = {"devices": {}, "disks": {}, "mounts": [], "volume_groups": {}}
    for disk, rows in disks.items():
        add(manifest, disk, "disk", [], {})
        table: dict[str, Any] = {"type": "gpt", "id": "11111111-2222-4333-8444-555555555555", "partitions": []}
        manifest["disks"][disk] = {"by_id": [f"/dev/disk/by-id/ata-{disk.upper()}"], "by_path": [], "table": table}
        for number, row in enumerate(rows, 1):
            name = f"{disk}{number}"
            add(manifest, name, "part", [disk], row)
            table["partitions"].append({"number": number, "name": name, "uuid": row.get("part", ""), "label": ""})
            for upper, facts in row.get("above", {}).items():
                add(manifest, upper, facts["kind"], [name], facts)
    for group, volumes in (groups or {}).items():
        manifest["volume_groups"][group] = {"devices": [], "volumes": [{"name": volume} for volume in volumes]}
    return manifest


def add(manifest: dict[str, Any], name: str, kind: str, parents: list[str], row: dict[str, Any]) -> None:
    path = f"/dev/mapper/{name}" if kind in ("crypt", "lvm") else f"/dev/{name}"
    mounts = row.get("mounts", {})
    manifest["devices"][name] = {
        "kind": kind,
        "path": path,
        "parents": parents,
        "size": GIB,
        "content": {
            "type": row.get("type", ""),
            "version": "",
            "uuid": row.get("uuid", ""),
            "label": row.get("label", ""),
        },
        "mountpoints": sorted([*mounts, *(["[SWAP]"] if row.get("swap") else [])]),
        "features": {},
    }
    for target, root in mounts.items():
        subvolume = {"subvolume": root} if row.get("type") == "btrfs" else {}
        mount = {"target": target, "source": path, "type": row.get("type", ""), "root": root, "size": GIB, "used": 0}
        manifest["mounts"].append({**mount, **subvolume})


def restored(
    file: str, text: str, disks: dict[str, Any], groups: dict[str, Any] | None = None, absent: tuple[str, ...] = ()
) -> list[str]:
    """Return the lines of a file after the edits of the rebuild."""
    references = steps.device_references(machine(disks, groups))
    return files.EDITS[file](text, references, absent).splitlines()


def loader(packages: list[str], mode: str) -> str:
    """Return the loader of a machine with these packages."""
    return boot.loader(packages, mode)


def efi(text: str) -> dict[str, str]:
    """Return the file of each entry of the firmware that has one."""
    return {row["number"]: row["file"] for row in boot.parse_efibootmgr(text)["entries"] if row["file"]}


def devices(listed: list[dict[str, Any]]) -> dict[str, str]:
    """Return the devices of a machine and their kinds, from the output of lsblk."""
    found = storage.parse_lsblk(json.dumps({"blockdevices": [_listed(row) for row in listed]}))
    return {name: device["kind"] for name, device in found.items()}


def _listed(row: dict[str, Any]) -> dict[str, Any]:
    children = [_listed(child) for child in row.get("children", ())]
    return {"path": f"/dev/{row['name']}", "size": GIB, **row, **({"children": children} if children else {})}
