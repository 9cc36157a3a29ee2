# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Trainer of transformers, TRL and peft call the options of a job. Pure."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

NAMES = {
    "per_device_train_batch_size": "batch",
    "batch_size": "batch",
    "max_seq_length": "sequence",
    "max_length": "sequence",
    "max_new_tokens": "new_tokens",
    "gradient_checkpointing": "checkpointing",
    "lora_r": "lora_rank",
    "optim": "optimizer",
    "torch_compile": "compile",
    "use_liger_kernel": "chunked_loss",
}
OPTIMIZERS = {
    "adamw_torch": "adamw_foreach",
    "adamw_torch_fused": "adamw",
    "adamw_bnb_8bit": "adamw_8bit",
    "paged_adamw_32bit": "paged_adamw",
}
# Switches: an option and its value. Trainer's bf16 is autocast, and its weights stay in fp32.
_SWITCHES = {"bf16": ("dtype", "amp"), "fp16": ("dtype", "amp"), "load_in_4bit": ("task", "qlora")}


def translated(given: JsonObject) -> JsonObject:
    """Return options under their own names.

    :raises Refusal: one is given twice.
    """
    found: JsonObject = {}
    for name, value in given.items():
        option = NAMES.get(name, name)
        if name in _SWITCHES and isinstance(value, bool):
            if not value:
                continue
            option, value = _SWITCHES[name]
        if option in found and value is not None and found[option] is not None:
            raise Refusal(f"`{option}` is given twice, as `{name}` as well: remove one")
        if value is not None or option not in found:
            found[option] = value
    if isinstance(found.get("optimizer"), str):
        found["optimizer"] = OPTIMIZERS.get(found["optimizer"], found["optimizer"])
    return found
