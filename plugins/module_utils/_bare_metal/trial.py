# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Try the rebuild of a machine while it is well: the plan, on disks as its own, emptied. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import checks, layout, steps
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import plan as planning
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.model import (
    BY_ID,
    MADE,
    NEEDED,
    Facts,
    Request,
    Target,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import storage
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import parse_fstab


def _unused(manifest: Facts) -> tuple[str, ...]:
    """Return what is not made again and holds nothing of this system, as Windows beside it: `bare_metal_empty` is all that it takes."""
    return tuple(name for name in manifest["devices"] if not _is_made(manifest, name) and not _is_used(manifest, name))


def _is_made(manifest: Facts, name: str) -> bool:
    """Return whether the plan makes a device again: a locked one, a part of a btrfs and thin pools it leaves to the user."""
    device = manifest["devices"][name]
    kind, group = device["content"]["type"], manifest["volume_groups"].get(layout.group_on(manifest, name))
    if kind == storage.LUKS:
        return len(layout.children(manifest, name)) == 1
    if kind == "btrfs":
        return device.get("features", {}).get("devices", 1) == 1
    return kind in MADE and not (group and checks.odd_volumes(group))


def _is_used(manifest: Facts, name: str) -> bool:
    """Return whether the system needs what is on a device. It does not need a removable device of a user."""
    points = manifest["devices"][name]["mountpoints"]
    return any(_is_needed(manifest, point) for point in points) or any(
        _is_used(manifest, child) for child in layout.children(manifest, name)
    )


def _is_needed(manifest: Facts, point: str) -> bool:
    fstab = manifest.get("files", {}).get("fstab", "")
    if point in NEEDED or not point.startswith("/"):
        return True
    return point in parse_fstab(fstab) if fstab else steps.mounts_at_boot(manifest, point)


def left_empty(manifest: Facts) -> list[str]:
    """Return what a rebuild leaves empty, with its kind."""
    return [
        f"{name} ({manifest['devices'][name]['content']['type']})"
        for name in _unused(manifest)
        if manifest["devices"][name]["content"]["type"]
    ]


def problems(manifest: Facts) -> list[str]:
    """Return what would keep this machine from being built again, a line each."""
    disks = {name: f"{BY_ID}trial-{name}" for name in checks.used_disks(manifest)}
    empty = {"content": {"type": "", "version": "", "uuid": "", "label": ""}, "mountpoints": [], "table_type": ""}
    here: dict[str, t.Any] = {name: {**manifest["devices"][name], **empty, "read_only": False} for name in disks}
    target = Target(here, {name: [path] for name, path in disks.items()}, manifest["boot"]["mode"])
    request = Request(confirm=manifest["host"]["name"], disks=disks, empty=_unused(manifest), passphrase=True)
    return [
        f"{row['variable']} {row['problem']}: {row['remedy']}"
        for row in planning.plan(manifest, target, request).refusals
    ]
