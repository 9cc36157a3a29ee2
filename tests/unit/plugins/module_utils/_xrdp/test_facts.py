# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of the host that need no program: users, groups, passwords and desktop files."""

from __future__ import annotations

import grp
import pwd
from pathlib import Path

from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import facts


def test_users_with_a_primary_group_are_found_by_its_number() -> None:
    root = pwd.getpwuid(0).pw_name
    group = grp.getgrgid(pwd.getpwuid(0).pw_gid).gr_name
    assert root in facts.primary_members(group)
    assert facts.primary_members("no-such-group") == []


def test_a_session_that_a_user_has_left_is_none() -> None:
    assert "State" in facts.LOGIN
    shown = "\n\n".join(
        f"Name={name}\nClass={kind}\nService=xrdp-sesman\nLeader=7\nState={state}\n"
        for name, kind, state in (
            ("alice", "user", "active"),
            ("bob", "user", "closing"),
            ("carol", "user", "online"),
            ("gdm", "greeter", "active"),
        )
    )
    assert [login["Name"] for login in facts.parse_logins(shown)] == ["alice", "carol"]


def test_a_missing_group_has_no_list_of_members() -> None:
    assert facts.members("no-such-group") is None
    assert isinstance(facts.members(grp.getgrgid(0).gr_name), list)


def test_passwords_in_the_shadow_file_have_a_kind() -> None:
    shadow = "root:$y$hash:1::::::\nlocked:!:1::::::\nnone:*:1::::::\nopen::1::::::\n"
    assert facts.password_kinds(shadow) == {"root": "set", "locked": "none", "none": "none", "open": "empty"}


def test_desktop_files_are_named_without_their_ending(tmp_path: Path) -> None:
    for name in ("xfce.desktop", "gnome-xorg.desktop", "README"):
        (tmp_path / name).touch()
    assert facts.names_in(str(tmp_path)) == ["gnome-xorg", "xfce"]
    assert facts.names_in(str(tmp_path / "missing")) == []
