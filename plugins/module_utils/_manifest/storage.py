# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The storage of a host from lsblk, sfdisk, LVM, mdadm and the tools of file systems, as the data of a manifest.

Pure: output of the tools in, data out. The data is what is needed to make everything again, also on a disk of another size.
"""

from __future__ import annotations

import json
import math
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import lines
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest.document import Facts
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import unescape

# Kinds of lsblk that are on a disk and can be made again. Loop devices are files of another file system.
_KINDS = {"disk": "disk", "part": "part", "crypt": "crypt", "lvm": "lvm"}
LUKS, PV, MD_MEMBER, SWAP = "crypto_LUKS", "LVM2_member", "linux_raid_member", "swap"
# The places of the EFI partition, the usual one first.
ESP = ("/boot/efi", "/efi", "/boot")
# States of a file system, which dumpe2fs has among its features: mkfs knows none of them.
_STATES_OF_EXT4 = {"needs_recovery", "orphan_present", "shared_blocks", "journal_dev"}
# The options of mkfs.xfs, by section. A newer mkfs would choose what an older kernel cannot read.
XFS_OPTIONS = {
    "m": ("crc", "finobt", "rmapbt", "reflink", "bigtime", "inobtcount"),
    "i": ("sparse", "nrext64", "exchange"),
    "n": ("ftype", "parent"),
}


def parse_lsblk(text: str) -> Facts:
    """Parse the disks and all devices on them: ``{name: {kind, parents, size, content, mountpoints, ...}}``, from ``lsblk -J -O -b``.

    A name is that of the kernel, or what the mapper has for it. A device on several others, as one of RAID, is there once.
    """
    found: Facts = {}

    def visit(node: Facts, parent: str) -> None:
        kind = _KINDS.get(node["type"]) or ("md" if re.fullmatch(r"raid\d+|linear|md", node["type"]) else "")
        # A drive without a medium has no size; zram and a RAM disk are no place for anything. Volumes of ZFS and disks over the network
        # (nbd, rbd) are parts of something else.
        if not kind or not node.get("size") or re.match(r"(zram|ram|fd|sr|zd|nbd|rbd)\d", node["name"]):
            return
        device = found.setdefault(
            node["name"],
            {
                "kind": kind,
                "path": node["path"],
                "parents": [],
                "size": int(node["size"]),
                "content": {
                    "type": node.get("fstype") or "",
                    "version": node.get("fsver") or "",
                    "uuid": node.get("uuid") or "",
                    "label": node.get("label") or "",
                },
                "mountpoints": sorted(point for point in node.get("mountpoints") or [] if point),
                **(_disk(node) if kind == "disk" else {}),
            },
        )
        if parent and parent not in device["parents"]:
            device["parents"].append(parent)
        for child in node.get("children") or []:
            visit(child, node["name"])

    for node in json.loads(text)["blockdevices"]:
        visit(node, "")
    return found


def parse_mapped(text: str) -> dict[str, str]:
    """Parse the kernel's names (``dm-0``) of devices that the mapper has made, by their names, from the same output."""
    found: dict[str, str] = {}

    def visit(node: Facts) -> None:
        if str(node.get("kname") or "").startswith("dm-"):
            found[node["name"]] = node["kname"]
        for child in node.get("children") or []:
            visit(child)

    for node in json.loads(text)["blockdevices"]:
        visit(node)
    return found


def parse_table_ids(text: str) -> dict[str, str]:
    """Parse the ids of the partition tables by the names of their disks, from the same output."""
    return {node["name"]: str(node["ptuuid"]) for node in json.loads(text)["blockdevices"] if node.get("ptuuid")}


def _disk(node: Facts) -> Facts:
    return {
        "model": (node.get("model") or "").strip(),
        "serial": (node.get("serial") or "").strip(),
        "wwn": node.get("wwn") or "",
        "transport": node.get("tran") or "",
        "rotational": bool(node.get("rota")),
        "removable": bool(node.get("rm")) or (bool(node.get("hotplug")) and node.get("tran") == "usb"),
        "read_only": bool(node.get("ro")),
        "logical_sector": int(node.get("log-sec") or 512),
        "physical_sector": int(node.get("phy-sec") or 512),
        "table_type": node.get("pttype") or "",
    }


def parse_links(kind: str, links: t.Mapping[str, str]) -> dict[str, list[str]]:
    """Return names below /dev/disk/by-id or another *kind* by the kernel's name; those that people know come first."""
    found: dict[str, list[str]] = {}
    for name in sorted(links, key=lambda name: (name.startswith(("wwn-", "nvme-eui", "nvme-nvme.")), name)):
        # A name by content goes with that.
        if not name.startswith("lvm-pv-uuid-"):
            found.setdefault(links[name].rpartition("/")[2], []).append(f"/dev/disk/{kind}/{name}")
    return found


def parse_sfdisk(text: str) -> Facts:
    """Parse a partition table from ``sfdisk -J``; sizes are in sectors, as in the table."""
    table = json.loads(text)["partitiontable"]
    return {
        "type": table["label"],
        "id": table.get("id", ""),
        "sector": int(table.get("sectorsize", 512)),
        "partitions": [
            {
                "number": int(_number(row["node"])),
                "name": row["node"].rpartition("/")[2],
                "start": int(row["start"]),
                "size": int(row["size"]),
                "type": row["type"],
                "uuid": row.get("uuid", ""),
                "label": row.get("name", ""),
                "attributes": row.get("attrs", ""),
                "bootable": bool(row.get("bootable")),
            }
            for row in table.get("partitions", [])
        ],
    }


