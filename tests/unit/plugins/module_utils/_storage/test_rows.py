# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.rows import DIRECTORY, DISK, read_rows


def test_rows_get_types_and_defaults() -> None:
    rows, refused = read_rows("storage_disks", [{"serial": "A", "partition": "no"}], DISK)
    assert refused == []
    assert (rows[0]["partition"], rows[0]["fs"], rows[0]["options"]) == (False, "ext4", [])


@pytest.mark.parametrize(
    ("row", "problem", "remedy"),
    [
        ({"serial": "A", "fs": "ext5"}, "has A, whose fs is 'ext5'", "choose one of ext4, xfs, btrfs, vfat"),
        ({"serial": "A", "mout": "/x"}, "has A, with the unknown key 'mout'", "name it mount"),
        ({"wipe": "perhaps"}, "has entry 1, whose wipe is 'perhaps'", "give it a bool"),
    ],
)
def test_wrong_keys_of_a_disk(row: dict[str, Any], problem: str, remedy: str) -> None:
    (refused,) = read_rows("storage_disks", [row], DISK)[1]
    assert (refused["variable"], refused["problem"], refused["remedy"]) == ("storage_disks", problem, remedy)


def test_all_problems_of_all_rows_at_once() -> None:
    rows, refused = read_rows("storage_directories", [{"setgid": "maybe"}, {"path": "/a", "color": 1}], DIRECTORY)
    assert [row["path"] for row in rows] == ["/a"]
    assert [each["problem"].split(", ")[0] for each in refused] == ["has entry 1", "has entry 1", "has /a"]
