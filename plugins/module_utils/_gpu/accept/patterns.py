# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The memory test: fill a GPU's memory with patterns and compare every word. The measuring program runs it, and passes PyTorch."""

from __future__ import annotations

import time
import typing as t

# The largest piece of memory with a pattern. A comparison takes some more memory.
LEAST_BYTES, PIECE_BYTES = 1 << 20, 1 << 29


def signed(number: int) -> int:
    """Return 64 bits as PyTorch has them: with a sign."""
    return number - (1 << 64) if number >= 1 << 63 else number


# Next to constants, patterns by the place of a word: they find an address line that is stuck.
CONSTANTS = {
    "zeros": 0,
    "ones": signed((1 << 64) - 1),
    "0x55": signed(0x5555555555555555),
    "0xaa": signed(0xAAAAAAAAAAAAAAAA),
}
PATTERNS = (*CONSTANTS, "address", "random")


def pattern_of(torch: t.Any, pattern: str, begin: int, count: int, device: str) -> t.Any:
    """Return the pattern of so many words from this one on: a number, or a tensor."""
    if pattern in CONSTANTS:
        return CONSTANTS[pattern]
    tensor = torch.arange(begin, begin + count, dtype=torch.int64, device=device)
    if pattern == "random":
        # The steps of splitmix64 (Steele, Lea, Flood 2014).
        tensor.mul_(signed(0x9E3779B97F4A7C15))
        tensor.bitwise_xor_(tensor >> 30).mul_(signed(0xBF58476D1CE4E5B9))
        tensor.bitwise_xor_(tensor >> 27)
    return tensor


def first_wrong(pattern: str, offset: int, address: int, expected: int, found: int) -> dict[str, object]:
    """Describe a wrong word. Its *offset* is in the tested memory, its *address* is CUDA's."""
    differing = (expected ^ found) & ((1 << 64) - 1)
    return {
        "pattern": pattern,
        "offset": offset,
        "address": f"{address:#x}",
        "expected": f"{expected & ((1 << 64) - 1):#018x}",
        "found": f"{found & ((1 << 64) - 1):#018x}",
        "bits": [bit for bit in range(64) if differing >> bit & 1],
    }


def take_memory(torch: t.Any, wanted: int, device: str) -> list[t.Any]:
    """Allocate memory in pieces, up to the wanted bytes. Comparisons need some of the rest."""
    count = max(64, -(-wanted // PIECE_BYTES))
    piece = max(LEAST_BYTES, wanted // count) // 8
    pieces: list[t.Any] = []
    while sum(taken.numel() for taken in pieces) + piece <= wanted // 8:
        try:
            pieces.append(torch.empty(piece, dtype=torch.int64, device=device))
        except torch.cuda.OutOfMemoryError:
            break
    return pieces


def fill_memory(gpu: t.Any, share: float, emit: t.Callable[..., None]) -> None:
    """Fill most of the free memory with one pattern after the other, and compare every word."""
    torch = gpu.torch
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    begun = time.monotonic()
    pieces = take_memory(torch, int(free * share), gpu.device)
    count = pieces[0].numel() if pieces else 0
    wrong, first, moved = 0, None, 0
    for pattern in PATTERNS:
        for number, piece in enumerate(pieces):
            expected = pattern_of(torch, pattern, number * count, count, gpu.device)
            piece.fill_(expected) if isinstance(expected, int) else piece.copy_(expected)
        gpu.synchronize()
        for number, piece in enumerate(pieces):
            expected = pattern_of(torch, pattern, number * count, count, gpu.device)
            differs = piece != expected
            different = int(differs.sum().item())
            if different and first is None:
                place = int(differs.to(torch.uint8).argmax().item())
                right = expected if isinstance(expected, int) else int(expected[place].item())
                found = int(piece[place].item())
                offset = (number * count + place) * 8
                first = first_wrong(pattern, offset, piece.data_ptr() + place * 8, right, found)
            wrong += different
            moved += 2 * 8 * count
        emit("filled", pattern=pattern, wrong=wrong)
    seconds = time.monotonic() - begun
    facts = {
        "free_bytes": free,
        "total_bytes": total,
        "tested_bytes": 8 * count * len(pieces),
        "patterns": list(PATTERNS),
    }
    emit("memory", **facts, seconds=seconds, gb_s=moved / seconds / 1e9, wrong=wrong, first=first)
    del pieces
    torch.cuda.empty_cache()
