# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The option of modules that plan with NVIDIA's repositories; `REPOSITORY_OPTIONS` of `_nvidia.cuda_facts` is its specification."""

    DOCUMENTATION = r"""
options:
  repository:
    description:
      - A mirror of NVIDIA's repositories.
    type: dict
    default: {}
    suboptions:
      url:
        description: Address of the folder that contains C(debian13/x86_64) and the other systems.
        type: str
      keyring_sha256:
        description: SHA-256 of the package C(cuda-keyring), by directory such as C(debian13). Needed if it is not NVIDIA's, or unknown.
        type: dict
"""
