# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts about recorded hosts that the plan of a driver derives."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_files import modprobe_files

from tests.unit.support.nvidia.driver_states import See


def test_a_failed_build_leaves_nouveau(see: See) -> None:
    state = see("failed_build")
    assert not state.built
    assert modprobe_files(state, None, {}) == []
