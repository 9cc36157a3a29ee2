# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines of fstab between two markers; every other line stays byte for byte. Pure: text in, text out."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import FstabLine, fstab_lines

BEGIN = "# BEGIN rigwright storage: these lines are written by Ansible"
END = "# END rigwright storage"
# What the last line of a file has to have had, so that nothing is added to it by taking the lines away again.
OPEN = "# The line above had no end."


class Damaged(Exception):
    """One of the markers is there without the other, or twice."""


def escape(field: str) -> str:
    # Other blanks are letters to fstab(5).
    return re.sub(r"[ \t\n\\#]", lambda found: f"\\{ord(found[0]):03o}", field)


def parse(text: str) -> list[FstabLine]:
    return list(fstab_lines(text))


def split(text: str) -> tuple[str, str, str]:
    """Return the text before, between and after the markers.

    :raises Damaged: somebody has taken one of them away.
    """
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    begins = [number for number, line in enumerate(lines) if line.rstrip("\n") == BEGIN]
    ends = [number for number, line in enumerate(lines) if line.rstrip("\n") == END]
    if not begins and not ends:
        return text, "", ""
    if len(begins) != 1 or len(ends) != 1 or begins[0] > ends[0]:
        raise Damaged
    first, last = begins[0], ends[0]
    return "".join(lines[:first]), "".join(lines[first + 1 : last]), "".join(lines[last + 1 :])


def others(text: str) -> str:
    """Return the file without our lines, as it was before them."""
    before, ours, after = split(text)
    if ours.startswith(OPEN) and before.endswith("\n"):
        return before[:-1] + after
    return before + after


def with_lines(text: str, lines: t.Sequence[str]) -> str:
    """Return the file with exactly these lines of ours, in their old place or at its end."""
    before, ours, after = split(text)
    if not lines:
        return others(text)
    note = [OPEN] if ours.startswith(OPEN) else []
    if not ours and before and not before.endswith("\n"):
        before, note = before + "\n", [OPEN]
    return before + "".join(f"{line}\n" for line in [BEGIN, *note, *lines, END]) + after


def line(source: str, target: str, fs: str, options: t.Sequence[str], check: int) -> str:
    return f"{source} {escape(target)} {fs} {','.join(options)} 0 {check}"
