# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a repository may lie; what follows from that: test__backup_open.py and test_backup_plan.py."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.location import unfit

NOBODY = pwd.getpwnam("nobody").pw_uid


@pytest.mark.parametrize(
    ("owner", "mode", "user", "is_fit"),
    [
        (0, 0o755, "nobody", True),
        (0, 0o777, "nobody", False),
        (4002, 0o755, "nobody", False),
        (NOBODY, 0o755, "nobody", True),
        (NOBODY, 0o775, "nobody", False),
        (NOBODY, 0o755, "no-such-user", False),
    ],
)
def test_only_root_and_the_user_may_change_the_directories_above(
    tmp_path: Path, owner: int, mode: int, user: str, is_fit: bool
) -> None:
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(mode)
    os.chown(above, owner, owner)
    for path in (above / "repository", above / "not/there"):
        found = unfit(str(path), user)
        assert (found is None) == is_fit
        assert is_fit or (found and str(above) in found.problem and "chown root:root" in found.remedy)
