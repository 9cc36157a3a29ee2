#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: python_environment
short_description: Install a small Python environment from a list with hashes
description:
  - Creates a virtual environment for modules that need a library, such as M(rigwright.workstation.conda_environment).
  - When the list or the system's Python changes, a new environment is created next to the old one. A link is switched when it is complete.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
requirements:
  - Python's C(venv), which Debian and Ubuntu have in the package python3-venv.
options:
  path:
    description:
      - The link that leads to the environment. Environments are next to it.
      - It is refused where users other than root may write in it or above it.
    type: path
    default: /opt/rigwright/python
  state:
    description:
      - V(absent) removes the link and every environment next to it, and their directory if it is empty then. The environment stays while
        another role needs it.
    type: str
    choices: [present, absent]
    default: present
  user:
    description:
      - The name of the role that needs the environment. It is not an account of the system.
    type: str
    required: true
  requirements:
    description:
      - The packages, as pip's requirements with versions and hashes. Wheels only.
    type: str
  index_url:
    description:
      - The Python package index. Empty means that of pip's configuration on the host.
    type: str
    default: ""
seealso:
  - module: rigwright.workstation.conda_environment
"""

EXAMPLES = r"""
- name: Install the libraries of modules
  rigwright.workstation.python_environment:
    user: conda
    requirements: "{{ lookup('ansible.builtin.file', 'python.txt') }}"
"""

RETURN = r"""
directory:
  description: The target of the link, in check mode the planned target. Empty when it is absent.
  returned: success
  type: str
  sample: /opt/rigwright/python-3f2ab4c1d0e5
"""


from ansible_collections.rigwright.workstation.plugins.module_utils._conda import venv
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock


def main() -> None:
    module = HostModule(
        argument_spec={
            "path": {"type": "path", "default": "/opt/rigwright/python"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "user": {"type": "str", "required": True},
            "requirements": {"type": "str"},
            "index_url": {"type": "str", "default": ""},
        },
        required_if=[("state", "present", ("requirements",))],
        supports_check_mode=True,
    )
    with module_lock(module, "python_environment"):
        run(module)


def run(module: HostModule) -> None:
    params = module.params
    path, requirements = params["path"], params["requirements"] or ""
    try:
        facts = venv.read_facts(path, requirements)
        steps = venv.plan(facts, requirements, params["user"], params["state"] == "present")
        if steps.changed and not module.check_mode:
            venv.apply(facts, steps, requirements, params["index_url"], module.run_command)
    except venv.VenvError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"{path} cannot be created: {error}. Free space on its disk, or check that path.")
    diff = {
        "before": {path: facts.current, "users": sorted(facts.users)},
        "after": {path: steps.wanted, "users": sorted(steps.users)},
    }
    module.exit_json(changed=steps.changed, directory=steps.wanted, diff=diff)


if __name__ == "__main__":
    main()
