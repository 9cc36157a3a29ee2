# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What kernels do, what a card does, and the seconds that follow. Pure."""

from __future__ import annotations

import typing as t


class Rates(t.NamedTuple):
    """What a card does: TFLOPS in large products, GB/s in copies. *basis* is baseline or sheet.

    *cores* are multiprocessors, times their clock in GHz; 0 is no limit.
    """

    bf16: float
    tf32: float
    fp32: float
    copy: float
    basis: str
    cores: float = 0.0


class Load(t.NamedTuple):
    """What a card does, as for large products and copies: operations with tensor cores of the dtype, without them, and bytes.

    *beside* are bytes that products read and write while they calculate. *cycles* are those of one multiprocessor for kernels that
    it limits, while they move *beside*.
    """

    tensor: float = 0.0
    plain: float = 0.0
    moved: float = 0.0
    beside: float = 0.0
    cycles: float = 0.0

    def times(self, factor: float) -> Load:
        """Return a multiple."""
        return Load(*(part * factor for part in self))

    def plus(self, *others: Load) -> Load:
        """Return the sum."""
        return Load(*(sum(parts) for parts in zip(self, *others)))


class Times(t.NamedTuple):
    """Seconds by what limits them."""

    products: float = 0.0
    moving: float = 0.0
    cycles: float = 0.0

    def plus(self, *others: Times) -> Times:
        """Return the sum."""
        return Times(*(sum(parts) for parts in zip(self, *others)))


def seconds(load: Load, rates: Rates, dtype: str) -> Times:
    """Return the seconds of a load: of products, bytes beside them, and cycles the longest hides the others."""
    tensor = rates.tf32 if dtype == "fp32" else rates.bf16
    products = load.tensor / (tensor * 1e12) + load.plain / (rates.fp32 * 1e12)
    beside, moving = load.beside / (rates.copy * 1e9), load.moved / (rates.copy * 1e9)
    cycles = load.cycles / (rates.cores * 1e9) if rates.cores else 0.0
    longest = max(products, beside, cycles)
    if products == longest:
        return Times(products, moving)
    return Times(0.0, moving + beside) if beside == longest else Times(0.0, moving, cycles)
