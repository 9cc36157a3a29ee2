# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The heads of models: what a class of transformers has after its layers. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import parts, wording
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.architectures import Family
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

BARE = "Model"
_NO_POOLER = ("distilbert", "modernbert")


class Kind(t.NamedTuple):
    """A head that is not the vocabulary's. *outputs* 0 is for as many as the configuration has labels.

    *tokens*: each token has outputs; otherwise the whole sequence. *dense*: encoders have a layer as wide as the model before them.
    """

    outputs: int = 0
    tokens: bool = False
    dense: bool = False


# By the end of the name of a class.
KINDS = {
    "ForSequenceClassification": Kind(dense=True),
    "ForTokenClassification": Kind(tokens=True),
    "ForQuestionAnswering": Kind(2, tokens=True),
    "ForMultipleChoice": Kind(1, dense=True),
}


class Fields(t.TypedDict, total=False):
    """The fields of a model about its head."""

    labels: int
    each_token: bool
    head_more: int
    headless: bool


def of(name: str, family: Family, given: JsonObject, width: int) -> Fields:
    """Return the fields of a model about its head: labels, whether it has any head, and the head's other parameters.

    :raises Refusal: the head of its class is unknown.
    """
    encoder = family.like == "bert"
    kinds = (
        {} if family.classes else {end: kind for end, kind in KINDS.items() if encoder or end != "ForMultipleChoice"}
    )
    ends = (*family.heads, *kinds)
    # Logits are a large part of the memory, and another class has another head.
    classes = given.get("architectures") or list(family.heads)
    if not isinstance(classes, list) or not all(str(each).endswith(ends) or _is_bare(str(each)) for each in classes):
        raise Refusal(
            f"`model`: architectures is {wording.short(classes)}, and the heads of {' or '.join((*ends, BARE))} are known: "
            "remove the field to estimate that, or give a Python entry point, which is traced"
        )
    dense = (width + 1) * width
    first = str(classes[0])
    if not first.endswith(ends):
        # A pooler, which BERT's relatives and image models have.
        return {"headless": True, "head_more": dense * ((encoder and name not in _NO_POOLER) or family.classes)}
    if family.classes:
        # One that was distilled has a second head, for what its teacher says.
        labels = _labels(given) * (2 if first.endswith("WithTeacher") else 1)
        return {"labels": labels, "head_more": labels}
    if first.endswith("ForPreTraining"):
        # Besides words that are missing, whether a sentence follows another.
        return {"head_more": dense + 2 * (width + 1)}
    kind = next((kind for end, kind in kinds.items() if first.endswith(end)), None)
    if kind is None:
        return {}
    labels = kind.outputs or _labels(given)
    biases = labels * (encoder or kind.tokens)
    before = encoder and (kind.dense or name == "modernbert")
    return {"labels": labels, "each_token": kind.tokens, "head_more": biases + dense * before}


def _is_bare(name: str) -> bool:
    return name.endswith(BARE) and not name.endswith(("HeadModel", "HeadsModel"))


def _labels(given: JsonObject) -> int:
    labels = given.get("id2label")
    return len(labels) if isinstance(labels, dict) else parts.whole(given.get("num_labels", 2), "num_labels")
