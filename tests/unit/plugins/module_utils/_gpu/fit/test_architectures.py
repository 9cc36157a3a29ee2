# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of architectures."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import architectures, families


@pytest.mark.parametrize("name", architectures.FAMILIES)
def test_sizes_of_an_architecture_are_those_of_a_model(name: str) -> None:
    family = architectures.FAMILIES[name]
    assert set(family.fields.values()) <= {*families.Model._fields, "expert_inner"}
    assert family.like in architectures.FAMILIES
    # What layers that were counted stand for is said.
    assert not architectures.FAMILIES[family.like].nearby


def test_defaults_are_of_architectures() -> None:
    assert set(architectures.DEFAULTS) <= set(architectures.FAMILIES)
