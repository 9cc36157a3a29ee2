# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import units
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.request import read_entries

PATHS = ["/", "/data", "/data/my cache", "/.hidden", "/a//b/", "/dev/disk/by-label/my-data", "/ä", "/x%y"]


@pytest.mark.skipif(not shutil.which("systemd-escape"), reason="needs systemd-escape")
def test_units_are_named_as_systemd_names_them() -> None:
    names = subprocess.run(["systemd-escape", "--path", *PATHS], capture_output=True, text=True, check=True).stdout
    assert [units.escape(path) for path in PATHS] == names.split()


def test_late_disk_is_mounted_with_its_dependents() -> None:
    rows: Any = [
        {"serial": "A", "role": "data"},
        {"serial": "B", "role": "cache"},
        {"serial": "C", "mount": "/datasets"},
    ]
    entries, refused = read_entries(rows)
    files = units.drop_ins(entries, "/data/cache")
    wants = {row["path"].split("/")[4]: row["content"].split("Wants=")[1] for row in files["files"]}
    assert refused == []
    assert wants == {
        "dev-disk-by\\x2dlabel-data.device.d": "data.mount data-cache.mount dataset-cache-evict.path\n",
        "dev-disk-by\\x2dlabel-cache.device.d": "data-cache.mount dataset-cache-evict.path\n",
        "dev-disk-by\\x2dlabel-datasets.device.d": "datasets.mount\n",
    }
    (entry,), _refused = read_entries([{"serial": "A", "role": "data", "label": "MY EXT-1 ü"}])
    assert units.device_unit(entry) == "dev-disk-by\\x2dlabel-MY\\x5cx20EXT\\x2d1\\x5cx20\\xc3\\xbc.device"
    assert {f"{row['path']}/rigwright-storage.conf" for row in files["directories"]} == {
        row["path"] for row in files["files"]
    }
