# SPDX-License-Identifier: GPL-3.0-or-later
"""Code below the modules takes a module, or the host of a role."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ansible.module_utils.testing import patch_module_args
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.runner import Runner


def test_a_module_and_the_host_of_a_role_are_runners() -> None:
    with patch_module_args({}):
        module = HostModule(argument_spec={})
    without: Any = SimpleNamespace(run_command=None)
    assert isinstance(module, Runner) and isinstance(Host(module), Runner) and not isinstance(without, Runner)
