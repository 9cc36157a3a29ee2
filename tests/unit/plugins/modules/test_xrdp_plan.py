# SPDX-License-Identifier: GPL-3.0-or-later
"""The module xrdp_plan itself; tests/unit/plugins/module_utils/_xrdp/test_run.py tests its plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.modules import xrdp_plan


def test_the_module_fails_for_a_user_other_than_root(
    monkeypatch: pytest.MonkeyPatch, run_module: Callable[..., dict[str, Any]]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    result = run_module(xrdp_plan)
    assert result["failed"] is True
    assert "become: true" in result["msg"]
