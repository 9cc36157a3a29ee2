# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bytes of a weight that a `quantization_config` describes. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import wording
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

# NF4 with double quantization: four bits, one byte for each 64 weights, and four bytes for each 256 of these bytes (QLoRA, section 3).
NF4_TWICE = (4 + 8 / 64 + 32 / (64 * 256)) / 8
NF4 = (4 + 32 / 64) / 8
# Four bits and a scale of eight bits for each 32 weights (OCP, microscaling formats).
MXFP4 = (4 + 8 / 32) / 8
# Methods that describe the weights of groups of layers, each by its bits and scales.
_DESCRIBED = ("compressed-tensors", "modelopt")
# Without groups, by the algorithm: NVFP4 has a scale of eight bits for each 16 weights.
_ALGORITHMS = {"FP8": 1.0, "NVFP4": (4 + 8 / 16) / 8}
_GROUPED = ("gptq", "awq", "auto-round", "hqq")


def weight_bytes(config: t.Any) -> float:
    """Return the bytes of a weight of a linear layer; 0 where it has the type of the others.

    :raises Refusal: the method is unknown.
    """
    if config in (None, {}, False):
        return 0.0
    if not isinstance(config, dict):
        raise Refusal(f"`model`: its quantization_config is {wording.short(config)}: give the mapping of the model")
    method = str(config.get("quant_method", "bitsandbytes" if "load_in_4bit" in config else ""))
    if method == "bitsandbytes":
        if config.get("load_in_4bit"):
            return NF4_TWICE if config.get("bnb_4bit_use_double_quant") else NF4
        return 1.0 if config.get("load_in_8bit") else 0.0
    if method in ("fp8", "fbgemm_fp8"):
        return 1.0
    if method in _DESCRIBED:
        return _described(config)
    if method == "mxfp4":
        return MXFP4
    bits, group = config.get("bits", config.get("w_bit", config.get("nbits"))), config.get("group_size", 128)
    if method in _GROUPED and bits in (2, 3, 4, 8):
        # A scale of 16 bits and a zero of *bits* for each group; -1 is one group for a whole row.
        return (bits + (16 + bits) / (group if isinstance(group, int) and group > 0 else 4096)) / 8
    raise Refusal(
        f"`model`: its quantization_config has the method {wording.name(method) or 'of no name'}: known are bitsandbytes, fp8, mxfp4, "
        f"{', '.join((*_DESCRIBED, *_GROUPED))}; remove the field to estimate the model in 16 bits"
    )


def _described(config: t.Mapping[str, t.Any]) -> float:
    """Return the bytes of a weight where each group of layers describes its own.

    :raises Refusal: they differ, or have no description that is known.
    """
    groups = config.get("config_groups")
    if not groups:
        found = {_ALGORITHMS.get(str(config.get("quant_algo")))}
    else:
        rows = groups.values() if isinstance(groups, dict) else [None]
        found = {_by_bits(row.get("weights")) if isinstance(row, dict) else None for row in rows}
    size = found.pop() if len(found) == 1 else None
    if size is None:
        raise Refusal(
            "`model`: its quantization_config has weights of several sizes, or of one that is not known: "
            "remove the field to estimate the model in 16 bits"
        )
    return size


def _by_bits(weights: t.Any) -> float | None:
    if weights is None:
        return 0.0
    bits, group = (weights.get("num_bits"), weights.get("group_size")) if isinstance(weights, dict) else (None, None)
    if bits not in (4, 8):
        return None
    if not isinstance(group, int) or group <= 0:
        return bits / 8
    # Scales of floats have eight bits, those of integers 16, and a zero beside where both ends of their range differ.
    scale = 8 if weights.get("type") == "float" else 16 + (0 if weights.get("symmetric", True) else bits)
    return (bits + scale / group) / 8
