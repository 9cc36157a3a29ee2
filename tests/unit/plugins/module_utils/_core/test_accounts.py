# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import grp
from types import SimpleNamespace

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts


def test_root_is_found() -> None:
    assert (accounts.uid_of("root"), accounts.gid_of("root"), accounts.uids_of(["root", "no-such-user"])) == (
        0,
        0,
        {"root": 0},
    )


def test_missing_account_has_no_number() -> None:
    assert accounts.uid_of("no-such-user") is None
    assert accounts.gid_of("no-such-group") is None
    assert accounts.members_of("no-such-group") == []


def test_members_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grp, "getgrnam", lambda _name: SimpleNamespace(gr_mem=["bob", "alice"], gr_gid=7))
    assert (accounts.members_of("docker"), accounts.gid_of("docker")) == (["alice", "bob"], 7)
