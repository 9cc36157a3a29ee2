# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that dockerd validates: it may have the password of a proxy, and every user sees its path in the list of processes."""

from __future__ import annotations

import os
import stat
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import facts

UNPRIVILEGED = int(facts.NOBODY)


@pytest.mark.skipif(os.geteuid() != 0, reason="changes the group of a file")
@pytest.mark.parametrize("version", [(20, 10), (28, 5)])
def test_users_cannot_read_the_file_that_dockerd_validates(version: tuple[int, ...]) -> None:
    modes: list[int] = []

    def run(command: list[str], **_options: Any) -> tuple[int, str, str]:
        path = next(word for word in command if word.startswith("--config-file=")).partition("=")[2]
        found = [os.stat(os.path.dirname(path)), os.stat(path)]
        modes.extend(stat.S_IMODE(entry.st_mode) & 0o007 for entry in found[:1])
        if "setpriv" in command:
            assert [entry.st_gid for entry in found] == [UNPRIVILEGED] * 2
            assert found[0].st_mode & 0o010 and found[1].st_mode & 0o040
        return 0, "", "dockerd needs to be started with root"

    assert facts.validate_options(run, "dockerd", version, [], '{"proxies": {}}') == ""
    assert modes == [0]
