# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several jobs on one card at once: whether they fit, and what that costs. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import memory, speed
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.cards import GIB, Card
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.request import Request
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.rows import Pair

# Slowdown of each of two programs on one card, measured on an H100 (docs/gpu_sharing.md): time-sliced, and under MPS.
SHARED = {"full": (2.2, 1.8), "idle": (1.1, 1.0), "mixed": (1.9, 1.1)}
_ADVICE = {
    "full": "each fills the card: run them one after the other",
    "idle": "the host limits them: they hardly slow each other down",
    "mixed": "share with MPS: one of them leaves the card idle",
}


def together(requests: t.Sequence[Request], card: Card, available: int | None = None) -> Pair:
    """Return whether jobs fit on one card at once, and what that costs by the measured table of gpu_sharing.

    :param available: bytes of the card, where they are known better than by the table of cards.
    """
    size = card.bytes if available is None else available
    needs = [memory.estimate(request, memory.basis_of(request)) for request in requests]
    low, high = (sum(amounts) for amounts in zip(*((need.low, need.high) for need in needs)))
    idle = [speed.predict(request, card.rates()).decides == "host" for request in requests]
    kind = "idle" if all(idle) else "mixed" if any(idle) else "full"
    fits = "yes" if high <= size else "no" if low > size else "tight"
    return {
        "jobs": [request.name for request in requests],
        "card": card.name,
        "fits": fits,
        "kind": kind,
        "need_gib": {"low": round(low / GIB, 2), "high": round(high / GIB, 2)},
        # The table has pairs.
        "slowdown": dict(zip(("time_sliced", "mps"), SHARED[kind])) if len(requests) == 2 else None,
        "advice": _ADVICE[kind] if fits != "no" else "their memory does not fit at once: run them one after the other",
        "source": "measured on an H100, docs/gpu_sharing.md",
    }
