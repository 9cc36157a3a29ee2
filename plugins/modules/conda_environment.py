#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: conda_environment
short_description: Install conda environments in generations
description:
  - An environment is a link, O(root)C(/envs/NAME), to one of its generations. A request is solved once, and the result is kept as a lock
    next to the generation. A change installs a new generation. The module switches the links when all environments of the run are
    complete. A generation is not changed once it is linked, so there is one to go back to.
  - A run that fails or is killed leaves every environment as it was. The next run removes the leftovers.
  - The module finds manual changes of a generation, such as an added package, an edited or removed file, or a file that users other than
    root may write. It fixes them with a new generation from the same lock. The changes stay in the generation that is kept.
    (Packages share their files with other environments, so an edit may appear in several.)
  - Generations are marked as frozen (CEP 22), so that C(conda install) reports who manages them.
  - The module leaves alone what it has not made, and refuses the request when that is in the way.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - Without py-rattler, the module reports that environments change, and not which packages.
  diff_mode:
    support: full
requirements:
  - py-rattler 0.28 or newer, in the Python that runs the module or in O(python). It is not needed where nothing has to change.
options:
  environments:
    description:
      - The environments. Others are left alone, unless O(exclusive) is set.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description:
          - Name of the environment.
        type: str
        required: true
      state:
        description:
          - V(absent) removes the link and all generations.
        type: str
        choices: [present, absent]
        default: present
      packages:
        description:
          - The packages, as conda's match specs, such as V(python 3.12.*), V(numpy >=2,<3) or V(numpy ==2.1.0 py312_0).
          - V(numpy 2.1) is refused, since tools disagree on whether it means one version or all that begin with 2.1.
        type: list
        elements: str
        default: []
      channels:
        description:
          - Channels of this environment, instead of O(channels).
        type: list
        elements: str
      cuda:
        description:
          - Version of CUDA that the driver supports, such as V(12.8). Solving uses it as C(__cuda). Empty allows only builds without CUDA.
          - V(auto) is the version that the host's C(libcuda) supports. The first driver and an older driver lead to a new solution. A newer
            one changes nothing without O(environments[].update).
        type: str
        default: auto
      pip:
        description:
          - Requirements for C(uv pip), such as V(einops >=0.8), for packages that no channel has. Wheels only.
          - They are locked with hashes once, or used as they are when each has its V(--hash=).
          - Packages of conda are not replaced. Check mode reports the requirements, not their dependencies.
        type: list
        elements: str
        default: []
      lock:
        description:
          - Text of a lock file in rattler's format, which pixi writes too. Its packages are installed, and nothing is solved.
        type: str
        default: ""
      generation:
        description:
          - Number of a generation to go back to. While it is set, the rest of the request is ignored.
          - V(0) means the generation that the request leads to. The request from before an upgrade goes back as well.
        type: int
        default: 0
      update:
        description:
          - Solve again, and use newer packages where the channels have them. Without it packages stay as they are.
        type: bool
        default: false
  root:
    description:
      - Directory of environments, generations and caches. Users other than root must not be able to write in it, or in a directory above.
    type: path
    default: /opt/conda
  channels:
    description:
      - Channels by address, also V(file://), or by name. A package comes only from the first channel that has it.
    type: list
    elements: str
    default: [conda-forge]
  channel_alias:
    description:
      - Base address of channels by name, such as that of a mirror. Empty means the address of conda-forge itself.
      - Existing environments stay as they are when it changes.
    type: str
    default: ""
  exclusive:
    description:
      - Whether environments of this module that are not named are removed.
    type: bool
    default: false
  keep:
    description:
      - Number of generations to keep for going back, besides the one in use.
      - A generation that a process still runs from is kept as well.
    type: int
    default: 1
  index_url:
    description:
      - The Python package index for O(environments[].pip). Empty means that of uv's configuration on the host.
    type: str
    default: ""
  torch_index:
    description:
      - Whether C(torch) and its packages come from PyTorch's own index, in the variant for the environment's CUDA, or for CPUs.
        It has an effect where O(environments[].pip) leads to these packages.
    type: bool
    default: true
  timeout:
    description:
      - Seconds after which solving fails.
    type: int
    default: 600
  python:
    description:
      - A Python that has py-rattler, for use when the module's own has not. C(uv) is in the same directory.
    type: path
    default: /opt/rigwright/python/bin/python3
"""

EXAMPLES = r"""
- name: Install two environments
  rigwright.workstation.conda_environment:
    environments:
      - name: research
        packages: [python 3.12.*, pytorch >=2.8, scikit-learn]
        cuda: "12.8"
      - name: plots
        packages: [python 3.13.*, matplotlib]

- name: Install exactly the packages of a lock
  rigwright.workstation.conda_environment:
    environments:
      - name: research
        lock: "{{ lookup('ansible.builtin.file', 'research.lock') }}"

- name: Go back to an earlier generation
  rigwright.workstation.conda_environment:
    environments:
      - name: research
        generation: 3
"""

RETURN = r"""
environments:
  description: The outcome for each environment; in check mode the planned outcome.
  returned: success
  type: dict
  contains:
    prefix:
      description: The path of the link. Empty when the environment is absent.
      type: str
    generation:
      description: The generation in use, 0 when there is none.
      type: int
    previous:
      description: The generations that are kept for going back.
      type: list
      elements: int
    added:
      description: Packages that were not in use before.
      type: list
      elements: str
    removed:
      description: Packages that are no longer in use.
      type: list
      elements: str
    replaced:
      description: Packages of which another build is in use.
      type: list
      elements: str
    drift:
      description: Manual changes since the environment was installed, which are fixed now.
      type: list
      elements: str
  sample:
    research:
      prefix: /opt/conda/envs/research
      generation: 4
      previous: [3]
      added: []
      removed: [handwritten 1.0 0]
      replaced: [mathkit 1.0 0 -> 2.0 0]
      drift: [handwritten 1.0 0 was added, share/numbers/version of mathkit was changed]
drift:
  description: The same of all environments, with their names.
  returned: success
  type: list
  elements: str
  sample: ["research: handwritten 1.0 0 was added"]
"""


from ansible_collections.rigwright.workstation.plugins.module_utils._conda import rattler
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.options import ENVIRONMENT
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.plan import CondaError
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.request import parse_request
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.run import (
    check_place,
    explain,
    run,
    unsolved,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.store import Store
from ansible_collections.rigwright.workstation.plugins.module_utils._core import another_python
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.facts import cuda_conflict, host_cuda

NAME = "ansible_collections.rigwright.workstation.plugins.modules.conda_environment"


def main() -> None:
    module = HostModule(
        argument_spec={
            "environments": {"type": "list", "elements": "dict", "required": True, "options": ENVIRONMENT},
            "exclusive": {"type": "bool", "default": False},
            "root": {"type": "path", "default": "/opt/conda"},
            "channels": {"type": "list", "elements": "str", "default": ["conda-forge"]},
            "channel_alias": {"type": "str", "default": ""},
            "keep": {"type": "int", "default": 1},
            "index_url": {"type": "str", "default": ""},
            "torch_index": {"type": "bool", "default": True},
            "timeout": {"type": "int", "default": 600},
            "python": {"type": "path", "default": "/opt/rigwright/python/bin/python3"},
        },
        supports_check_mode=True,
    )
    params = module.params
    store = Store(params["root"], module.run_command)
    try:
        check_place(params, store)
        cuda = host_cuda(Tree())
        if not rattler.is_available():
            # Before the lock: the process that respawns waits for the one that it started.
            respawn_where_needed(module, unsolved(parse_request(params, store.names, cuda), store))
        with module_lock(module, "conda_environment", wait=3600):
            result, warnings = run(parse_request(params, store.names, cuda), store, params, module.check_mode)
    except (CondaError, OSError) as error:
        module.fail_json(msg=explain(error, params["root"]))
    for warning in [*warnings, *filter(None, [cuda_conflict(Tree())])]:
        module.warn(warning)
    module.exit_json(**result)


def respawn_where_needed(module: HostModule, names: list[str]) -> None:
    """Start the module again in the Python that has py-rattler, if these environments need it. Does not return if it does."""
    if not names:
        return
    python = module.params["python"]
    if another_python.may_start(python):
        another_python.start_again(module, NAME, python)
    if module.check_mode:
        module.warn(
            f"{python} has no py-rattler yet: which packages {', '.join(names)} will have is known once it is there."
        )
        module.exit_json(
            changed=True, environments={}, drift=[], diff={"before": "", "after": f"environments: {names}\n"}
        )
    raise CondaError(f"{python} has no py-rattler: the role conda installs it; or set `python` to one that has")


if __name__ == "__main__":
    main()
