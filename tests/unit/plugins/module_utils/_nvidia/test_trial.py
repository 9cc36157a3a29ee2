# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import stat
from pathlib import Path

from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.trial import shorten, sources


def test_sources_are_roots_alone_and_go_afterwards() -> None:
    with sources({"a.c": "int a;\n"}) as directory:
        place = Path(directory)
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert (place / "a.c").read_text() == "int a;\n"
    assert not place.exists()


def test_a_long_text_is_shortened() -> None:
    assert shorten("abcdef", 6) == "abcdef"
    assert shorten("abcdefg", 6) == "abc..."
