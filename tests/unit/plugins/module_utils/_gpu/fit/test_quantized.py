# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytes of weights by `quantization_config`."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import quantized
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal


def described(*weights: Any) -> dict[str, Any]:
    groups = {f"group_{number}": {"weights": row, "targets": ["Linear"]} for number, row in enumerate(weights)}
    return {"quant_method": "compressed-tensors", "config_groups": groups}


@pytest.mark.parametrize(
    ("config", "size"),
    [
        (None, 0.0),
        ({"load_in_4bit": True, "bnb_4bit_use_double_quant": True}, 0.516),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 0.5625),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 1.0),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 0.5195),
        ({"quant_method": "awq", "bits": 4, "group_size": -1}, 0.5006),
        ({"quant_method": "fp8"}, 1.0),
        ({"quant_method": "mxfp4"}, 0.53125),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 0.5625),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, 1.0),
        (described({"num_bits": 8, "type": "float"}), 1.0),
        (described({"num_bits": 4, "type": "int", "group_size": 128, "symmetric": False}), 0.5195),
        (described({"num_bits": 4, "type": "float", "group_size": 16}), 0.5625),
        (described(None), 0.0),
    ],
)
def test_bytes_of_a_weight(config: Any, size: float) -> None:
    assert quantized.weight_bytes(config) == pytest.approx(size, abs=0.001)


@pytest.mark.parametrize(
    "config",
    [
        5,
        "gptq",
        {"quant_method": "new"},
        {"quant_method": "gptq", "bits": 5},
        {"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"},
        {"quant_method": "compressed-tensors"},
        {"quant_method": "compressed-tensors", "config_groups": ["group_0"]},
        described({"num_bits": 3}),
        described({"num_bits": 8}, {"num_bits": 4}),
    ],
)
def test_other_methods_are_refused(config: Any) -> None:
    with pytest.raises(Refusal, match="quantization_config"):
        quantized.weight_bytes(config)
