#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: smoke_test_verify
short_description: Train a small network in environments and containers (internal to the role smoke_test)
description:
  - Internal to the role P(rigwright.workstation.smoke_test#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.verify). Changes nothing.
  - Runs a training program with interpreters of the host and in containers, one after the other, and compares the GPUs that they see.
  - The interpreter reads the program from standard input. The module writes nothing to the host. Containers have no network, and are
    removed at the end. A program that exceeds its time limit is killed, with its children.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Train in environments and containers
  rigwright.workstation.verify:
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke import run


def main() -> None:
    module, request = role_module()
    try:
        result = run.run(request)
    except Refusal as error:
        module.fail_json(msg=f"{error}. Nothing was run.")
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
