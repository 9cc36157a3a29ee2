# SPDX-License-Identifier: GPL-3.0-or-later
"""A desktop over RDP: who gets one and who does not, what is seen of it, and that nothing ends it."""

from __future__ import annotations


def test_xrdp_serves_what_it_proves(verified, targets):
    verdict = verified()
    for target in targets:
        assert set(verdict[target.host.name].values()) == {"pass"}
