"""What the heads of BERT's classes have, beside parameters that transformers counts: width 8, so a dense layer has 72."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import architectures, heads
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

BERT = architectures.FAMILIES["bert"]


@pytest.mark.parametrize(
    ("name", "given", "fields"),
    [
        ("BertForSequenceClassification", {}, {"labels": 2, "each_token": False, "head_more": 72 + 2}),
        ("BertForTokenClassification", {"num_labels": 9}, {"labels": 9, "each_token": True, "head_more": 9}),
        ("BertForQuestionAnswering", {"num_labels": 9}, {"labels": 2, "each_token": True, "head_more": 2}),
        ("BertForMultipleChoice", {}, {"labels": 1, "each_token": False, "head_more": 72 + 1}),
        ("BertForPreTraining", {}, {"head_more": 72 + 2 * 9}),
        ("BertForMaskedLM", {}, {}),
        ("BertModel", {}, {"headless": True, "head_more": 72}),
    ],
)
def test_head_of_a_class(name: str, given: dict[str, Any], fields: dict[str, Any]) -> None:
    assert heads.of("bert", BERT, {"architectures": [name], **given}, 8) == fields


@pytest.mark.parametrize("name", ["BertLMHeadModel", "BertForNothing", 3])
def test_unknown_head_is_refused(name: Any) -> None:
    with pytest.raises(Refusal, match="the heads of .* are known"):
        heads.of("bert", BERT, {"architectures": [name]}, 8)
