#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_repository
short_description: Add NVIDIA's CUDA repository to apt, or remove it
description:
  - Checks the SHA-256 of the package C(cuda-keyring) and installs it. It has the repository's key, its source and a pin of
    priority 600.
  - The repository has to answer with an index that apt trusts. Otherwise everything is undone, so that apt keeps working for
    the rest of the host. The message names the repository and the error of apt.
  - Refuses, also in check mode, what apt would not accept together with the host's other sources, such as another C(Signed-By) for
    the same address. With that, every call of apt on the host would fail.
  - Waits up to 300 seconds for other processes that hold a lock of apt or dpkg.
  - Several roles may use it on one host. The last of them removes what this module has set up, and restores a source of the same
    name that existed before.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - The repository is not asked, so a broken index shows only when it is set up.
  diff_mode:
    support: full
options:
  user:
    description:
      - Name of the user of the repository, usually the role. It is no account of the system.
    type: str
    required: true
  state:
    description:
      - V(absent) ends the use by this O(user).
    type: str
    choices: [present, absent]
    default: present
  url:
    description:
      - Address of the repository for this system and machine, the folder that holds C(Packages.gz) and the keyring package.
      - Required if O(state=present), as are O(directory), O(architecture), O(keyring) and O(keyring_sha256).
    type: str
  directory:
    description:
      - NVIDIA's name of the system, such as V(debian13).
    type: str
  architecture:
    description:
      - NVIDIA's name of the machine, V(x86_64) or V(sbsa).
    type: str
  keyring:
    description:
      - File name of the keyring package.
    type: str
  keyring_sha256:
    description:
      - SHA-256 of the keyring package, all 64 digits. May be empty where the package is installed already.
    type: str
  timeout:
    description:
      - Seconds to wait for a server that does not answer.
    type: int
    default: 30
seealso:
  - module: rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Set up the CUDA repository
  rigwright.workstation.cuda_repository:
    user: cuda
    url: https://mirror.example.org/compute/cuda/repos/debian13/x86_64
    directory: debian13
    architecture: x86_64
    keyring: cuda-keyring_1.1-1_all.deb
    keyring_sha256: dd28f1f6ba0038180d6b23f846cefca1e3de4c9327751665241370bacea452a1
"""

RETURN = r"""
source:
  description: The source file of the repository. With O(state=absent), the one that stays or is restored.
  returned: success
  type: str
  sample: /etc/apt/sources.list.d/cuda-debian13-x86_64.list
"""


from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_repository import run


def main() -> None:
    needed = ("url", "directory", "architecture", "keyring", "keyring_sha256")
    module = HostModule(
        argument_spec={
            "user": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "url": {"type": "str"},
            "directory": {"type": "str"},
            "architecture": {"type": "str"},
            "keyring": {"type": "str", "no_log": False},
            "keyring_sha256": {"type": "str", "no_log": False},
            "timeout": {"type": "int", "default": 30},
        },
        required_if=[("state", "present", needed)],
        supports_check_mode=True,
    )
    with module_lock(module, "cuda_repository"):
        run(module)


if __name__ == "__main__":
    main()
