# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requirements of a planned change of driver. Pure."""

from __future__ import annotations

import re

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.apt_transaction import simulation_problem
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_checks import obstacles
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_files import (
    _OPTION_NAME,
    option_value,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_model import build_failure
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import (
    DKMS,
    Change,
    Failure,
    describe,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_state import (
    DriverRequest,
    DriverState,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_transaction import (
    new_kernels,
    touched,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import (
    branch_of,
    driver_version,
    is_driver_package,
    version_key,
)


def requirements(state: DriverState, change: Change | None, params: DriverRequest) -> list[Problem]:
    """Return every problem of a planned change."""
    plan = state.plan
    found = list(plan.requirements)
    if change is not None:
        # Check dependencies, too: apt is allowed to change held packages.
        found += obstacles(state.facts, state.request, touched(state, change)) + _build_requirements(state, change)
    if change is not None and state.simulation is not None:
        reason = simulation_problem(state.simulation, change)
        found.append(
            {
                "ok": not reason,
                "variable": "nvidia_driver_branch" if params["branch"] != "auto" else params["host_name"],
                "problem": f"leads to a change of packages that is not allowed: {reason}",
                "remedy": "look at `apt-mark showhold` and the preferences in /etc/apt for what prevents it",
            }
        )
    options = params["module_options"].items()
    wrong = [repr(name) for name, value in options if not (re.fullmatch(_OPTION_NAME, name) and option_value(value))]
    if wrong:
        found.append(
            {
                "ok": False,
                "variable": "nvidia_driver_module_options",
                "problem": f"has {', '.join(wrong)}, which modprobe cannot read",
                "remedy": "write names of letters, digits and underscores, and for each a number, true, false or a text in one line;"
                ' blanks in it are between `"` within the text',
            }
        )
    failure = state.record.failure
    if change is not None and failure is not None and _fails_again(state, failure):
        found.append(
            {
                "ok": params["ignore_build_failures"],
                "variable": "nvidia_driver_branch" if params["branch"] != "auto" else params["host_name"],
                "problem": f"leads to driver {plan.version} again: {describe(failure)}",
                "remedy": "choose another branch or kernel, or `nvidia_driver_ignore_build_failures: true` to try it again",
            }
        )
    if plan.secure_boot == "enroll" and not plan.refused:
        found.append(
            {
                "ok": len(params["mok_password"]) >= 8,
                "variable": "nvidia_driver_mok_password",
                "problem": "has fewer than 8 characters, and Secure Boot needs a password to confirm the key that signs the module",
                "remedy": "choose one; a person types it once at the console, at the next boot",
            }
        )
    return found


def _build_requirements(state: DriverState, change: Change) -> list[Problem]:
    """Return why a new kernel does not go with the driver, or a new driver with the kernel that boots next."""
    names = touched(state, change)
    coming = {name: version for name, version in names.items() if is_driver_package(name)}
    kernels = new_kernels(names)
    if state.plan.build != DKMS or not (coming or kernels):
        return []
    on_branch = [driver_version(text) for text in coming.values() if branch_of(text) == state.plan.branch]
    version = max(on_branch, key=version_key, default=state.plan.version) or str(state.plan.branch)
    kernels = kernels or {state.kernel.get("release", ""): state.kernel.get("upstream", "")}
    found: list[Problem] = []
    for release, package in kernels.items():
        upstream = re.match(r"[\d.]*", package or release)
        failure = build_failure(
            version, upstream.group(0) if upstream else "", state.plan.source, state.facts["system"]["distribution"]
        )
        if failure:
            found.append(
                {
                    "ok": state.request.ignore_build_failures,
                    "variable": state.request.host_name,
                    "problem": f"leads to driver {version} and the kernel {release}, for which it does not build:"
                    f" {failure.reason} ({failure.source})",
                    "remedy": f"choose another nvidia_driver_branch, hold the kernel before {failure.kernels[0]},"
                    " or `nvidia_driver_ignore_build_failures: true` to try it",
                }
            )
    return found


def _fails_again(state: DriverState, failure: Failure) -> bool:
    """Return whether a change would only repeat what was taken back: the same driver for the same kernel."""
    kernel = state.kernel.get("release", "")
    return failure.at in ("build", "boot") and (failure.version, failure.kernel) == (state.plan.version, kernel)
