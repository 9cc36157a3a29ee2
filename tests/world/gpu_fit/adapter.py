"""Ask gpu_fit for cards and models as people name them."""

from __future__ import annotations

from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import answer, cards, families, request
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

REFUSALS = (Refusal,)


def card(name: str) -> dict[str, Any]:
    found = cards.find(name)
    return {"memory_gb": found.memory_gb, "bandwidth_gb_s": found.bandwidth_gb_s, "capability": found.capability}


def parameters(config: dict[str, Any]) -> int:
    return families.parameters(families.read(config))["total"]


def fits(card: str, job: dict[str, Any]) -> str:
    found: str = answer.estimate(request.parse(job), [cards.find(card)])["cards"][0]["fits"]
    return found


def possible(card: str, job: dict[str, Any]) -> bool:
    return fits(card, job) != "no"
