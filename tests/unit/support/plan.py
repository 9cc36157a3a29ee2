# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the plan module or the verify module of a role as the actions of these names do."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import options_of, request_of

from harness.sandbox.lab import ROOT


def run_plan(
    run_module: Callable[..., dict[str, Any]],
    module: ModuleType,
    context: Mapping[str, Any],
    check: bool = False,
    prefix: str = "",
    **options: Any,
) -> dict[str, Any]:
    """Return the result for these options, which are named without the prefix of the role, and for its defaults."""
    role = module.__name__.rpartition(".")[2].removesuffix("_plan").removesuffix("_verify")
    specs = options_of(str(ROOT / "roles" / role))
    values = {f"{prefix or role}_{name}": value for name, value in options.items()}
    request, secrets = request_of(role, specs, values)
    text = json.dumps(secrets) if secrets else ""
    return run_module(module, check=check, request=request, secrets=text, context=dict(context))
