# SPDX-License-Identifier: GPL-3.0-or-later
"""Which sources are refused, and how a change of one is found."""

from __future__ import annotations

import grp
import os
import subprocess
import sys
import time

import pytest

from tests.unit.support.storage.dataset_cache_processes import program, refused, tree

# Threads of pytest-xdist wait for messages, and hold no lock that a child could miss.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_absolute_link_inside_of_the_source_leads_to_the_copy(place, images):
    (images / "link").symlink_to(images / "one")
    copy = place.get(images).path
    assert (copy / "link").resolve() == copy / "one"


def test_source_outside_of_the_allowed_folders_is_refused(place):
    assert refused(place, place.top).startswith("3: ")
    (place.data / "out").symlink_to("/etc")
    assert "(`sources`)" in refused(place, place.data / "out")


def test_link_out_of_the_source_is_refused(place, images):
    (images / "passwords").symlink_to("/etc/passwd")
    message = refused(place, images)
    assert message.startswith("3: ")
    assert "link out of the source" in message


def test_link_out_of_the_source_by_way_of_another_is_refused(place, images):
    (images / "up").symlink_to("..")
    assert refused(place, images).startswith("3: ")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.mknod(path, 0o140600)], ids=["pipe", "socket"])
def test_source_that_is_no_file_is_refused(place, images, make):
    make(images / "odd")
    assert "take it out" in refused(place, images)


def test_missing_source_is_refused_but_its_copy_can_be_had(place, images):
    assert refused(place, place.data / "nothing").startswith("3: ")
    copy = place.get(images).path
    images.rename(place.data / "away")
    done = place.get(images)
    assert (done.rc, done.out) == (3, "")
    assert "--offline" in done.err
    assert place.get(images, "--offline").path == copy


def test_private_files_are_not_shown_to_the_group_unless_asked(place, images):
    place.configure(group=grp.getgrgid(os.getgid()).gr_name)
    os.chmod(images / "one", 0o600)
    message = refused(place, images)
    assert message.startswith("3: ")
    assert "--share" in message
    assert tree(place.get(images, "--share").path) == tree(images)


def test_source_changed_just_now_is_surveyed_again(place, monkeypatch):
    """Change the source within the tick of the kernel's clock, which leaves the same times."""
    source = place.source("quick", file=b"a")
    now = (source / "file").stat().st_ctime_ns + 1_000_000
    moments = iter([now, now + 10**10])
    monkeypatch.setattr(program.time, "time_ns", lambda: next(moments))
    monkeypatch.setattr(program.time, "sleep", lambda seconds: (source / "file").write_bytes(b"later"))
    assert [entry.size for entry in program.take_survey(str(source), keep=True).entries] == [0, 5]


def test_every_version_of_a_source_that_changes_fast_is_got(place):
    source = place.source("quick", file=b"a")
    place.get(source)
    for content in (b"b", b"c", b"d"):
        (source / "file").write_bytes(content)
        assert (place.get(source).path / "file").read_bytes() == content


def test_source_that_is_always_written_is_refused(place):
    source = place.source("log", file=b"a")
    writer = subprocess.Popen([sys.executable, "-c", f"while True: open({str(source / 'file')!r}, 'a').write('x')"])
    try:
        time.sleep(0.2)
        done = place.get(source)
    finally:
        writer.kill()
        writer.wait()
    assert (done.rc, done.out) == (6, "")
