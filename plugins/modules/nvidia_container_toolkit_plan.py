#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_container_toolkit_plan
short_description: Plan how containers get the GPUs of a host
description:
  - Reads the host (packages, apt's sources, the driver, the running docker, the CDI spec) and returns what the role
    C(nvidia_container_toolkit) has to do, and the problems that forbid it. The module changes nothing itself.
  - To find out whether the CDI spec is current, the module runs C(nvidia-ctk cdi generate) and compares the result with the spec. So it
    notices another driver, other GPUs and MIG.
  - Where packages have to be installed, the module reads the versions in the repository, and refuses an unknown one before anything
    changes. The signature of that index is not checked, and nothing else depends on it.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
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
      - V(present) plans to install and configure the toolkit, V(absent) to restore what the role changed.
    type: str
    choices: [present, absent]
    default: present
  version:
    description:
      - The version of all four packages, with or without the revision of the package.
    type: str
    required: true
  hold:
    description:
      - Whether the packages are held at their version.
    type: bool
    default: false
  repository:
    description:
      - NVIDIA's repository of the toolkit.
    type: dict
    required: true
    suboptions:
      url:
        description: Address of the flat repository; C($(ARCH)) is the architecture as apt names it.
        type: str
      key_url:
        description: Address of its key.
        type: str
      fingerprints:
        description: Full fingerprints of the keys in this file. Other keys are refused.
        type: list
        elements: str
  architecture:
    description:
      - Architecture as apt names it.
    type: str
    default: amd64
  mode:
    description:
      - How containers request GPUs. V(cdi) by the Container Device Interface of docker, V(legacy) by the runtime C(nvidia), and V(auto)
        by CDI where docker supports it.
    type: str
    choices: [auto, cdi, legacy]
    default: auto
  allow_disruption:
    description:
      - Whether the toolkit may be removed under containers that use a GPU.
    type: bool
    default: false
  planned:
    description:
      - In check mode, what earlier tasks of the run would have created. It counts as existing (C(roles/common/vars/planned.yml)).
    type: dict
    default: {}
seealso:
  - module: rigwright.workstation.docker_plan
"""

EXAMPLES = r"""
- name: Plan the toolkit
  rigwright.workstation.nvidia_container_toolkit_plan:
    version: 1.20.1
    repository:
      url: https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH)
      key_url: https://nvidia.github.io/libnvidia-container/gpgkey
      fingerprints: [C95B321B61E88C1809C4F759DDCAE044F796ECB0]
  register: plan
"""

RETURN = r"""
mode:
  description: How containers request GPUs.
  returned: success
  type: str
  sample: cdi
reason:
  description: The reason for this mode.
  returned: success
  type: str
  sample: docker 26.1.5 supports CDI
requirements:
  description: Problems that forbid the plan, as M(rigwright.workstation.require) takes them.
  returned: success
  type: list
  elements: dict
  sample: []
findings:
  description: Findings, as M(rigwright.workstation.finding) takes them.
  returned: success
  type: list
  elements: dict
  sample: []
install:
  description: The packages to install, each with its version. Empty when all are installed.
  returned: success
  type: list
  elements: str
  sample: [nvidia-container-toolkit=1.20.1-1]
hold:
  description: The packages to put on hold.
  returned: success
  type: list
  elements: str
  sample: []
unhold:
  description: The packages to release from a hold of the role.
  returned: success
  type: list
  elements: str
  sample: []
remove:
  description: The packages that the role installed, to remove.
  returned: success
  type: list
  elements: str
  sample: []
remove_paths:
  description: Paths that the packages have created, and do not remove with themselves.
  returned: success
  type: list
  elements: str
  sample: []
package_files:
  description: Files that have to be in place before the packages, as M(rigwright.workstation.config_files) takes them.
  returned: success
  type: list
  elements: dict
  sample: [{path: /etc/apt/preferences.d/rigwright-nvidia-container-toolkit, content: "Package: ..."}]
package_files_due:
  description: Whether any of these files is missing or differs.
  returned: success
  type: bool
key:
  description: The keys in the repository's key file as one armor block. Empty if the file is missing or has other keys.
  returned: success
  type: str
  sample: ""
directories:
  description: The directories that the files need.
  returned: success
  type: list
  elements: dict
  sample: [{path: /etc/udev/rules.d}]
files:
  description: The configuration files.
  returned: success
  type: list
  elements: dict
  sample: [{path: /etc/udev/rules.d/71-rigwright-nvidia.rules, content: "..."}]
units:
  description: The units, as M(rigwright.workstation.systemd_units) takes them. The service that writes the spec is listed when it is stale.
  returned: success
  type: list
  elements: dict
  sample: [{name: nvidia-cdi-refresh.path, enabled: true}]
part:
  description: The part for C(daemon.json). Empty when docker needs no option.
  returned: success
  type: dict
  sample: {features: {cdi: true}}
apply:
  description: Whether docker has to be configured with the part of this role, or without it.
  returned: success
  type: bool
stale:
  description: Why the CDI spec or its device links do not match the driver. Empty when they do.
  returned: success
  type: str
  sample: ""
devices:
  description: The names of the present CDI devices of the driver.
  returned: success
  type: list
  elements: str
  sample: ["0", "GPU-...", all]
"""

import dataclasses

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import gpu_toolkit as toolkit
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import gpu_toolkit_facts as facts
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.apt_source import is_due, read_key
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.facts import read_driver


def main() -> None:
    repository = {
        "url": {"type": "str"},
        "key_url": {"type": "str", "no_log": False},
        "fingerprints": {"type": "list", "elements": "str"},
    }
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "version": {"type": "str", "required": True},
            "hold": {"type": "bool", "default": False},
            "repository": {"type": "dict", "required": True, "options": repository},
            "architecture": {"type": "str", "default": "amd64"},
            "mode": {
                "type": "str",
                "choices": [toolkit.AUTO, toolkit.CDI, toolkit.LEGACY],
                "default": toolkit.AUTO,
            },
            "allow_disruption": {"type": "bool", "default": False},
            "planned": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    params = module.params
    tree = Tree(facts.ROOT)
    try:
        host = facts.read_host(module.run_command, read_driver(tree), params["planned"] if module.check_mode else {})
    except (ValueError, KeyError, TypeError) as error:
        module.fail_json(
            msg=f"{toolkit.RECORD}, which the role wrote itself, is damaged ({error}): restore or remove it. Nothing was changed."
        )
    present = params["state"] == "present"
    plan = toolkit.plan_present(host, params) if present else toolkit.plan_absent(host, params)
    if plan.install and not plan.requirements:
        available = facts.read_available(params["repository"]["url"], params["architecture"])
        plan = toolkit.plan_present(dataclasses.replace(host, available=available), params)
    key = read_key(tree, toolkit.KEY, params["repository"]["fingerprints"]) if present else ""
    wanted = {entry["path"]: entry["content"] for entry in plan.package_files if "content" in entry}
    removed = [entry["path"] for entry in plan.package_files if "content" not in entry]
    module.exit_json(
        changed=False,
        **dataclasses.asdict(plan),
        key=key,
        package_files_due=is_due(tree, facts.PACKAGE_SET, {**wanted, toolkit.KEY: key}, removed),
        devices=list(host.refresh.devices),
    )


if __name__ == "__main__":
    main()
