# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration of ``dataset-cache`` and the directories of its cache. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.request import (
    Directory,
    Entry,
    mount_of,
    normal,
)

MODES = ("none", "directory", "lvmcache")
# What goes to the program as it stands; it knows what each may be.
OWN = (
    "sources",
    "quota",
    "free",
    "file_mode",
    "directory_mode",
    "hash",
    "algorithm",
    "jobs",
    "share_private",
    "lease_hours",
)
# In this directory of the cache is one for each dataset.
SETS = "sets"
KEYS = ("mode", "path", "group", *OWN)
# What each of them may be, and an example. The program has the last word.
VALUES: dict[str, tuple[t.Any, str, str]] = {
    **dict.fromkeys(("quota", "free"), ((str, int), r"[0-9]+(\.[0-9]+)?([KMGTP](iB|B)?|%)?", "800G or 80%")),
    "file_mode": (str, "0?[45][0145]{2}", '"0440": nobody writes it'),
    "directory_mode": (str, "0?[57][0145]{2}", '"0550": only its owner may write it'),
    "hash": (str, "full|once", "full or once"),
    "algorithm": (str, "auto|sha256|blake2b", "auto, sha256 or blake2b"),
    "jobs": (int, "[0-9]{1,4}", "4, or 0 for what fits the disk"),
    "share_private": (bool, "True|False", "true or false"),
    "lease_hours": ((int, float), r"[0-9]+(\.[0-9]+)?", "24"),
}


def requirements(request: JsonObject, entries: t.Sequence[Entry]) -> t.Iterator[Problem]:
    """Yield the problems of the request."""
    mode = request.get("mode", "none")
    if mode not in MODES:
        yield problem("storage_cache", f"has the mode {mode!r}", f"choose one of {', '.join(MODES)}")
    if mode != "directory":
        return
    unknown = sorted(set(request) - set(KEYS))
    if unknown:
        yield problem(
            "storage_cache", f"has {', '.join(unknown)}, which a directory does not know", f"name {', '.join(KEYS)}"
        )
    path = normal(str(request.get("path") or ""))
    entry = mount_of(path, entries)
    if not path.startswith("/") or entry is None or path == entry.mount:
        yield problem(
            "storage_cache",
            f"has the path {path!r}, which is no directory on a disk of storage_disks",
            "set `path`, as /data/cache/sets",
        )
    elif not re.fullmatch(r"/[A-Za-z0-9_.@+,=/-]+", path):
        # Units of systemd contain it, where a blank or a % means something else.
        yield problem(
            "storage_cache", f"has the path {path!r}, which systemd may read otherwise", "choose plain letters"
        )
    if not request.get("group"):
        yield problem("storage_cache", "has no group", "set `group` to the one whose members use the copies")
    sources = request.get("sources")
    if not sources or not isinstance(sources, list) or not all(str(source).startswith("/") for source in sources):
        yield problem(
            "storage_cache",
            "has no `sources`, or one that is no absolute path",
            "list the directories whose datasets may be copied",
        )
    elif any(
        normal(str(source)) == path
        or normal(str(source)).startswith(f"{path}/")
        or path.startswith(f"{normal(str(source))}/")
        for source in sources
    ):
        yield problem("storage_cache", f"has a source that holds {path}, or is in it", "name directories outside of it")
    for key, (kind, form, example) in VALUES.items():
        if key in request and not (isinstance(request[key], kind) and re.fullmatch(form, str(request[key]))):
            yield problem("storage_cache", f"has the {key} {request[key]!r}", f"write it as {example}")


def directories(request: JsonObject) -> list[Directory]:
    """Return the directory that only root writes, and those in it where each member of the group changes only their own files."""
    path, group = normal(request["path"]), request["group"]
    shared = [Directory(f"{path}/{name}", "root", group, 0o3770) for name in ("locks", "requests", SETS)]
    return [Directory(path, "root", group, 0o750), *shared]


def configuration(request: JsonObject, entries: t.Sequence[Entry]) -> JsonObject:
    """Return the configuration of the program; nothing where no such cache is requested."""
    if request.get("mode") != "directory":
        return {}
    path = normal(request["path"])
    entry = mount_of(path, entries)
    own = {key: request[key] for key in OWN if key in request}
    return {
        "cache": path,
        "mount": entry.mount if entry else "",
        "group": request["group"],
        "evict_service": True,
        **own,
    }
