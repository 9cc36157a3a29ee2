# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan or prove a role as the actions of these names do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._system import role_run
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import options_of, request_of

from harness.sandbox.lab import ROOT

RunModule = Callable[..., Any]


def run_role(
    run_module: RunModule, role: ModuleType, request: Mapping[str, Any], check: bool = False, kind: str = "plan"
) -> Any:
    """Return the result for a request, with what is no option."""
    started = ModuleType("role")

    def main() -> None:
        module = HostModule(argument_spec={}, supports_check_mode=True)
        name = role.__name__.rpartition(".")[2]
        module.exit_json(**role_run.load({"role": name, "kind": kind, "request": dict(request)}, module)())

    vars(started)["main"] = main
    return run_module(started, check=check)


def run_plan(
    run_module: RunModule,
    role: ModuleType,
    context: Mapping[str, Any],
    check: bool = False,
    prefix: str = "",
    kind: str = "plan",
    **options: Any,
) -> Any:
    """Return the result for these options, which are named without the prefix of the role, and for its defaults."""
    name = role.__name__.rpartition(".")[2]
    values = {f"{prefix or name}_{option}": value for option, value in options.items()}
    request, secrets = request_of(name, options_of(str(ROOT / "roles" / name)), values)
    return run_role(run_module, role, {**request, **secrets, **context}, check, kind)
