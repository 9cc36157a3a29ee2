# SPDX-License-Identifier: GPL-3.0-or-later
"""The module gnome_remote_desktop before it runs grdctl; module_utils/_xrdp/test_gnome_apply.py tests its changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.rigwright.workstation.plugins.modules import gnome_remote_desktop

Run = Callable[..., dict[str, Any]]


def test_a_bad_request_is_refused_without_a_command(run_module: Run) -> None:
    result = run_module(gnome_remote_desktop, commands={}, port=70000, user="remote")
    assert result["failed"]
    assert "`port` is 70000" in result["msg"]
    assert "`user` and `password` belong together" in result["msg"]
