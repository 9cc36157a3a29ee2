# SPDX-License-Identifier: GPL-3.0-or-later
"""Hand real disks, mounts and tables to the plan of the role storage."""

from __future__ import annotations

import json
import uuid
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._storage import disks as of_disks
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import facts as of_hosts
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import findings, fstab, units
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import plan as planning
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.model import Facts
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.request import read_entries

GB = 10**9


class Refused(Exception):
    """The plan has problems."""


REFUSALS = (Refused,)


def _device(row: Any) -> Any:
    filled = {"type": "disk", "size": 500 * GB, "ro": False, "serial": None, "model": None, "mountpoints": [None]}
    filled.update({"uuid": None, "label": None, "name": row["path"].rpartition("/")[2]})
    return {**filled, **row, "children": [_device(child) for child in row.get("children", [])]}


def _disks(blockdevices: list[Any], links: dict[str, str], blkid: dict[str, str]) -> tuple[of_disks.Disk, ...]:
    lsblk = json.dumps({"blockdevices": [_device(row) for row in blockdevices]})
    below = {f"/dev/disk/{link}": target for link, target in links.items()}

    def run(command: Any) -> tuple[int, str, str]:
        if command[0] == "blkid":
            return 0, blkid.get(command[-1], ""), ""
        return 0, "", ""

    found = of_disks.parse_disks(lsblk, below)
    return tuple(of_hosts.with_content(run, disk) for disk in found)


def plan(
    storage_disks: list[Any],
    blockdevices: list[Any],
    links: dict[str, str] | None = None,
    blkid: dict[str, str] | None = None,
    **others: Any,
) -> dict[str, str]:
    """Return the keys of the disks in the record, by mount point. A disk with nothing from blkid is new."""
    found = _disks(blockdevices, links or {}, blkid or {})
    # No device is read: what blkid is silent about is empty.
    named = blkid or {}
    found = tuple(_blank(disk, named) for disk in found)
    entries, problems = read_entries(storage_disks)
    facts = Facts(disks=found, fstab=others.get("fstab", ""), record=others.get("record", {}))
    result = planning.plan(entries, others.get("storage_confirm_wipe", []), facts, lambda: str(uuid.uuid4()))
    refused = [*problems, *result.requirements]
    if refused:
        raise Refused("; ".join(f"{row['variable']} {row['problem']}: {row['remedy']}" for row in refused))
    return {work.entry.mount: work.key for work in result.works}


def _blank(disk: of_disks.Disk, blkid: dict[str, str]) -> of_disks.Disk:
    import dataclasses

    content = dataclasses.replace(disk.content, blank=disk.path not in blkid)
    return dataclasses.replace(disk, content=content)


def lines(text: str) -> list[list[str]]:
    """Return source, target and file system of the lines of fstab."""
    return [[line.source, line.target, line.fs] for line in fstab.parse(text)]


def mounted(findmnt: str) -> dict[str, str]:
    """Return the sources of mounts, as findmnt lists them."""

    def run(command: Any) -> tuple[int, str, str]:
        if "--nofsroot" in command:
            rows = json.loads(findmnt)["filesystems"]
            return (
                0,
                json.dumps({"filesystems": [{**row, "source": row["source"].partition("[")[0]} for row in rows]}),
                "",
            )
        return 0, findmnt, ""

    return {target: mount.source for target, mount in of_hosts.mounts(run).items()}


def smart(output: str, rc: int = 0) -> str:
    """Return the status of the finding about a disk's health."""
    return findings.of_smart("S1", "/dev/sda", rc, output)["status"]


def unit(mount: str) -> str:
    return units.mount_unit(mount)
