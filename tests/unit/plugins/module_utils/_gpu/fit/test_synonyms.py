# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of Trainer, TRL and peft."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import request, synonyms
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal


def test_every_synonym_is_of_an_option() -> None:
    assert set(synonyms.NAMES.values()) <= set(request.Request._fields)
    assert set(synonyms.OPTIMIZERS.values()) <= set(request.OPTIMIZERS)


def test_a_switch_that_is_off_changes_nothing() -> None:
    assert synonyms.translated({"bf16": False, "fp16": False, "load_in_4bit": False}) == {}
    assert synonyms.translated({"bf16": True, "dtype": None}) == {"dtype": "amp"}


def test_two_words_for_one_option_are_refused() -> None:
    with pytest.raises(Refusal, match="`dtype` is given twice, as `bf16` as well"):
        synonyms.translated({"dtype": "fp32", "bf16": True})
