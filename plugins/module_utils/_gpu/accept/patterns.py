# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Fill a GPU's memory with patterns and compare every word, for the program that measures it. PyTorch is handed in."""

from __future__ import annotations

import time
import typing as t

# Patterns lie in pieces of this size at most: what they are compared with takes some more of it.
LEAST_BYTES, PIECE_BYTES = 1 << 20, 1 << 29


def signed(number: int) -> int:
    """64 bits as PyTorch has them: with a sign."""
    return number - (1 << 64) if number >= 1 << 63 else number


# By the place of a word: a line of addresses that is stuck shows what belongs elsewhere, which no constant does.
CONSTANTS = {
    "zeros": 0,
    "ones": signed((1 << 64) - 1),
    "0x55": signed(0x5555555555555555),
    "0xaa": signed(0xAAAAAAAAAAAAAAAA),
}
PATTERNS = (*CONSTANTS, "address", "random")


def pattern_of(torch: t.Any, pattern: str, begin: int, words: int, device: str) -> t.Any:
    """What should be in so many words from this one on: a number, or a tensor."""
    if pattern in CONSTANTS:
        return CONSTANTS[pattern]
    made = torch.arange(begin, begin + words, dtype=torch.int64, device=device)
    if pattern == "random":
        # The steps of splitmix64 (Steele, Lea, Flood 2014).
        made.mul_(signed(0x9E3779B97F4A7C15))
        made.bitwise_xor_(made >> 30).mul_(signed(0xBF58476D1CE4E5B9))
        made.bitwise_xor_(made >> 27)
    return made


def first_wrong(pattern: str, offset: int, address: int, expected: int, found: int) -> dict[str, t.Any]:
    """The account of a word that is not what was written there. Its *offset* is in the tested memory, its *address* CUDA's."""
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
    """Pieces of memory, as much as can be had of what is wanted. Some of the rest is needed for comparing."""
    count = max(64, -(-wanted // PIECE_BYTES))
    piece = max(LEAST_BYTES, wanted // count) // 8
    pieces: list[t.Any] = []
    while sum(one.numel() for one in pieces) + piece <= wanted // 8:
        try:
            pieces.append(torch.empty(piece, dtype=torch.int64, device=device))
        except torch.cuda.OutOfMemoryError:
            break
    return pieces


def fill_memory(gpu: t.Any, share: float, say: t.Callable[..., None]) -> None:
    """Fill most of the free memory with one pattern after the other, and compare every word."""
    torch = gpu.torch
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    begun = time.monotonic()
    pieces = take_memory(torch, int(free * share), gpu.device)
    words = pieces[0].numel() if pieces else 0
    wrong, first, moved = 0, None, 0
    for pattern in PATTERNS:
        for number, piece in enumerate(pieces):
            made = pattern_of(torch, pattern, number * words, words, gpu.device)
            piece.fill_(made) if isinstance(made, int) else piece.copy_(made)
        gpu.synchronize()
        for number, piece in enumerate(pieces):
            made = pattern_of(torch, pattern, number * words, words, gpu.device)
            differs = piece != made
            count = int(differs.sum().item())
            if count and first is None:
                place = int(differs.to(torch.uint8).argmax().item())
                expected = made if isinstance(made, int) else int(made[place].item())
                found = int(piece[place].item())
                offset = (number * words + place) * 8
                first = first_wrong(pattern, offset, piece.data_ptr() + place * 8, expected, found)
            wrong += count
            moved += 2 * 8 * words
        say("filled", pattern=pattern, wrong=wrong)
    seconds = time.monotonic() - begun
    facts = {
        "free_bytes": free,
        "total_bytes": total,
        "tested_bytes": 8 * words * len(pieces),
        "patterns": list(PATTERNS),
    }
    say("memory", **facts, seconds=seconds, gb_s=moved / seconds / 1e9, wrong=wrong, first=first)
    del pieces
    torch.cuda.empty_cache()
