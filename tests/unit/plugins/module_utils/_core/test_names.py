# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of users and groups."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts, names


@pytest.mark.parametrize(
    "name",
    [
        "alice",
        "_apt",
        "svc.train-1",
        "Alice",
        "alice@corp.example.org",
        "CORP\\alice",
        "CORP+alice",
        "20231234",
        "rig7$",
        "jörg",
    ],
)
def test_name_that_a_name_service_can_have(name: str) -> None:
    assert names.is_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "-r", ".", "..", "../a", "a/b", "a:b", "a,b", "a b", "a\nb", "alice\n", "\x1b[1m", "$x", "a$b", "@lab", "a'b"],
)
def test_name_that_would_break_a_file_or_command(name: str) -> None:
    assert not names.is_name(name)
    assert not names.is_new_name(name)


@pytest.mark.parametrize("name", ["Lab", "1lab", "lab@corp", "CORP\\lab", "a" * 33])
def test_name_that_is_used_only_where_it_exists(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "group", lambda _name: None)
    assert not names.is_group_name(name)
    monkeypatch.setattr(accounts, "group", lambda _name: object())
    assert names.is_group_name(name)
    assert not names.is_new_name(name)
