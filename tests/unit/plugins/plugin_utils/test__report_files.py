# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of reports: what others have planted in their place is neither followed nor does it give its rights."""

from __future__ import annotations

import os
import stat

import pytest
from ansible_collections.rigwright.workstation.plugins.plugin_utils import _report_files
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report_files import read, write


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def test_new_file_is_its_owners_alone(tmp_path):
    path = tmp_path / "new/page.html"
    assert write(path, "one", pretend=True) and not path.parent.exists()
    assert write(path, "one") and not write(path, "one")
    assert (path.read_text(), mode(path)) == ("one", 0o600)


@pytest.mark.parametrize(
    ("before", "after"), [(0o644, 0o644), (0o640, 0o640), (0o400, 0o400), (0o664, 0o600), (0o1644, 0o600)]
)
def test_mode_stays_if_others_cannot_write(tmp_path, before, after):
    path = tmp_path / "page.html"
    path.write_text("one")
    path.chmod(before)
    assert write(path, "two") and mode(path) == after


def test_file_that_others_can_write_is_never_as_it_should_be(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("one")
    path.chmod(0o777)
    assert write(path, "one") and mode(path) == 0o600


def test_hard_link_gives_no_mode(tmp_path):
    (tmp_path / "other").write_text("other")
    (tmp_path / "other").chmod(0o644)
    os.link(tmp_path / "other", tmp_path / "page.html")
    assert write(tmp_path / "page.html", "one") and mode(tmp_path / "page.html") == 0o600
    assert (tmp_path / "other").read_text() == "other"


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files away")
def test_file_of_another_user_gives_nothing(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("one")
    path.chmod(0o644)
    os.chown(path, 4711, 4711)
    assert write(path, "one")
    assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (os.geteuid(), os.getegid(), 0o600)


def test_group_stays_with_the_mode(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("one")
    path.chmod(0o640)
    group = max({os.getegid(), *os.getgroups()} | ({4711} if os.geteuid() == 0 else set()))
    os.chown(path, -1, group)
    assert write(path, "two")
    assert (path.stat().st_gid, mode(path)) == (group, 0o640)


def test_directory_may_be_a_link_of_the_user(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "www").symlink_to("real")
    assert write(tmp_path / "www/page.html", "one")
    (tmp_path / "latest").symlink_to("real/page.html")
    assert read(tmp_path / "latest") == b"one"


def test_half_a_surrogate_pair_loses_no_report(tmp_path):
    write(tmp_path / "report.json", '"\ud800\udc80"')
    assert (tmp_path / "report.json").read_text() == '"??"'


def test_large_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_report_files, "LIMIT", 3)
    (tmp_path / "report.json").write_text("four")
    with pytest.raises(OSError, match="is larger than 3 bytes"):
        read(tmp_path / "report.json")


def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("one")

    def full(_handle):
        raise OSError(28, "No space on the device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write(path, "two")
    assert path.read_text() == "one" and [each.name for each in tmp_path.iterdir()] == ["page.html"]
