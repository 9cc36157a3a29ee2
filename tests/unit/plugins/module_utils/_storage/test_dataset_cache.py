# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import dataset_cache as cache
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.request import read_entries

ENTRIES, _REFUSED = read_entries([{"serial": "A", "role": "data"}, {"serial": "B", "role": "cache"}])
REQUEST = {"mode": "directory", "path": "/data/cache/sets/", "group": "ml", "sources": ["/data/sets"], "quota": "80%"}


def test_configuration_names_the_mount_of_the_cache() -> None:
    assert list(cache.requirements(REQUEST, ENTRIES)) == []
    assert cache.configuration(REQUEST, ENTRIES) == {
        "cache": "/data/cache/sets",
        "mount": "/data/cache",
        "group": "ml",
        "sources": ["/data/sets"],
        "quota": "80%",
        "evict_service": True,
    }
    assert [
        (directory.path, directory.owner, directory.group, oct(directory.mode))
        for directory in cache.directories(REQUEST)
    ] == [
        ("/data/cache/sets", "root", "ml", "0o750"),
        ("/data/cache/sets/locks", "root", "ml", "0o3770"),
        ("/data/cache/sets/requests", "root", "ml", "0o3770"),
        ("/data/cache/sets/sets", "root", "ml", "0o3770"),
    ]


@pytest.mark.parametrize("mode", ["none", "lvmcache"])
def test_other_modes_have_no_program(mode: str) -> None:
    assert (list(cache.requirements({"mode": mode}, ENTRIES)), cache.configuration({"mode": mode}, ENTRIES)) == ([], {})


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"mode": "bcache"}, "has the mode 'bcache'"),
        ({"size": "5G"}, "has size, which a directory does not know"),
        ({"path": "/srv/sets"}, "no directory on a disk of storage_disks"),
        ({"path": "/data/cache"}, "no directory on a disk of storage_disks"),
        ({"path": "/data/cache/my sets"}, "which systemd may read otherwise"),
        ({"path": "/data/cache/100%"}, "which systemd may read otherwise"),
        ({"path": "/data/cache/a\nExecStart=x"}, "which systemd may read otherwise"),
        ({"group": ""}, "has no group"),
        ({"jobs": "many"}, "has the jobs 'many'"),
        ({"hash": "none"}, "has the hash 'none'"),
        ({"directory_mode": "0770"}, "has the directory_mode '0770'"),
        ({"share_private": "perhaps"}, "has the share_private 'perhaps'"),
        ({"sources": []}, "has no `sources`"),
        ({"sources": ["/data"]}, "has a source that holds /data/cache/sets"),
        ({"sources": ["/data/cache/sets/x"]}, "or is in it"),
        ({"quota": "lots"}, "has the quota 'lots'"),
    ],
)
def test_bad_requests_are_refused(change: dict[str, Any], expected: str) -> None:
    assert expected in "; ".join(row["problem"] for row in cache.requirements({**REQUEST, **change}, ENTRIES))
