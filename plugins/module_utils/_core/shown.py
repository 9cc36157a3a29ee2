# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Text that others chose, on its way to a terminal, journal, mail, chat or page: names of files, users, processes. Pure."""

from __future__ import annotations


def shown(text: str, most: int | None = None, keep: str = "") -> str:
    """Return one line that shows a text: question marks for line breaks, and for what changes a terminal or the order of what it shows.

    Bytes of a name that are not UTF-8 (surrogates) are question marks, too. A shell takes the mark for any character.

    :param most: characters that are taken at most.
    :param keep: control characters that stay, such as a line feed.
    """
    return "".join(each if each.isprintable() or each in keep else "?" for each in text[:most])


def clip(text: str, most: int) -> str:
    """Return a text of at most so many characters; a tilde at its end says that more was there."""
    return text if len(text) <= most else f"{text[: most - 1]}~" if most > 0 else ""
