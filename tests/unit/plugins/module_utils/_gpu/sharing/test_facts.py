# SPDX-License-Identifier: GPL-3.0-or-later
"""Defaults of the other modules equal their documentation. Plans are in the tests of gpu_sharing_plan."""

from __future__ import annotations

from typing import Any

import yaml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import facts as facts
from ansible_collections.rigwright.workstation.plugins.modules import gpu_mps


def options(module: Any) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(module.DOCUMENTATION)["options"]
    return found


def test_directories_of_mps_are_the_defaults_of_gpu_mps() -> None:
    stated = {name: options(gpu_mps)[name]["default"] for name in ("pipe_root", "log_root", "config_root")}
    assert list(stated.values()) == [facts.PIPES, facts.LOGS, facts.CONFIGURATIONS]
