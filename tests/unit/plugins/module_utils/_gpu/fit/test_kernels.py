# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels of layers, and the bytes that they move."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import families, kernels, request


@pytest.mark.parametrize("name", families.FAMILIES)
def test_kernels_of_every_family_are_counted(name: str) -> None:
    model = families.Model(name, 2048, 8192, 16, 32, 8, 64, 1000, windows=(None,) * 16)
    assert kernels.count(model) > 16 * 10
    for dtype in request.DTYPES:
        forward, backward = kernels.moved(model, dtype)
        assert 0 < forward < backward


def test_products_and_adapters_of_a_layer() -> None:
    model = families.Model("llama", 2048, 8192, 1, 32, 8, 64, 1000, windows=(None,))
    # Queries and output of 2048, keys and values of 512, and three layers to or from 8192.
    assert kernels.sides(model) == 2 * (2048 + 2048) + 2 * (2048 + 512) + 3 * (2048 + 8192)
    assert kernels.count(model, adapters=2) == pytest.approx(kernels.count(model) + 2 * kernels.ADAPTER_KERNELS)
    plain, adapted = (kernels.moved(model, "bf16", adapters) for adapters in ((), [(2048, 512)]))
    assert adapted[0] - plain[0] == 10 * 2048 + 28 * 512
