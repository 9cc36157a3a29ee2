# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cards of this host, with their memory and the rates that gpu_accept measured."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import baseline
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.cards import Card, find
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError, Refusal


class HostCard(t.NamedTuple):
    """A card of the host: its line in the table, its memory, and its baseline or None."""

    card: Card
    memory_bytes: int
    baseline: baseline.Baseline | None


def read_cards(directory: str) -> list[HostCard]:
    """Read the cards of the host, one of each model.

    :param directory: of gpu_accept's baselines.
    :raises Refusal: NVML reads no card, or one is not in the table.
    """
    try:
        with Nvml() as nvml:
            found: dict[tuple[str, int], HostCard] = {}
            for gpu in nvml.cards():
                if gpu.problem is not None:
                    continue
                card = find(gpu.name)
                total = int(nvml.call("nvmlDeviceGetMemoryInfo", gpu.handle).total)
                # Some names are those of two cards, which differ in their memory.
                found.setdefault((card.name, total), HostCard(card, total, baseline.read(directory, gpu.uuid)))
    except NvmlError as error:
        raise Refusal(
            f"`cards` is empty, and this host's cards cannot be read ({error}): name cards of the table"
        ) from error
    if not found:
        raise Refusal("`cards` is empty, and this host has no GPU that answers: name cards of the table")
    return list(found.values())
