# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Environments of conda."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._conda import compare, rattler
from ansible_collections.rigwright.workstation.plugins.module_utils._conda import verify as proof
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.plan import CondaError
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.run import explain
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host, Refused
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.facts import cuda_conflict, host_cuda

NOTHING: dict[str, t.Any] = {"environments": {}, "drift": []}


def plan(request: dict[str, t.Any], host: Host) -> dict[str, t.Any]:
    if request["state"] == "absent":
        return {}
    try:
        found, warnings = compare.plan(request, host_cuda(Tree()), host.run_command)
    except (CondaError, OSError) as error:
        raise Refused(explain(error, request["prefix"])) from error
    for warning in [*warnings, *filter(None, [cuda_conflict(Tree())])]:
        host.warn(warning)
    return found


def verify(request: dict[str, t.Any], host: Host) -> list[Finding]:
    result, error = NOTHING, ""
    try:
        result = _difference(request, host)
    except (CondaError, OSError) as problem:
        error = explain(problem, request["prefix"])
    outcome = proof.use(host.run_client, request)
    return [proof.environments(result, error), proof.users(outcome, request)]


def _difference(request: dict[str, t.Any], host: Host) -> dict[str, t.Any]:
    """Return what conda_environment does in check mode.

    :raises CondaError: the request is refused, or cannot be solved.
    """
    comparison = compare.Comparison(request, host_cuda(Tree()), host.run_command)
    missing = [] if rattler.is_available() else comparison.unsolved()
    if missing:
        python = comparison.params["python"]
        host.need_python(python)
        raise CondaError(f"{python} has no py-rattler, and these are not as requested: {', '.join(missing)}")
    result, warnings = comparison.difference()
    for warning in warnings:
        host.warn(warning)
    return result
