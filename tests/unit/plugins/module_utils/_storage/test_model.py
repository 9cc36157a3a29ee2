# SPDX-License-Identifier: GPL-3.0-or-later
"""What is reported of the work on one disk."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.disks import Disk
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.model import Work
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.request import read_entries

DISK = Disk("/dev/sdb", 100 * 10**9, serial="B")
(ENTRY,), _problems = read_entries([{"serial": "B", "role": "data"}])


def test_disk_as_requested_has_no_work() -> None:
    work = Work(ENTRY, DISK, "B", {"uuid": "u"})
    assert (work.todo, work.destroys) == ([], False)


@pytest.mark.parametrize("step", ["wipe", "table", "make"])
def test_step_that_writes_to_the_disk_destroys(step: str) -> None:
    work = Work(ENTRY, DISK, "B", {})
    setattr(work, step, True)
    assert work.destroys


def test_line_of_fstab_names_the_file_system_by_uuid() -> None:
    line = Work(ENTRY, DISK, "B", {"uuid": "u"}).line
    assert line.startswith("UUID=u /data ext4 ") and "nofail" in line
