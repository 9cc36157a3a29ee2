# SPDX-License-Identifier: GPL-3.0-or-later
"""Hand the cases to what reads requests for conda environments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rattler
from ansible_collections.rigwright.workstation.plugins.filter.conda_request import conda_request
from ansible_collections.rigwright.workstation.plugins.module_utils._conda import plan
from ansible_collections.rigwright.workstation.plugins.module_utils._conda import rattler as solver
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.request import parse_request

REFUSALS = (plan.CondaError,)
FILE = "environment.yml"


def environment(text: str) -> Any:
    """Return the request for an environment.yml: its packages, requirements of pip, and channels."""
    result = conda_request([{"name": "x", "file": FILE}], {FILE: text}, channels=["conda-forge"])
    for requirement in result["requirements"]:
        if not requirement["ok"]:
            raise plan.CondaError(f"{requirement['variable']} {requirement['problem']}")
    row: Any = {"channels": [], **result["environments"][0]}
    params = {"environments": [row], "channels": ["conda-forge"], "channel_alias": "", "exclusive": False, "keep": 1}
    wanted = parse_request(params, list, ("", ""))
    plan.check("", wanted, {"x": plan.Environment("x")})
    solver.match_specs("x", wanted[0].spec["packages"])
    return {key: wanted[0].spec[key] for key in ("packages", "pip", "channels")}


def matching(spec: str, builds: Sequence[Sequence[str]]) -> list[str]:
    """Return the builds of a package (name, version, build) that match a spec, as version and build."""
    packages = conda_request([{"name": "x", "packages": [spec]}], {})["environments"][0]["packages"]
    [match] = solver.match_specs("x", packages)
    return [f"{version} {build}" for name, version, build in builds if match.matches(record(name, version, build))]


def record(name: str, version: str, build: str) -> Any:
    return rattler.PackageRecord(name, version, rattler.BuildString(build), 0, "linux-64")