def _number(node: str) -> str:
    found = re.search(r"\d+$", node)
    return found.group() if found else "0"


def parse_report(text: str, kind: str) -> list[dict[str, str]]:
    """Parse the rows of an LVM report in JSON; *kind* is ``pv``, ``vg`` or ``lv``."""
    return [row for report in json.loads(text)["report"] for row in report.get(kind, [])] if text.strip() else []


def volume_groups(pvs: str, vgs: str, lvs: str, backups: t.Mapping[str, str]) -> Facts:
    """Return the volume groups: extent size, their devices and volumes, and the text of ``vgcfgbackup``."""
    groups: Facts = {}
    for row in parse_report(vgs, "vg"):
        groups[row["vg_name"]] = {
            "uuid": row["vg_uuid"],
            "extent_size": int(row["vg_extent_size"]),
            "size": int(row["vg_size"]),
            "free": int(row["vg_free"]),
            "devices": [],
            "volumes": [],
            "backup": backups.get(row["vg_name"], ""),
        }
    # The reports of some versions leave the group's name out of `pv_all`: then the group's own text has it.
    for row in parse_report(pvs, "pv"):
        for name, group in groups.items():
            if row.get("vg_name") == name or row["pv_uuid"] in group["backup"]:
                group["devices"].append({"path": row["pv_name"], "uuid": row["pv_uuid"], "size": int(row["pv_size"])})
    # A volume that has grown has several segments, and lvs prints a row for each.
    volumes: dict[tuple[str, str], Facts] = {}
    for row in parse_report(lvs, "lv"):
        if row["vg_name"] in groups and not row["lv_name"].startswith("["):
            volume = volumes.setdefault(
                (row["vg_name"], row["lv_name"]),
                {
                    "name": row["lv_name"],
                    "size": int(row["lv_size"]),
                    "type": row["segtype"],
                    "stripes": 1,
                    "origin": row.get("origin", ""),
                    "pool": row.get("pool_lv", ""),
                },
            )
            if row["segtype"] != "linear":
                volume["type"] = row["segtype"]
            volume["stripes"] = max(volume["stripes"], int(row.get("stripes") or 1))
    for (name, _volume), volume in volumes.items():
        groups[name]["volumes"].append(volume)
    for group in groups.values():
        group["devices"].sort(key=lambda device: device["path"])
        group["volumes"].sort(key=lambda volume: volume["name"])
    return groups


def parse_mdadm(text: str) -> Facts:
    """Parse an array, from ``mdadm --detail --export``."""
    values = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
    return {
        "level": values.get("MD_LEVEL", ""),
        "metadata": values.get("MD_METADATA", ""),
        "uuid": values.get("MD_UUID", ""),
        "name": values.get("MD_NAME", ""),
        "members": sorted(
            value.rpartition("/")[2] for key, value in values.items() if re.fullmatch(r"MD_DEVICE_.*_DEV", key)
        ),
    }


def parse_dumpe2fs(text: str) -> Facts:
    """Parse what mke2fs needs to make the file system again, from ``dumpe2fs -h``."""
    values = {
        name.strip(): value.strip() for name, _colon, value in (line.partition(":") for line in text.splitlines())
    }
    if "Block size" not in values:
        return {}
    blocks, inodes = int(values["Block count"]), int(values["Inode count"])
    block = int(values["Block size"])
    return {
        "features": sorted(set(values.get("Filesystem features", "").split()) - _STATES_OF_EXT4),
        "block_size": block,
        "inode_size": int(values.get("Inode size", 256)),
        "bytes_per_inode": 1 << round(math.log2(max(blocks * block / max(inodes, 1), 1024))),
        "reserved_percent": round(int(values.get("Reserved block count", 0)) * 100 / max(blocks, 1)),
        "mount_options": values.get("Default mount options", "").replace("(none)", "").split(),
    }


def parse_xfs_info(text: str) -> Facts:
    """Parse what mkfs.xfs needs, from ``xfs_info``. An option that it does not name did not exist when the file system was made."""
    values = dict(re.findall(r"\b(\w[\w-]*)=(\d+)\b", text))
    if "isize" not in values:
        return {}
    options = {name: int(values.get(name, 0)) for names in XFS_OPTIONS.values() for name in names}
    block = re.search(r"^data\s+=\s*bsize=(\d+)", text, re.MULTILINE)
    return {
        "block_size": int(block.group(1)) if block else 4096,
        "inode_size": int(values["isize"]),
        "options": options,
    }


_BTRFS = {
    "label": r"Label: .*uuid: (?P<uuid>\S+)\s*",
    "total": r"\s*Total devices (?P<count>\d+)\b.*",
    "device": r"\s*(devid\s+\d+\b|\*\*\*|warning).*|[Bb]trfs(-progs)? v.*",
}


def parse_btrfs(text: str) -> dict[str, int]:
    """Return the number of devices of each btrfs by its UUID, from ``btrfs filesystem show --raw``."""
    found, uuid = {}, ""
    for name, match in lines.parse("btrfs filesystem show", text, _BTRFS):
        uuid = match["uuid"] if name == "label" else uuid
        if name == "total":
            found[uuid] = int(match["count"])
    return found


def parse_swaps(text: str) -> list[Facts]:
    """Parse /proc/swaps; sizes are in bytes, with the page of the header."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) == 5 and not fields[0].startswith("/dev/zram"):
            found.append(
                {
                    "path": unescape(fields[0]),
                    "type": fields[1],
                    "size": (int(fields[2]) + 4) * 1024,
                    "priority": int(fields[4]),
                }
            )
    return found
