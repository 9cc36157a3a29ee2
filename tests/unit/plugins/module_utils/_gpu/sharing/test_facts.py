# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plan knows of the other modules is what they say of themselves. How it looks is in the tests of gpu_sharing_plan."""

from __future__ import annotations

from typing import Any

import yaml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import facts as facts
from ansible_collections.rigwright.workstation.plugins.modules import gpu_mig, gpu_mps


def options(module: Any) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(module.DOCUMENTATION)["options"]
    return found


def test_what_gpu_mig_takes_where_nothing_is_stated_is_known() -> None:
    stated = {name: option.get("default") for name, option in options(gpu_mig).items() if name != "devices"}
    assert stated == facts.MIG_DEFAULTS
    layout = options(gpu_mig)["layout"]["suboptions"]
    assert {name: row.get("default") for name, row in layout.items() if name != "profile"} == facts.LAYOUT_DEFAULTS


def test_the_places_of_mps_are_those_of_gpu_mps() -> None:
    stated = {name: options(gpu_mps)[name]["default"] for name in ("pipe_root", "log_root", "config_root")}
    assert list(stated.values()) == [facts.PIPES, facts.LOGS, facts.CONFIGURATIONS]
