# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets of a request: they are part of it, and Ansible masks them alone in the result."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module

FILES = [{"path": "/etc/docker/daemon.json", "content": '{"host": {}}'}]


def module(files: list[dict[str, str]]) -> ModuleType:
    found = ModuleType("samba_plan")

    def main() -> None:
        ansible, request = role_module()
        ansible.exit_json(changed=False, files=files, request=sorted(request))

    found.main = main  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("secrets", [{}, {"secrets": '{"users": [], "options": {}}'}], ids=["none", "some"])
def test_files_of_a_plan_are_returned_as_they_are(
    run_module: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, secrets: dict[str, str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    result = run_module(module(FILES), request={"state": "present"}, **secrets)
    assert result["files"] == FILES
    assert result["request"] == sorted(["planned", "state", *(["options", "users"] if secrets else [])])
