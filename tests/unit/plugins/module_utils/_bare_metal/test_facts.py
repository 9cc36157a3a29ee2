# SPDX-License-Identifier: GPL-3.0-or-later
"""The live system before a rebuild. Whole runs are in the tests of bare_metal_plan."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.facts import identify_disks
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.model import BY_ID, Request, Target

from tests.unit.support.manifest.manifests import GIB, blank


def test_disks_to_write_are_described_by_device_and_identity() -> None:
    path = f"{BY_ID}vda"
    target = Target(blank(vda=9 * GIB), {"vda": [path]}, "bios")
    shown = identify_disks(target, Request("ws1", {"sda": path}))
    assert shown == {path: {"device": "/dev/vda", **target.identity("vda")}}
