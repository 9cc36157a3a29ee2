#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_plan
short_description: Plan the CUDA toolkits of a host
description:
  - Reads what is on the host (packages, driver, GPUs, free disk, alternatives) and returns what the role C(cuda) has to do, and why
    a request is refused. Changes nothing itself.
  - Which toolkit needs which driver, and where packages come from, is data of the collection (C(docs/gpu_data.md)).
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
      - Where toolkits come from. V(auto) takes NVIDIA's repository, unless the request names only the archive's own toolkit.
    type: str
    choices: [auto, archive, cuda_repository]
    default: auto
  toolkits:
    description:
      - Versions, such as V(13.0). Empty keeps an installed one that works, and otherwise takes the newest that the driver fully
        supports.
    type: list
    elements: str
    default: []
  default:
    description:
      - The version of O(toolkits) that C(/usr/local/cuda) leads to. Empty takes the first.
    type: str
    default: ""
  driver_branch:
    description:
      - Branch of a driver that is not installed yet. V(auto) takes the driver in use; without one, no toolkit is too new.
    type: str
    default: auto
  free_bytes:
    description:
      - Free space that each new toolkit needs, in bytes.
    type: int
    default: 10737418240
  ask_apt:
    description:
      - Refuse packages that apt does not know. For use when NVIDIA's repository is set up and its index is fresh.
    type: bool
    default: false
seealso:
  - module: rigwright.workstation.cuda_repository
"""

EXAMPLES = r"""
- name: Plan two toolkits
  rigwright.workstation.cuda_plan:
    toolkits: ["13.0", "12.9"]
    default: "12.9"
  register: plan

- name: Show what would be installed
  ansible.builtin.debug:
    var: plan.install
"""

RETURN = r"""
source:
  description: Where the toolkits come from, V(archive) or V(cuda_repository).
  returned: success
  type: str
  sample: cuda_repository
toolkits:
  description: The versions.
  returned: success
  type: list
  elements: str
  sample: ["13.0", "12.9"]
default:
  description: The version that sessions use by default.
  returned: success
  type: str
  sample: "13.0"
root:
  description: Directory of the toolkit in use.
  returned: success
  type: str
  sample: /usr/local/cuda
driver:
  description: The driver version or branch that was planned for, empty when there is none.
  returned: success
  type: str
  sample: 580.95.05
requirements:
  description: Requirements that are not met, as M(rigwright.workstation.require) takes them. With any, the plan is refused.
  returned: success
  type: list
  elements: dict
  sample:
    - {ok: false, variable: cuda_toolkits, problem: "has 13.0 twice", remedy: "name each toolkit once"}
install:
  description: Packages to install.
  returned: success
  type: list
  elements: str
  sample: [cuda-toolkit-13-0, g++]
remove:
  description: Packages to remove, with the packages that only they need.
  returned: success
  type: list
  elements: str
  sample: [cuda-nvcc-12-9, cuda-toolkit-12-9]
brought:
  description: NVIDIA's packages that the role manages afterwards.
  returned: success
  type: list
  elements: str
  sample: [cuda-toolkit-13-0]
unfinished:
  description: Whether dpkg has to complete interrupted work.
  returned: success
  type: bool
  sample: false
alternatives:
  description: Names that update-alternatives has to point elsewhere, and where to.
  returned: success
  type: dict
  sample: {cuda: /usr/local/cuda-13.0}
files:
  description: Files of the environment, as M(rigwright.workstation.config_files) takes them.
  returned: success
  type: list
  elements: dict
  sample: [{path: /etc/ld.so.conf.d/rigwright-cuda.conf, content: "/usr/local/cuda/lib64\n"}]
package_files:
  description: Files that have to be in place before packages are installed, likewise.
  returned: success
  type: list
  elements: dict
  sample: [{path: /var/lib/rigwright_cuda/packages.json, content: '["cuda-toolkit-13-0"]'}]
repository:
  description: What M(rigwright.workstation.cuda_repository) takes, empty when it is not needed.
  returned: success
  type: dict
  sample: {directory: debian13, architecture: x86_64}
gpus:
  description: How many NVIDIA GPUs there are.
  returned: when O(state=present)
  type: int
  sample: 1
notes:
  description: What works only in part.
  returned: success
  type: list
  elements: str
  sample: []
"""

import dataclasses
import json

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._apt import components as archive
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import cuda_plan as cuda
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import package_catalogue as package_data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_facts import (
    REPOSITORY_OPTIONS,
    known_packages,
    memory,
    read_host,
    repository,
)

ROOT = "/"
ROLE = "cuda"
ARCHIVE_SOURCE = "/etc/apt/sources.list.d/rigwright-cuda.sources"


def archive_files(module: AnsibleModule, host: cuda.Host) -> list[dict[str, str]]:
    """Return the source of the components that have the archive's toolkit."""
    components = next(
        row.components
        for row in package_data.ARCHIVES
        if (row.distribution, row.version) == (host.distribution, host.version)
    )
    wanted = [name for name in components if "firmware" not in name and name != "restricted"]
    _rc, out, _err = module.run_command(list(archive.COMMAND), check_rc=True, environ_update={"LC_ALL": "C.UTF-8"})
    targets = archive.parse_targets(out)
    text = archive.component_source(targets, host.distribution, wanted, ARCHIVE_SOURCE)
    return [{"path": ARCHIVE_SOURCE, "content": text}] if text else []


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "source": {"type": "str", "choices": [cuda.AUTO, data.ARCHIVE, data.CUDA_REPOSITORY], "default": cuda.AUTO},
            "toolkits": {"type": "list", "elements": "str", "default": []},
            "default": {"type": "str", "default": ""},
            "driver_branch": {"type": "str", "default": cuda.AUTO},
            "free_bytes": {"type": "int", "default": data.FREE_BYTES},
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
        module.exit_json(changed=False, **dataclasses.asdict(cuda.plan_absent(host)))
    # "13.0, 12.9" comes as a list with a space in it.
    toolkits = tuple(toolkit.strip() for toolkit in params["toolkits"])
    request = cuda.Request(params["source"], toolkits, params["default"], params["driver_branch"], params["free_bytes"])
    plan = cuda.plan_present(host, request)
    if params["ask_apt"] and plan.source == data.CUDA_REPOSITORY:
        choices = {row.version: cuda.package_of(row.version) for row in data.TOOLKITS}
        plan.check_known("cuda_toolkits", choices, known_packages(module.run_command, choices.values()))
    package_files = [{"path": memory(ROLE), "content": json.dumps(plan.brought) + "\n"}]
    if not plan.requirements and plan.source == data.ARCHIVE:
        package_files += archive_files(module, host)
    module.exit_json(
        changed=False,
        **dataclasses.asdict(plan),
        package_files=package_files,
        repository=repository(host, params["repository"]) if plan.source == data.CUDA_REPOSITORY else {},
        gpus=len(host.generations),
    )


if __name__ == "__main__":
    main()
