# SPDX-License-Identifier: GPL-3.0-or-later
"""Networks without attention: their parameters are those of torchvision."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import families, nets
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal


# Of torchvision 0.26.
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("resnet18", 11_689_512),
        ("resnet50", 25_557_032),
        ("resnext50_32x4d", 25_028_904),
        ("wide_resnet50_2", 68_883_240),
        ("vgg16", 138_357_544),
        ("vgg16_bn", 138_365_992),
    ],
)
def test_parameters_are_those_of_torchvision(name: str, parameters: int) -> None:
    assert nets.net(name, 224).parameters == parameters


def test_parameters_of_vit_are_those_of_torchvision() -> None:
    assert families.parameters(nets.transformer("vit_b_16", 224))["total"] == 86_567_656


def test_an_lstm_names_its_missing_size() -> None:
    with pytest.raises(Refusal, match="its hidden_size is None"):
        nets.lstm({"model_type": "lstm", "input_size": 4})
