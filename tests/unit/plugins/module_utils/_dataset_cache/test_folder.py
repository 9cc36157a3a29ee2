# SPDX-License-Identifier: GPL-3.0-or-later
"""Open folders."""

from __future__ import annotations

import os

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.folder import Flock, Folder


@pytest.fixture
def folder(tmp_path):
    with Folder.at(os.path.realpath(tmp_path)) as opened:
        yield opened


def test_link_is_not_followed(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("elsewhere")
    (tmp_path / "alias").symlink_to("file")
    with pytest.raises(OSError, match="link"):
        folder.folder("link")
    assert folder.read("file") == "text"
    assert folder.read("alias") is None


def test_file_with_a_second_name_is_refused(folder, tmp_path):
    (tmp_path / "file").write_text("text")
    os.link(tmp_path / "file", tmp_path / "second")
    with pytest.raises(OSError, match="no file of the cache"):
        folder.file("file")


def test_file_is_replaced_and_shortened(folder, tmp_path):
    folder.replace("file", "long text", durable=True)
    folder.replace("file", "text")
    folder.write("file", "t", durable=True)
    assert (tmp_path / "file").read_text() == "t"
    assert folder.names() == ["file"]


def test_emptied_folder_has_no_read_only_folder_left(folder, tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").touch()
    (tmp_path / "a").chmod(0o500)
    folder.empty()
    assert folder.names() == []


def test_second_lock_is_not_waited_for(folder):
    def lock():
        return Flock.take(folder.file_or_new("lock", os.O_RDWR), wait=False)

    with lock():
        assert lock() is None
    with lock():
        pass
