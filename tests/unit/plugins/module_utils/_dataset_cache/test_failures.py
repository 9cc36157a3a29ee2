# SPDX-License-Identifier: GPL-3.0-or-later
"""Exit statuses."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache import cli
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.failures import Exit


@pytest.mark.parametrize("status", Exit)
def test_manual_lists_every_exit_status(status):
    assert f"\n    {status.value:<5}" in cli.MANUAL
