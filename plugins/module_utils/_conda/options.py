# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of an environment of conda_environment, which the role conda has, too."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._conda.plan import AUTO
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Spec

ENVIRONMENT: Spec = {
    "name": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "packages": {"type": "list", "elements": "str", "default": []},
    "channels": {"type": "list", "elements": "str"},
    "cuda": {"type": "str", "default": AUTO},
    "lock": {"type": "str", "default": ""},
    "pip": {"type": "list", "elements": "str", "default": []},
    "generation": {"type": "int", "default": 0},
    "update": {"type": "bool", "default": False},
}
