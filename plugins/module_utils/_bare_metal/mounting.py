# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the file systems of a rebuild are mounted, and in which order: files must come back to the disk that they were on. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import layout
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest.document import Facts
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import is_within


@dataclasses.dataclass(frozen=True)
class Place:
    """A mount point. ``shows``: the directory that a bind shows there; empty where it is the device itself."""

    device: str
    mount: Facts
    shows: str = ""

    @property
    def target(self) -> str:
        return str(self.mount["target"])

    def comes_after(self, other: Place) -> bool:
        """Return whether the other has to be there before: it is around the mount point, or it holds what a bind shows."""
        holds = bool(self.shows) and is_within(self.shows, other.target)
        return other is not self and (holds or is_within(self.target, other.target))


def own_mounts(manifest: Facts, name: str) -> list[Facts]:
    """Return where a device is mounted. A directory of it that is mounted as well is visible through that, and is no subvolume."""
    mounts = layout.mounts_of(manifest, name)
    if manifest["devices"][name]["content"]["type"] == "btrfs":
        return [mount for mount in mounts if mount["root"] == mount.get("subvolume", mount["root"])]
    return [mount for mount in mounts if mount["root"] == "/"][:1]


def in_order(manifest: Facts, names: t.Iterable[str]) -> tuple[list[Place], list[Facts]]:
    """Return the places of these devices in the order to mount them, and the mounts that are left out."""
    todo, left_out = [], []
    for name in names:
        own = own_mounts(manifest, name)
        todo += [Place(name, mount) for mount in own]
        for mount in layout.mounts_of(manifest, name):
            shows = _shown(manifest, name, mount, own) if mount not in own else ""
            if shows and shows != mount["target"]:
                todo.append(Place(name, mount, shows))
            elif not shows and mount not in own:
                left_out.append(mount)
    todo.sort(key=lambda place: (place.target.rstrip("/").count("/"), place.target))
    done: list[Place] = []
    while todo:
        free = next((place for place in todo if not any(map(place.comes_after, todo))), None)
        if free:
            done.append(free)
        else:
            # Mount points alone make no circle, so a bind is in it.
            free = next(place for place in todo if place.shows and place in _before(place, todo))
            left_out.append(dict(free.mount))
        todo.remove(free)
    return done, left_out


def _before(place: Place, places: t.Sequence[Place]) -> list[Place]:
    """Return all that has to be there before a place, which is itself among them if it is in a circle."""
    found: list[Place] = []
    new = [place]
    while new:
        new = [other for other in places if other not in found and any(later.comes_after(other) for later in new)]
        found += new
    return found


def _shown(manifest: Facts, name: str, mount: Facts, own: t.Sequence[Facts]) -> str:
    """Return the directory that a mount shows, by one of its file system's own mounts; empty if none leads there."""
    around = [base for base in own if is_within(mount["root"], base["root"])]
    if not around:
        return ""
    base = max(around, key=lambda base: len(base["root"]))
    path = _seen(mount["root"], base)
    # What another mount of the file system shows of this directory is the same.
    same = {row["target"] for row in layout.mounts_of(manifest, name) if _seen(mount["root"], row) == path}
    others = {row["target"] for row in manifest["mounts"]} - {mount["target"]} - same
    hidden = any(is_within(path, other) and is_within(other, base["target"]) for other in others)
    return "" if hidden else path


def _seen(directory: str, mount: Facts) -> str:
    """Return where a mount shows a directory of its file system; empty if it does not."""
    if not is_within(directory, mount["root"]):
        return ""
    return mount["target"].rstrip("/") + directory[len(mount["root"].rstrip("/")) :].rstrip("/") or "/"
