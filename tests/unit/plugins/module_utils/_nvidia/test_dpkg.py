# SPDX-License-Identifier: GPL-3.0-or-later
"""dpkg's locks."""

from __future__ import annotations

import subprocess
import sys

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import dpkg as dpkg_module
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import Stuck

from tests.unit.support.nvidia.machine import LOCK, Machine, host


@pytest.mark.parametrize("name", ["lock-frontend", "lock"])
def test_dpkg_of_another_process_is_waited_for(with_old: Machine, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(dpkg_module, "LOCK_TIMEOUT", 0)
    command = [sys.executable, "-c", LOCK, str(with_old.root / "var/lib/dpkg" / name)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout
        assert other.stdout.readline() == b"mine\n"
        with pytest.raises(Stuck, match="another dpkg has been running"):
            host(with_old).restore({}, ["libcuda1"])
        other.communicate()
    assert with_old.commands == []
    host(with_old).restore({}, ["libcuda1"])
    assert "libcuda1" not in with_old.packages
