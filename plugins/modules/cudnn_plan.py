#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cudnn_plan
short_description: Plan cuDNN for the CUDA toolkits of a host
description:
  - Reads which CUDA toolkits are on the host. Returns what the role C(cudnn) has to do, and why a request is refused.
  - Changes nothing itself.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
  - rigwright.workstation.nvidia_repository
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - Nothing is ever changed.
options:
  state:
    description:
      - V(absent) plans the removal of what the role installed.
    type: str
    choices: [present, absent]
    default: present
  source:
    description:
      - V(auto) takes NVIDIA's repository where a toolkit came from it, and wheels otherwise.
    type: str
    choices: [auto, cuda_repository, wheel]
    default: auto
  cuda_majors:
    description:
      - Major versions of CUDA. The first is the one that compilers find. Empty takes those that are installed.
    type: list
    elements: int
    default: []
  version:
    description:
      - Version of the wheels. Empty takes the pinned one.
    type: str
    default: ""
  wheels:
    description:
      - SHA-256 of further wheels, by version and major version of CUDA.
    type: dict
    default: {}
  ask_apt:
    description:
      - Refuse packages that apt does not know. For use when NVIDIA's repository is set up and its index is fresh.
    type: bool
    default: false
seealso:
  - module: rigwright.workstation.cudnn_wheels
  - module: rigwright.workstation.cuda_repository
"""

EXAMPLES = r"""
- name: Plan cuDNN for CUDA 13 from NVIDIA's wheel
  rigwright.workstation.cudnn_plan:
    source: wheel
    cuda_majors: [13]
  register: plan
"""

RETURN = r"""
source:
  description: Where cuDNN comes from, V(cuda_repository) or V(wheel).
  returned: success
  type: str
  sample: wheel
majors:
  description: Major versions of CUDA that it is for.
  returned: success
  type: list
  elements: int
  sample: [13]
requirements:
  description: Requirements that are not met, as M(rigwright.workstation.require) takes them. With any, the plan is refused.
  returned: success
  type: list
  elements: dict
  sample: [{ok: false, variable: cudnn_cuda_majors, problem: "has a number twice", remedy: "name each once"}]
install:
  description: Packages to install.
  returned: success
  type: list
  elements: str
  sample: [cudnn9-cuda-13]
remove:
  description: Packages to remove, with the packages that only they need.
  returned: success
  type: list
  elements: str
  sample: []
brought:
  description: NVIDIA's packages that the role manages afterwards.
  returned: success
  type: list
  elements: str
  sample: [cudnn9-cuda-13]
unfinished:
  description: Whether dpkg has to complete interrupted work.
  returned: success
  type: bool
  sample: false
wheels:
  description: What M(rigwright.workstation.cudnn_wheels) takes.
  returned: success
  type: list
  elements: dict
  sample: [{cuda: 13, version: 9.12.0.46, sha256: [f3befad533e234069eb61ae0d12cb7aa8af0ccf36f28c1d4273cc0005d990de0]}]
package_files:
  description: Files that have to be in place before packages are installed, as M(rigwright.workstation.config_files) takes them.
  returned: when O(state=present)
  type: list
  elements: dict
  sample: [{path: /var/lib/rigwright_cudnn/packages.json, content: '["cudnn9-cuda-13"]'}]
repository:
  description: What M(rigwright.workstation.cuda_repository) takes, empty when it is not needed.
  returned: when O(state=present)
  type: dict
  sample: {}
gpus:
  description: How many NVIDIA GPUs there are.
  returned: when O(state=present)
  type: int
  sample: 1
"""

import dataclasses
import json

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import cudnn_plan as cudnn
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_facts import (
    REPOSITORY_OPTIONS,
    known_packages,
    memory,
    read_host,
    repository,
)

ROOT = "/"
ROLE = "cudnn"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "source": {
                "type": "str",
                "choices": [cudnn.AUTO, data.CUDA_REPOSITORY, cudnn.WHEEL],
                "default": cudnn.AUTO,
            },
            "cuda_majors": {"type": "list", "elements": "int", "default": []},
            "version": {"type": "str", "default": ""},
            "wheels": {"type": "dict", "default": {}},
            "ask_apt": {"type": "bool", "default": False},
            "repository": {"type": "dict", "default": {}, "options": REPOSITORY_OPTIONS},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        host = read_host(Tree(ROOT), ROLE)
    except ValueError as error:
        module.fail_json(msg=f"{error}. Nothing was changed.")
    if params["state"] == "absent":
        module.exit_json(changed=False, **dataclasses.asdict(cudnn.plan_absent(host)))
    try:
        wheels = cudnn.read_wheels(params["wheels"])
    except ValueError as error:
        module.fail_json(msg=f'cudnn_wheels: {error}; write it as {{"9.28.0.42": {{"13": [<SHA-256>]}}}}')
    request = cudnn.Request(params["source"], tuple(params["cuda_majors"]), params["version"], wheels)
    plan = cudnn.plan_present(host, request)
    if params["ask_apt"] and plan.source == data.CUDA_REPOSITORY:
        choices = {str(major): cudnn.package_of(major) for major in cudnn.MAJORS}
        plan.check_known("cudnn_cuda_majors", choices, known_packages(module.run_command, choices.values()))
    module.exit_json(
        changed=False,
        **dataclasses.asdict(plan),
        package_files=[{"path": memory(ROLE), "content": json.dumps(plan.brought) + "\n"}],
        repository=repository(host, params["repository"]) if plan.source == data.CUDA_REPOSITORY else {},
        gpus=len(host.generations),
    )


if __name__ == "__main__":
    main()
