# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests for rebuilds, and their plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import plan as planning
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.model import (
    BY_ID,
    Plan,
    Request,
    Target,
)

from tests.unit.support.manifest.manifests import GIB, MIB, blank, device, recorded, simple

LIVE = {"vdz": device("disk", "/dev/vdz", GIB, content="ext4", uuid="live", mountpoints=["/"])}


def plan_of(
    manifest: dict[str, Any],
    here: Mapping[str, Any],
    disks: dict[str, str],
    mode: str = "bios",
    confirm: str = "ws1",
    groups: Mapping[str, list[str]] | None = None,
    tables: Mapping[str, str] | None = None,
    **more: Any,
) -> Plan:
    devices = {**here, **LIVE}
    paths = {name: [f"{BY_ID}{name}"] for name, found in devices.items() if found["kind"] == "disk"}
    target = Target(devices, paths, mode, groups or {}, tables or {})
    return planning.plan(manifest, target, Request(confirm, disks, **more))


def steps_of(plan: Plan) -> list[dict[str, Any]]:
    return [step for phase in ("disks", "files", "system") for step in plan.phases.get(phase, [])]


def refusal(plan: Plan) -> str:
    """Return the only refusal, as the user reads it. A refused plan has no steps."""
    assert not plan.phases
    (only,) = plan.refusals
    assert only["ok"] is False and only["remedy"]
    return f"{only['variable']} {only['problem']}"


ROOT = simple(("ext4 /", 4000, 1000), ("swap", 500, 0))


def whole() -> Plan:
    """Return the plan for the recorded machine without its mirror, on disks of other sizes and names."""
    return plan_of(
        recorded(),
        blank(vda=8 * GIB, nvme0n1=4 * GIB, vdc=2 * GIB, vdx=GIB),
        {"vdb": "/dev/disk/by-id/vda", "sda": "/dev/disk/by-id/nvme0n1", "nvme0n1": "/dev/disk/by-id/vdc"},
        mode="uefi",
        keep=("vdc", "vdd"),
        passphrase=True,
    )


def on_lvm() -> dict[str, Any]:
    manifest = simple(("LVM2_member", 7000, 0))
    facts = {"type": "linear", "stripes": 1, "origin": "", "pool": ""}
    manifest["volume_groups"]["vg"] = {
        "extent_size": 4 * MIB,
        "devices": [{"path": "/dev/sda1"}],
        "volumes": [
            {**facts, "name": "root", "size": 4000 * MIB},
            {**facts, "name": "snap", "size": 400 * MIB, "origin": "root"},
            {**facts, "name": "fast", "size": 1000 * MIB, "type": "striped", "stripes": 2},
        ],
    }
    for name, size, target in (("vg-root", 4000, "/"), ("vg-snap", 400, ""), ("vg-fast", 1000, "/fast")):
        node, points = f"/dev/mapper/{name}", [target] if target else []
        manifest["devices"][name] = device("lvm", node, size * MIB, "sda1", "ext4", f"u-{name}", mountpoints=points)
        row = {"source": node, "type": "ext4", "root": "/", "size": size * MIB, "used": 100 * MIB}
        manifest["mounts"] += [{**row, "target": point} for point in points]
    return manifest
