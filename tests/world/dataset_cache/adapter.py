# SPDX-License-Identifier: GPL-3.0-or-later
"""Hand lists of checksums to dataset-cache."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache import text as texts

REFUSALS = (ValueError,)


def sums(text: str) -> dict[str, str]:
    """Return the beginning of each file's sum."""
    return {name: digest[:8] for name, digest in texts.read_sums(text.encode("utf-8", "surrogateescape")).items()}
