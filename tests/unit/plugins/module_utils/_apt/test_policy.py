# SPDX-License-Identifier: GPL-3.0-or-later
"""What apt offers, from `apt-cache policy`."""

from __future__ import annotations

import pytest
from ansible.module_utils.common import warnings
from ansible_collections.rigwright.workstation.plugins.module_utils._apt import policy

TEXT = """\
gcc-13:
  Installed: 13.2.0-23ubuntu4
  Candidate: 13.3.0-6ubuntu2
  Package pin: 13.3.0-6ubuntu2
  Version table:
     13.3.0-6ubuntu2 500 (phased 40%)
        500 http://ubuntu.example.org/ubuntu noble-updates/main amd64 Packages
 *** 13.2.0-23ubuntu4 500
        500 http://ubuntu.example.org/ubuntu noble/main amd64 Packages
        100 /var/lib/dpkg/status
libc6:i386:
  Installed: (none)
  Candidate: (none)
  Version table:
"""


def test_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[str] = []
    monkeypatch.setattr(warnings, "warn", warned.append)
    assert policy.parse(TEXT) == {
        "gcc-13": policy.Offer(
            "13.3.0-6ubuntu2",
            [
                ("13.3.0-6ubuntu2", ["http://ubuntu.example.org/ubuntu noble-updates/main amd64"]),
                ("13.2.0-23ubuntu4", ["http://ubuntu.example.org/ubuntu noble/main amd64"]),
            ],
        ),
        "libc6:i386": policy.Offer(),
    }
    assert warned == []


def test_a_line_in_another_language_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[str] = []
    monkeypatch.setattr(warnings, "warn", warned.append)
    policy.parse("dkms:\n  Installationskandidat: 3\n")
    assert warned == ["`apt-cache policy` printed lines of a form that is not known here (1): Installationskandidat: 3"]
