# SPDX-License-Identifier: GPL-3.0-or-later

"""A disk by its names."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.model import (
    Target,
)

from tests.unit.support.manifest.manifests import GIB, blank
from tests.unit.support.manifest.rebuilds import ROOT, plan_of, refusal


def test_an_unstable_name_of_a_disk_is_refused() -> None:
    plan = plan_of(ROOT, blank(vda=8 * GIB), {"sda": "/dev/vda"})
    assert "may be another disk after the next boot" in refusal(plan)
    assert plan.refusals[0]["remedy"] == "name it as /dev/disk/by-id/vda"


def test_a_disk_without_a_name_is_named_by_its_port() -> None:
    def stable(*paths: str) -> list[str]:
        return Target(blank(vda=GIB), {"vda": paths}, "bios").stable("vda")

    port, own = "/dev/disk/by-path/pci-1", "/dev/disk/by-id/virtio-1"
    assert (stable(own, port), stable(port), stable()) == ([own], [port], [])
