# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Properties of the host: its disks, processors, memory and users."""

from __future__ import annotations

import os
import pwd
import re


def read_small(path: str) -> str | None:
    """Return the text of a file of the kernel; None where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return None


def is_rotational(path: str) -> bool:
    """Return whether a path is on a rotating disk; False where that is unknown (network, tmpfs)."""
    number = os.stat(path).st_dev
    block = f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"
    for attribute in ("queue/rotational", "../queue/rotational"):
        answer = read_small(f"{block}/{attribute}")
        if answer is not None:
            return answer.strip() == "1"
    return False


def fastest_algorithm() -> str:
    """Return SHA-256 where the processor computes it (1.5 times BLAKE2b on an EPYC), else BLAKE2b (twice SHA-256)."""
    flags = read_small("/proc/cpuinfo") or ""
    return "sha256" if re.search(r"^(flags|Features)\s*:.*\b(sha_ni|sha2)\b", flags, re.MULTILINE) else "blake2b"


def memory_available() -> int:
    match = re.search(r"^MemAvailable:\s+(\d+) kB", read_small("/proc/meminfo") or "", re.MULTILINE)
    return int(match[1]) * 1024 if match else 1 << 62


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
