# SPDX-License-Identifier: GPL-3.0-or-later
"""Experts, latent and linear attention."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import parts
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal


def test_the_first_layers_of_a_mixture_may_be_dense() -> None:
    sizes = {"inner": 100, "expert_inner": 10, "layers": 4}
    found = parts.experts("deepseek_v3", {"first_k_dense_replace": 1, "n_shared_experts": 2}, sizes)
    assert (found["dense_layers"], found["dense_inner"], found["shared_inner"], sizes["inner"]) == (1, 100, 20, 10)


@pytest.mark.parametrize("value", [-1, "2", 2.5, True, 10**30])
def test_sizes_that_are_none(value: Any) -> None:
    with pytest.raises(Refusal, match="give a whole number"):
        parts.experts("deepseek_v3", {"n_shared_experts": value}, {"inner": 8, "layers": 2})
    with pytest.raises(Refusal, match="give a whole number"):
        parts.whole(value, "hidden_size")


def test_a_latent_vector_stands_for_keys_and_values() -> None:
    given = {"kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 6}
    found = parts.latent(given, {"heads": 2, "width": 16})
    assert found["kept"] == 12
    assert found["attention"] == 2 * 10 * 16 + 16 * 12 + 8 + 8 * 2 * 12 + 2 * 6 * 16
