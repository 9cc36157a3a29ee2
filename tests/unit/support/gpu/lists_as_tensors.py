# SPDX-License-Identifier: GPL-3.0-or-later
"""A fake of PyTorch for the memory test: tensors are lists of numbers of 64 bits with a sign."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar


def wrap(number: builtins.int) -> builtins.int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


class Words(list[Any]):
    """A tensor of one dimension."""

    device = ""

    def numel(self) -> builtins.int:
        return len(self)

    def data_ptr(self) -> builtins.int:
        return 0x7F0000000000

    def item(self) -> Any:
        return self[0]

    def fill_(self, value: Any) -> Words:
        self[:] = [value] * len(self)
        return self

    def copy_(self, other: Words, non_blocking: bool = False) -> Words:
        self[:] = other
        return self

    def cpu(self) -> Words:
        return Words(self)

    def mul_(self, factor: builtins.int) -> Words:
        self[:] = [wrap(number * factor) for number in self]
        return self

    def bitwise_xor_(self, other: Words) -> Words:
        self[:] = [wrap(number ^ two) for number, two in zip(self, other, strict=True)]
        return self

    def __rshift__(self, count: builtins.int) -> Words:
        return Words(number >> count for number in self)

    def __ne__(self, other: object) -> Words:  # type: ignore[override]
        others = other if isinstance(other, Words) else [other] * len(self)
        return Words(builtins.int(number != two) for number, two in zip(self, others, strict=True))

    __hash__ = None

    def sum(self) -> Words:
        return Words([builtins.sum(self)])

    def to(self, _kind: Any) -> Words:
        return self

    def argmax(self) -> Words:
        return Words([self.index(max(self))])

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return found if isinstance(key, slice) else Number(found)


class Number(builtins.int):
    def item(self) -> builtins.int:
        return builtins.int(self)


class Torch:
    """Fake PyTorch. *fault* changes the memory after each write; *room* is the memory that can be allocated."""

    int64 = int32 = uint8 = None
    tensors: ClassVar[list[Words]] = []

    def __init__(
        self, free: builtins.int, fault: Callable[[list[Words]], None] | None = None, room: builtins.int = 1 << 62
    ):
        self.fault, self.room = fault, room
        Torch.tensors.clear()
        self.cuda = SimpleNamespace(
            empty_cache=lambda: None, mem_get_info=lambda: (free, 2 * free), OutOfMemoryError=MemoryError
        )

    def empty(self, count: builtins.int, **_options: Any) -> Words:
        self.room -= 8 * count
        if self.room < 0:
            raise MemoryError
        self.tensors.append(Words([0] * count))
        return self.tensors[-1]

    def arange(self, begin: builtins.int, end: builtins.int, **_options: Any) -> Words:
        return Words(range(begin, end))

    def settle(self) -> None:
        if self.fault:
            self.fault(self.tensors)
