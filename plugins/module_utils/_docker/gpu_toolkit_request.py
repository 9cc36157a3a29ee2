# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The types of a request for NVIDIA's Container Toolkit."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Planned
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.nvidia_container_toolkit_options import (
    NvidiaContainerToolkitOptions,
)


class Repository(t.TypedDict):
    """NVIDIA's repository, as the context of the role completes the option."""

    url: str
    key_url: str
    fingerprints: list[str]


class Params(NvidiaContainerToolkitOptions):
    """A request: the options, and what ``__nvidia_container_toolkit_context`` adds. There, ``repository`` is complete."""

    architecture: str
    allow_disruption: bool
    planned: Planned
