#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_driver_plan
short_description: Plan the NVIDIA driver of a host, and check whether it is as planned
description:
  - Reads GPUs, kernels, packages and what is loaded (M(rigwright.workstation.gpu_host_info)), chooses source, branch, module flavour and
    scope if the user names none, simulates the change with C(apt-get --simulate), and returns what the role has to do, for
    M(rigwright.workstation.require), M(rigwright.workstation.nvidia_driver_packages), M(rigwright.workstation.config_files) and
    M(rigwright.workstation.systemd_units). Changes nothing itself.
  - Which driver serves which GPU is data of the collection (C(docs/gpu_data.md)).
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
    description: Desired state. V(present) installs the driver, V(absent) restores what the role changed.
    type: str
    choices: [present, absent]
    default: present
  host_name:
    description: Name of the host in messages.
    type: str
    default: this host
  source:
    description: Where packages come from.
    type: str
    default: auto
  branch:
    description: Driver branch.
    type: str
    default: auto
  modules:
    description: Open or closed kernel modules.
    type: str
    default: auto
  scope:
    description: For computing alone, or for a desktop as well.
    type: str
    default: auto
  gpus:
    description: PCI device ids to plan for instead of the installed cards.
    type: list
    elements: str
    default: []
  toolkits:
    description: CUDA versions that have to run.
    type: list
    elements: str
    default: []
  lock:
    description: Whether driver, libraries and kernel are held as one.
    type: bool
    default: true
  upgrade:
    description: Whether to install the newest release of the branch and the newest kernel. Refreshes apt's lists, except in check mode.
    type: bool
    default: false
  interrupt:
    description: Whether the driver is allowed to change while programs use the GPU.
    type: bool
    default: false
  ignore_build_failures:
    description: Whether to try a driver that is known not to build for the kernel.
    type: bool
    default: false
  free_bytes:
    description: Free space that a change needs, in bytes.
    type: int
    default: 10737418240
  module_options:
    description: Options of the kernel module.
    type: dict
    default: {}
  mok_password:
    description: Password with which a person confirms the signing key at the console.
    type: str
    default: ""
notes:
  - Run it as root. Another user cannot see who has the GPU open.
seealso:
  - module: rigwright.workstation.gpu_host_info
  - module: rigwright.workstation.nvidia_driver_packages
"""

EXAMPLES = r"""
- name: Plan branch 580
  rigwright.workstation.nvidia_driver_plan:
    branch: "580"
  register: plan

- name: Refuse what cannot work
  rigwright.workstation.require:
    that: "{{ plan.requirements }}"
"""

RETURN = r"""
source:
  description: Where the driver comes from.
  returned: always
  type: str
  sample: cuda_repository
branch:
  description: Its branch, 0 where none can serve.
  returned: always
  type: int
  sample: 580
modules:
  description: Its kernel modules.
  returned: always
  type: str
  sample: open
scope:
  description: What it is for.
  returned: always
  type: str
  sample: compute
reasons:
  description: Why each of them.
  returned: always
  type: list
  elements: str
  sample: ["branch 580: long term branch, supported until 2028-06"]
requirements:
  description: Requirements, as M(rigwright.workstation.require) takes it.
  returned: always
  type: list
  elements: dict
  sample: [{ok: false, variable: nvidia_driver_branch, problem: "is 42, which is unknown", remedy: "use one of auto, 580"}]
repository:
  description: What M(rigwright.workstation.cuda_repository) takes, empty when it is not needed.
  returned: always
  type: dict
  sample: {directory: debian13, architecture: x86_64}
change:
  description: The transaction, as M(rigwright.workstation.nvidia_driver_packages) takes it, empty when there is none.
  returned: always
  type: dict
  sample: {branch: 580, install: [nvidia-driver-pinning-580, nvidia-driver-cuda], remove: []}
shown:
  description: The packages before and after, a line each.
  returned: always
  type: dict
  sample: {before: "", after: "nvidia-driver-cuda 580.159.04-1\n"}
going:
  description: Packages that go with the role.
  returned: always
  type: list
  elements: str
  sample: []
pending:
  description: Whether packages or holds are not yet as planned, or dpkg has to finish some first.
  returned: always
  type: bool
  sample: true
