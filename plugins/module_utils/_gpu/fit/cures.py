# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What would make a job fit on a card: options in the order of what they cost, each with the bytes that it saves. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import memory
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.request import Request

# What changes no result comes first, then what makes steps slower, then what trains something else.
_CURES: tuple[tuple[str, dict[str, t.Any]], ...] = (
    ("--chunked-loss", {"chunked_loss": True}),
    ("--optimizer-in-backward", {"optimizer_in_backward": True}),
    ("--checkpointing", {"checkpointing": True}),
    ("--optimizer adamw_8bit", {"optimizer": "adamw_8bit"}),
    ("--dtype bf16", {"dtype": "bf16"}),
    ("--offload optimizer", {"offload": "optimizer"}),
    ("--task lora", {"task": "lora", "optimizer_in_backward": False}),
    ("--task qlora", {"task": "qlora", "optimizer_in_backward": False}),
)


class Cure(t.TypedDict):
    """An option, and what it saves after those before it."""

    option: str
    saves_bytes: int


def _possible(request: Request, change: t.Mapping[str, object]) -> bool:
    model = request.model
    if not request.trains or model is None:
        return False
    if "chunked_loss" in change:
        return model.logits > 0
    if "optimizer_in_backward" in change and "task" not in change:
        return not request.adapters and request.sharing == "none"
    if "optimizer" in change:
        return request.optimizer.startswith(("adamw", "paged_adamw"))
    if change.get("task") == "lora":
        return not request.adapters
    if change.get("task") == "qlora":
        return model.experts == 1 and not model.weight_bytes
    return not ("dtype" in change and request.weight == 2)


def cures(request: Request, basis: str, available: int) -> list[Cure]:
    """Return options, one after the other, until the whole interval fits; each with what it saves after those before it.

    The last may be a smaller batch, which is named where nothing else is left over or enough.
    """
    need = memory.estimate(request, basis)
    found: list[Cure] = []
    for option, change in _CURES:
        if need.high <= available:
            return found
        if not _possible(request, change):
            continue
        changed = request._replace(**change)
        smaller = memory.estimate(changed, basis)
        # What saves less than a hundredth is no cure.
        if smaller.high < 0.99 * need.high:
            found.append({"option": option, "saves_bytes": need.high - smaller.high})
            request, need = changed, smaller
    while need.high > available and request.batch > 1:
        changed = request._replace(batch=request.batch // 2)
        smaller = memory.estimate(changed, basis)
        found = [
            *(row for row in found if not row["option"].startswith("--batch")),
            {"option": f"--batch {changed.batch}", "saves_bytes": need.high - smaller.high},
        ]
        request, need = changed, smaller
    return found if need.high <= available else []
