# SPDX-License-Identifier: GPL-3.0-or-later
"""What the measuring program says, as gpu_accept reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import verdict
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.workers import Outcome


def not_measured(failed: dict[str, Any], remedies: Sequence[str]) -> list[str]:
    """Return those of some words that the next step has, where a program ended before it measured."""
    outcome = Outcome(4, [{"event": "failed", "step": None, **failed}])
    found = verdict.failure(outcome, "/opt/conda/bin/python")
    assert found
    return [word for word in remedies if word in found[1]]
