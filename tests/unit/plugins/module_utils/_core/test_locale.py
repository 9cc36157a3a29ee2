# SPDX-License-Identifier: GPL-3.0-or-later
"""The locale has its characters, its messages in English, and nothing that outranks it."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core.locale import LOCALE


def test_locale() -> None:
    assert LOCALE == {"LC_ALL": "C.UTF-8", "LANGUAGE": ""}
