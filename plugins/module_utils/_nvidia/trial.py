# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compile test programs in a directory that only root can enter, and shorten what compilers write."""

from __future__ import annotations

import contextlib
import os
import tempfile
import typing as t

Outcome = tuple[int, str, str]
Run = t.Callable[..., Outcome]


@contextlib.contextmanager
def sources(texts: t.Mapping[str, str]) -> t.Iterator[str]:
    """Yield a temporary directory with these files.

    :param texts: the content of each file by its name.
    """
    with tempfile.TemporaryDirectory(prefix="rigwright.") as directory:
        for name, text in texts.items():
            with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
                file.write(text)
        yield directory


def shorten(text: str, limit: int) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
