# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of gpu_fit for one card, which the jobs of the role gpu_sharing have, too."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Spec
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.request import (
    DTYPES,
    HALVES,
    OFFLOADS,
    OPTIMIZERS,
    TARGETS,
    TASKS,
)

JOB: Spec = {
    "model": {"type": "str", "required": True},
    "task": {"type": "str", "choices": list(TASKS), "default": "train"},
    "batch": {"type": "int", "default": 1},
    "sequence": {"type": "int"},
    "image": {"type": "int"},
    "new_tokens": {"type": "int", "no_log": False},
    "dtype": {"type": "str", "choices": list(DTYPES), "default": "bf16"},
    "optimizer": {"type": "str", "choices": list(OPTIMIZERS), "default": "adamw"},
    "checkpointing": {"type": "bool", "default": False},
    "lora_rank": {"type": "int", "default": 16},
    "lora_targets": {"type": "str", "choices": list(TARGETS), "default": "attention"},
    "channels_last": {"type": "bool", "default": False},
    "chunked_loss": {"type": "bool", "default": False},
    "optimizer_in_backward": {"type": "bool", "default": False},
    "compile": {"type": "bool", "default": False},
    "offload": {"type": "str", "choices": list(OFFLOADS), "default": "none"},
    "half": {"type": "str", "choices": list(HALVES), "default": "bf16"},
}
