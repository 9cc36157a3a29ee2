# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a job needs on each card: the verdict, the largest batch, the speed. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import cures, memory, speed, wording
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.cards import Card
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.load import Rates
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.request import LIMITS, Request
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.rows import Answer, CardRow
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

Need = t.Callable[[Request], memory.Memory]

GIB = 2**30
# Tests of gpu_accept's baseline that give the rates of a card.
_TESTS = {"bf16": "matmul_bf16", "tf32": "matmul_tf32", "fp32": "matmul_fp32", "copy": "copy"}


def measured_rates(card: Card, baseline: t.Any) -> Rates:
    """Return the rates of gpu_accept's baseline; what it lacks comes from the data sheet.

    :raises Refusal: it is no baseline.
    """
    tests = baseline.get("tests") if isinstance(baseline, dict) else None
    if not isinstance(tests, dict):
        raise Refusal(
            "`baseline` is no baseline of gpu_accept (`tests` is missing): give /var/lib/rigwright_gpu_accept/<uuid>.json"
        )
    name = baseline.get("name")
    if isinstance(name, str) and not card.is_called(name):
        raise Refusal(f"`baseline` is of {wording.name(name)}, and not of {card.name}: name its card with `card`")
    found: dict[str, float] = {}
    for name, test in _TESTS.items():
        row = tests.get(test)
        value = row.get("value") if isinstance(row, dict) else None
        if value is None:
            continue
        # A comparison with NaN is never true. No card has a millionth of these rates, or a million times as much.
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1e-2 <= value <= 1e6:
            raise Refusal(
                f"`baseline`: the value of {test} is {wording.short(value)}: measure the card with gpu_accept again"
            )
        found[name] = float(value)
    rates = Rates(**{**card.rates()._asdict(), **found})
    return rates._replace(basis="baseline" if {"bf16", "copy"} <= set(found) else "sheet")


def verdict(need: memory.Memory, available: int) -> str:
    """Return yes, no, or tight where the memory is within the interval."""
    if need.high <= available:
        return "yes"
    return "no" if need.low > available else "tight"


def largest_batch(request: Request, need: Need, available: int) -> int:
    """Return the largest batch whose whole interval fits; 0 where not even one does."""
    if need(request._replace(batch=1)).high > available:
        return 0
    low, high = 1, 2
    while high <= LIMITS["batch"] and need(request._replace(batch=high)).high <= available:
        low, high = high, high * 2
    high = min(high, LIMITS["batch"] + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if need(request._replace(batch=middle)).high <= available else (low, middle)
    return low


def on_card(
    request: Request,
    card: Card,
    need: Need,
    baseline: t.Any = None,
    available: int | None = None,
    basis: str = "",
) -> CardRow:
    """Return verdict, largest batch and speed of a job on one card."""
    memory_bytes = card.bytes if available is None else available
    amount = need(request)
    rates = measured_rates(card, baseline) if baseline is not None else card.rates()
    fast = speed.predict(request, rates, card.power_w)
    notes = []
    if request.dtype in ("bf16", "amp") and card.tflops("bf16") is None:
        notes.append(f"{card.name} has no units for bf16: use fp16. The speed is that of fp16")
    fits = verdict(amount, memory_bytes)
    ways = cures.cures(request, memory.basis_of(request), memory_bytes) if fits != "yes" and basis != "traced" else []
    if ways:
        steps = ", ".join(f"{way['option']} (saves {way['saves_bytes'] / GIB:.1f} GiB)" for way in ways)
        notes.append(f"on {card.name} it surely fits with {steps}")
    prompt = speed.prompt_s(request, rates)
    if prompt is not None:
        notes.append(
            f"on {card.name} the prompt's own pass takes {significant(prompt):g} s before the first new token, and is not in the speed"
        )
    if request.offload != "none":
        notes.append("the host's part of the speed is that of 16 cores and PCIe 5: others differ by its ratio")
    if request.optimizer.startswith("paged_"):
        notes.append(
            "the state of the paged optimizer is not counted: the driver moves it to the host where memory is short"
        )
    if request.all_reduce_gb_s:
        single = request._replace(gpus=1, sharing="none", all_reduce_gb_s=0.0)
        faster = fast.rate / speed.predict(single, rates).rate
        notes.append(
            f"{request.gpus} GPUs are {significant(faster):g} times as fast as one, with the measured all-reduce"
        )
    elif request.gpus > 1:
        notes.append(
            "the speed does not include the time for messages between GPUs: give all_reduce_gb_s, which gpu_accept reports"
        )
    return {
        "card": card.name,
        "fits": fits,
        "memory_gib": round(memory_bytes / GIB, 1),
        "max_batch": largest_batch(request, need, memory_bytes),
        "rate": significant(fast.rate),
        "rate_low": significant(fast.rate_low),
        "rate_high": significant(fast.rate_high),
        "unit": f"{fast.unit}/s",
        "step_s": significant(fast.step_s),
        "prompt_s": None if prompt is None else significant(prompt),
        "joules": None if fast.joules is None else significant(fast.joules),
        "decides": fast.decides,
        "rates_from": rates.basis,
        "notes": notes,
    }


def significant(number: float, digits: int = 3) -> float:
    """Round a number to digits that mean something."""
    return float(f"{number:.{digits}g}")


def needs(request: Request, amount: memory.Memory, basis: str) -> Answer:
    """Return the memory of a job."""
    model = request.model
    notes = []
    if model and model.unknown:
        notes.append(f"unknown fields widen the interval: {', '.join(model.unknown)}")
    if request.gpus > 1:
        notes.append(f"memory is that of each of the {request.gpus} GPUs")
    if basis != "traced":
        notes.append(f"basis {basis}: calculated from shapes, no model was built")
    return {
        "name": request.name,
        "basis": basis,
        "need_gib": {
            "total": round(amount.total / GIB, 2),
            "low": round(amount.low / GIB, 2),
            "high": round(amount.high / GIB, 2),
            "tensors": round(amount.tensors / GIB, 2),
            "parts": {name: round(size / GIB, 3) for name, size in amount.parts.items()},
        },
        "need_bytes": {"total": amount.total, "low": amount.low, "high": amount.high, "parts": dict(amount.parts)},
        "notes": notes,
        "cards": [],
    }


def estimate(
    request: Request,
    cards: t.Sequence[Card],
    need: Need | None = None,
    basis: str = "",
    baseline: t.Any = None,
    available: int | None = None,
) -> Answer:
    """Return the whole answer for one job."""
    basis = basis or memory.basis_of(request)
    if need is None:

        def need(sized: Request) -> memory.Memory:
            return memory.estimate(sized, basis)

    found = needs(request, need(request), basis)
    found["cards"] = [on_card(request, card, need, baseline, available, basis) for card in cards]
    return found