unsettled:
  description: Whether an earlier change was cut short, waits for its proof since before a reboot, or dpkg has to finish packages first.
  returned: always
  type: bool
  sample: false
unfinished:
  description: Packages that dpkg has begun and not finished. Those of the driver always, others if apt would finish them as well.
  returned: always
  type: list
  elements: str
  sample: []
source_files:
  description: The source of the archive's components, as M(rigwright.workstation.config_files) takes it, in place before packages change.
  returned: always
  type: list
  elements: dict
  sample: []
source_pending:
  description: Whether that source is not yet as planned.
  returned: always
  type: bool
  sample: false
directories:
  description: The directories that the files need.
  returned: always
  type: list
  elements: dict
  sample: []
files:
  description: Configuration of apt, its helpers and the persistence daemon, for when the packages are as planned.
  returned: always
  type: list
  elements: dict
  sample: [{path: /etc/apt/apt.conf.d/52rigwright-nvidia-driver, content: "Unattended-Upgrade::Package-Blacklist {};\n"}]
modprobe_files:
  description: Configuration of modprobe, as M(rigwright.workstation.config_files) takes it.
  returned: always
  type: list
  elements: dict
  sample: [{path: /etc/modprobe.d/rigwright-nvidia-driver.conf, content: "blacklist nouveau\n"}]
initramfs_kernel:
  description: The kernel that boots next, whose initramfs has a copy of the configuration of modprobe; empty if it has none.
  returned: always
  type: str
  sample: 6.1.0-32-amd64
units:
  description: Units, as M(rigwright.workstation.systemd_units) takes them.
  returned: always
  type: list
  elements: dict
  sample: [{name: nvidia-persistenced.service, enabled: true}]
secure_boot:
  description: V(off), V(signed), V(enrolled), V(pending), or V(enroll) when the key has to be handed to the firmware.
  returned: always
  type: str
  sample: "off"
mok_certificate:
  description: The certificate of the key that signs the module, empty when there is none.
  returned: always
  type: str
  sample: /var/lib/dkms/mok.pub
gpus:
  description: How many NVIDIA GPUs there are.
  returned: always
  type: int
  sample: 1
reboot:
  description: Why a reboot is due.
  returned: always
  type: list
  elements: str
  sample: [driver 570.195.03 is loaded and will be replaced]
findings:
  description: What is left to do, as M(rigwright.workstation.finding) takes it.
  returned: always
  type: list
  elements: dict
  sample: [{id: nvidia_driver.reboot, status: pass, evidence: no reboot is due, remedy: ""}]
proofs:
  description: What the role promises, and whether the host fulfils it.
  returned: always
  type: list
  elements: dict
  sample: [{id: nvidia_driver.matches, status: pass, evidence: "module 580.159.04, libraries 580.159.04", remedy: ""}]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_facts import REPOSITORY_OPTIONS
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.dpkg import ENVIRONMENT
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import Stuck
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_run import plan_host

ROOT = "/"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "host_name": {"type": "str", "default": "this host"},
            "source": {"type": "str", "default": "auto"},
            "branch": {"type": "str", "default": "auto"},
            "modules": {"type": "str", "default": "auto"},
            "scope": {"type": "str", "default": "auto"},
            "gpus": {"type": "list", "elements": "str", "default": []},
            "toolkits": {"type": "list", "elements": "str", "default": []},
            "lock": {"type": "bool", "default": True},
            "upgrade": {"type": "bool", "default": False},
            "interrupt": {"type": "bool", "default": False},
            "ignore_build_failures": {"type": "bool", "default": False},
            "free_bytes": {"type": "int", "default": data.FREE_BYTES},
            "module_options": {"type": "dict", "default": {}},
            "mok_password": {"type": "str", "default": "", "no_log": True},
            "repository": {"type": "dict", "default": {}, "options": REPOSITORY_OPTIONS},
        },
        supports_check_mode=True,
    )

    def run(command: t.Sequence[str]) -> tuple[int, str, str]:
        rc, out, err = module.run_command(list(command), environ_update=ENVIRONMENT)
        return rc, out, err

    try:
        result = plan_host(Tree(ROOT), run, module.params, module.check_mode)
    except Stuck as error:
        module.fail_json(msg=f"{error}.")
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
