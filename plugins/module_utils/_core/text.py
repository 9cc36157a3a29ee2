# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Text that others chose, for people: names of users, processes and files, messages of programs. Pure."""

from __future__ import annotations


def printable(text: str, most: int | None = None, keep: str = "") -> str:
    """Return a text with question marks for characters that could change a terminal, or the order of what it shows.

    :param most: characters that are taken at most.
    :param keep: control characters that stay, such as a line feed.
    """
    return "".join(each if each.isprintable() or each in keep else "?" for each in text[:most])


def clip(text: str, most: int) -> str:
    """Return a text of at most so many characters; a tilde at its end says that more was there."""
    return text if len(text) <= most else f"{text[: most - 1]}~" if most > 0 else ""
