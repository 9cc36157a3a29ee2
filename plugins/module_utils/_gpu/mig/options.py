# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of gpu_mig, which the role gpu_sharing takes, too."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Spec

LAYOUT: Spec = {
    "profile": {"type": "str", "required": True},
    "count": {"type": "int", "default": 1},
    "start": {"type": "int"},
    "compute_instances": {"type": "list", "elements": "str"},
}
MIG_PARTED: Spec = {
    "config": {"type": "dict", "required": True},
    "selected": {"type": "str", "required": True},
}
OPTIONS: Spec = {
    "devices": {"type": "list", "elements": "str"},
    "mode": {"type": "str", "choices": ["enabled", "disabled", "unchanged"], "default": "unchanged"},
    "layout": {"type": "list", "elements": "dict", "options": LAYOUT},
    "mig_parted": {"type": "dict", "options": MIG_PARTED},
    "when_busy": {"type": "str", "choices": ["fail", "skip", "wait"], "default": "fail"},
    "busy_timeout": {"type": "int", "default": 300},
    "allow_reset": {"type": "str", "choices": ["never", "gpu"], "default": "never"},
    "stop_services": {"type": "list", "elements": "str", "default": []},
    "keep_instances": {"type": "bool", "default": True},
    "persist": {"type": "str", "choices": ["unit", "none", "unchanged"], "default": "unit"},
    "refresh_cdi": {"type": "str", "choices": ["auto", "never"], "default": "auto"},
    "plans": {"type": "list", "elements": "dict", "default": []},
}


def with_defaults(given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return all parameters of gpu_mig: boots compare them with what is declared."""
    found = {**_defaults(OPTIONS), **given}
    if found["layout"] is not None:
        found["layout"] = [{**_defaults(LAYOUT), **row} for row in found["layout"]]
    return found


def _defaults(options: Spec) -> dict[str, t.Any]:
    return {name: option.get("default") for name, option in options.items() if not option.get("required")}
