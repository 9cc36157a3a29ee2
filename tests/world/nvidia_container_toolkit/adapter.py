# SPDX-License-Identifier: GPL-3.0-or-later
"""Hand the cases to what reads and plans the toolkit for containers."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.rigwright.workstation.plugins.module_utils._docker import gpu_toolkit, gpu_toolkit_facts

URL = "https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH)"


def other_sources(files: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the sources of the host that are replaced, and those that are refused."""
    replaced, refused = gpu_toolkit.other_sources(gpu_toolkit.Host(sources=files), URL)
    return {"replaced": replaced, "refused": refused}


def devices(spec: str) -> list[str]:
    return list(gpu_toolkit_facts.names_in(spec))


def settings(text: str, unit: str = "") -> dict[str, str]:
    """Return the variables of the refresh service: those of its unit, and of its file of variables."""
    return gpu_toolkit_facts.settings_of(text, unit)
