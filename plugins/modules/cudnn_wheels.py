#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cudnn_wheels
short_description: Install cuDNN's headers and libraries from NVIDIA's wheels
description:
  - Downloads the wheels C(nvidia-cudnn-cu12) and C(nvidia-cudnn-cu13) with pip, which refuses every file whose SHA-256 is not
    listed, and unpacks them under C(/opt/cudnn).
  - The first wheel is the default. Compilers, linkers and C(pkg-config) find it through links in C(/usr/local).
  - Each step is a rename. Until a wheel is complete, what was installed before stays in use.
  - Other files in C(/opt/cudnn) stay. If one has a name that is needed, the module fails and names it.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - Nothing is downloaded, so the links of a wheel that is not there yet are not listed.
  diff_mode:
    support: full
options:
  wheels:
    description:
      - The wheels to install, the default first. All others that this module has installed are removed. An empty list removes all.
    type: list
    elements: dict
    required: true
    suboptions:
      cuda:
        description: Major version of CUDA.
        type: int
        required: true
      version:
        description: Version of the wheel.
        type: str
        required: true
      sha256:
        description: SHA-256 of the wheel, for each kind of machine that it is made for.
        type: list
        elements: str
        required: true
  index_url:
    description:
      - Package index to use. Empty leaves that to pip's own configuration.
    type: str
    default: ""
seealso:
  - module: rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Install cuDNN for CUDA 13
  rigwright.workstation.cudnn_wheels:
    wheels:
      - cuda: 13
        version: 9.12.0.46
        sha256: [f3befad533e234069eb61ae0d12cb7aa8af0ccf36f28c1d4273cc0005d990de0]
"""

RETURN = r"""
directories:
  description: The directories under C(/opt/cudnn) in use, the default first.
  returned: success
  type: list
  elements: str
  sample: [cuda13-9.12.0.46]
"""


from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Spec
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cudnn_apply import run


def main() -> None:
    wheel: Spec = {
        "cuda": {"type": "int", "required": True},
        "version": {"type": "str", "required": True},
        "sha256": {"type": "list", "elements": "str", "required": True},
    }
    module = HostModule(
        argument_spec={
            "wheels": {"type": "list", "elements": "dict", "required": True, "options": wheel},
            "index_url": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    with module_lock(module, "cudnn_wheels"):
        run(module)


if __name__ == "__main__":
    main()
