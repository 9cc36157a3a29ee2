# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sizes as people write them. Pure."""

from __future__ import annotations

import re


def parse_size(text: str) -> int:
    """Return the bytes of ``500G``, ``500GiB`` (powers of 1024) or ``500GB`` (of 1000); -1 for anything else."""
    found = re.fullmatch(r"([0-9]+)(?:([KMGTP])(iB|B)?)?", str(text).strip())
    if not found:
        return -1
    base = 1000 if found[3] == "B" else 1024
    return int(found[1]) * base ** (" KMGTP".index(found[2]) if found[2] else 0)
