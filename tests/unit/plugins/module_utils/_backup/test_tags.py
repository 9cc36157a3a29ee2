# SPDX-License-Identifier: GPL-3.0-or-later
"""Tags say which snapshot is whose."""

from __future__ import annotations

import itertools

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import tags


def test_no_kind_of_tag_begins_like_another() -> None:
    for kinds in ((tags.JOB, tags.PART, tags.MACHINE), (tags.FILES, tags.DUMP)):
        for kind, other in itertools.permutations(kinds, 2):
            assert not kind.startswith(other)
    assert tags.FILES.startswith(tags.PART) and tags.DUMP.startswith(tags.PART)
