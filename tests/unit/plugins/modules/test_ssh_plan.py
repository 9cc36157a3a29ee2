# SPDX-License-Identifier: GPL-3.0-or-later
"""The module ssh_plan itself; tests/unit/plugins/module_utils/_ssh/test_run.py tests its plans."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.modules import ssh_plan


def test_the_module_fails_for_a_user_other_than_root(monkeypatch, run_module):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    result = run_module(ssh_plan)
    assert result["failed"] is True
    assert "become: true" in result["msg"]
