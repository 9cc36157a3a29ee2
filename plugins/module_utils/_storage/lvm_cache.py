# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An LV with a cache on a faster disk (lvmcache(7)). Pure: reports of lvs and pvs in, commands out.

``lvconvert`` is no command to repeat, so what is there already is looked up by name, and a run that was killed goes on from it.
"""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._core.sizes import parse_size
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.disks import (
    BY_ID,
    Disk,
    describe_disk,
    find,
)

LVS = ("lvs", "--all", "--reportformat", "json", "--options", "vg_name,lv_name,segtype,pool_lv,cache_mode")
PVS = ("pvs", "--reportformat", "json", "--options", "pv_name,vg_name")
KEYS = ("mode", "vg", "lv", "device", "size", "cache_mode", "accept_loss")
MODES = ("writethrough", "writeback")
# What an origin may be: with anything else in between, a cache is not a matter of one command.
ORIGINS = ("linear", "striped", "raid1", "raid5", "raid6", "raid10")
_NAME = r"[A-Za-z0-9_+.][A-Za-z0-9_+.-]*"

Row = dict[str, str]


def rows(report: str, kind: str) -> list[Row]:
    """Return the rows of a report of LVM, in which hidden LVs have their names in brackets."""
    found = json.loads(report)["report"] if report.strip() else []
    return [{key: str(value).strip("[]") for key, value in row.items()} for part in found for row in part.get(kind, [])]


def requirements(request: JsonObject) -> t.Iterator[Problem]:
    """Yield the problems of the request itself."""
    unknown = sorted(set(request) - set(KEYS))
    if unknown:
        yield problem(
            "storage_cache", f"has {', '.join(unknown)}, which lvmcache does not know", f"name {', '.join(KEYS)}"
        )
    for key in ("vg", "lv"):
        if not re.fullmatch(_NAME, str(request.get(key) or "")):
            yield problem(
                "storage_cache", f"has no {key}, or one that is no name for LVM", f"set `{key}` as `lvs` has it"
            )
    if not str(request.get("device") or "").startswith(f"{BY_ID}/"):
        yield problem("storage_cache", f"has a device that is no name in {BY_ID}", f"name one of `ls -l {BY_ID}`")
    if request.get("size") and parse_size(str(request["size"])) <= 0:
        yield problem(
            "storage_cache",
            f"has the size {request['size']!r}",
            "write it as 400G, or leave it out for all of the device",
        )
    mode = request.get("cache_mode") or MODES[0]
    if mode not in MODES:
        yield problem("storage_cache", f"has the cache_mode {mode!r}", f"choose one of {', '.join(MODES)}")
    elif mode == "writeback" and not request.get("accept_loss"):
        yield problem(
            "storage_cache",
            "asks for writeback, which loses what was written last when the cache's disk fails",
            "leave cache_mode out, or set `accept_loss: true`",
        )


def plan(
    request: JsonObject, lvs: t.Sequence[Row], pvs: t.Sequence[Row], disks: t.Sequence[Disk]
) -> tuple[list[Problem], list[list[str]]]:
    """Return the problems of the cache on this host, or the commands that make it."""

    def no(text: str, remedy: str) -> tuple[list[Problem], list[list[str]]]:
        return [problem("storage_cache", text, remedy)], []

    vg, name, mode = request["vg"], request["lv"], request.get("cache_mode") or MODES[0]
    by_name = {row["lv_name"]: row for row in lvs if row["vg_name"] == vg}
    origin, volume = by_name.get(name), f"{name}_cache"
    if origin is None:
        return no(f"names the LV {vg}/{name}, which is not there", "make it first, or name another of `lvs`")
    if origin["segtype"] == "cache":
        # The volume has another ending as soon as it is one.
        if origin["pool_lv"] not in (volume, f"{volume}_cvol"):
            return no(
                f"names {vg}/{name}, which has another cache already: {origin['pool_lv']}",
                f"lvconvert --uncache {vg}/{name}",
            )
        return [], [["lvchange", "--yes", "--cachemode", mode, f"{vg}/{name}"]] if origin["cache_mode"] != mode else []
    if origin["segtype"] not in ORIGINS:
        return no(f"names {vg}/{name}, a {origin['segtype']} LV", f"choose one that is {', '.join(ORIGINS)}")

    found = find(disks, request["device"][len(BY_ID) + 1 :], "")
    if not found:
        return no(f"names {request['device']}, and no disk of this host is called so", "put it back, or name another")
    disk, commands = found[0], []
    owner = next((row["vg_name"] for row in pvs if row["pv_name"] in disk.names), None)
    if owner is None and (not disk.content.empty or disk.partitions or disk.every_use or disk.busy or disk.read_only):
        held = "; ".join(disk.every_use) or describe_disk(disk)
        return no(
            f"names {disk.path} ({disk.key}), which is not empty: {held}",
            "only an empty disk becomes a cache; wipe it yourself",
        )
    if owner not in (None, "", vg):
        return no(f"names {disk.path} ({disk.key}), which belongs to the VG {owner}", "name another disk")
    if owner is None:
        commands.append(["pvcreate", disk.path])
    if owner != vg:
        commands.append(["vgextend", vg, disk.path])
    if volume not in by_name:
        size = str(request.get("size") or "")
        amount = ["--size", f"{parse_size(size)}b"] if size else ["--extents", "100%PVS"]
        commands.append(["lvcreate", "--yes", "--wipesignatures", "y", "--name", volume, *amount, vg, disk.path])
    convert = ["lvconvert", "--yes", "--type", "cache", "--cachevol", volume, "--cachemode", mode, f"{vg}/{name}"]
    return [], [*commands, convert]
