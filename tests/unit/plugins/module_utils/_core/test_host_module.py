# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules start programs with one locale."""

from __future__ import annotations

import os

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule


def test_run_command_has_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGUAGE", "de_DE:de")
    with patch_module_args({}):
        module = HostModule({}, supports_check_mode=True)
    line = ["sh", "-c", 'echo "$LC_ALL,${LANGUAGE-unset},$TZ"']
    assert module.run_command(line, environ_update={"TZ": "UTC"})[1] == "C.UTF-8,,UTC\n"


def test_files_of_a_module_are_readable_under_any_umask() -> None:
    before = os.umask(0o077)
    try:
        with patch_module_args({}):
            HostModule({}, supports_check_mode=True)
        assert os.umask(0o077) == 0o022
    finally:
        os.umask(before)
