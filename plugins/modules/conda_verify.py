#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: conda_verify
short_description: Verify conda environments by using them (internal to the role conda)
description:
  - Internal to the role P(rigwright.workstation.conda#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.verify). Changes nothing.
  - Compares the environments with the request file by file, as M(rigwright.workstation.conda_environment) does in check mode, and uses
    each in a login shell of an account that may change nothing.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
requirements:
  - py-rattler, in C(/opt/rigwright/python), where an environment has to be solved
"""

EXAMPLES = r"""
- name: Verify the environments
  rigwright.workstation.verify:
"""

RETURN = r""" # """

import os
import typing as t

from ansible.module_utils.common.respawn import has_respawned, respawn_module
from ansible_collections.rigwright.workstation.plugins.module_utils._conda import rattler, verify
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.compare import Comparison
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.plan import CondaError
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.run import explain
from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import client_runner, role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.facts import host_cuda

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

NOTHING: dict[str, t.Any] = {"environments": {}, "drift": []}


def compare(module: AnsibleModule, request: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return what conda_environment does in check mode. Starts the module again where that needs py-rattler, and then does not return.

    :raises CondaError: the request is refused, or cannot be solved.
    """
    cuda = host_cuda(Tree())
    comparison = Comparison(request, cuda, module.run_command)
    missing = [] if rattler.is_available() else comparison.unsolved()
    if missing:
        python = comparison.params["python"]
        if os.path.exists(python) and not has_respawned():
            respawn_module(python)
        raise CondaError(f"{python} has no py-rattler, and these are not as requested: {', '.join(missing)}")
    result, warnings = comparison.difference()
    for warning in warnings:
        module.warn(warning)
    return result


from ansible_collections.rigwright.workstation.plugins.module_utils._system.drop_ins import exit_verified


def main() -> None:
    module, request = role_module()
    result, error = NOTHING, ""
    try:
        result = compare(module, request)
    except (CondaError, OSError) as problem:
        error = explain(problem, request["prefix"])
    outcome = verify.use(client_runner(module), request)
    exit_verified(module, "conda", [verify.environments(result, error), verify.users(outcome, request)])


if __name__ == "__main__":
    main()
