# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytes of weights by `quantization_config`."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import quantized
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal


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
    ],
)
def test_bytes_of_a_weight(config: Any, size: float) -> None:
    assert quantized.weight_bytes(config) == pytest.approx(size, abs=0.001)


@pytest.mark.parametrize("config", [5, "gptq", {"quant_method": "new"}, {"quant_method": "gptq", "bits": 5}])
def test_other_methods_are_refused(config: Any) -> None:
    with pytest.raises(Refusal, match="quantization_config"):
        quantized.weight_bytes(config)
