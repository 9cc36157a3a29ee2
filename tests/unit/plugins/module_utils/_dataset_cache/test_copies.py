# SPDX-License-Identifier: GPL-3.0-or-later
"""Which copies are served."""

from __future__ import annotations

import errno
import os

import pytest

from tests.unit.support.storage import dataset_cache_processes as processes
from tests.unit.support.storage.dataset_cache_processes import program, tree

# Threads of pytest-xdist wait for messages, and hold no lock that a child could miss.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_get_of_a_dataset_that_is_there_copies_nothing(place, images):
    first = place.get(images).path
    before = (first / "one").stat()
    second = place.run("get", images, inject=processes.at_read(images / "one", processes.fails(errno.EIO)))
    assert second.path == first
    assert (first / "one").stat() == before


def test_copy_is_served_from_a_disk_that_is_full(place, images):
    copy = place.get(images).path

    def full() -> None:
        processes.full_after(0)()
        real = os.open

        def no_new_file(path: str, flags: int, *rest: int, **options: int) -> int:
            if flags & os.O_CREAT and "dir_fd" in options and processes.name_of(options["dir_fd"]).endswith("leases"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(path, flags, *rest, **options)

        os.open = no_new_file  # type: ignore[assignment]

    done = place.run("get", images, inject=full)
    assert done.path == copy
    assert "may be evicted" in done.err


def test_copy_that_this_process_cannot_look_at_is_not_condemned(place, images):
    copy = place.get(images).path

    def inject() -> None:
        program.replace("walk", lambda top: processes.fails(errno.EMFILE)() if top.startswith("/proc/") else iter(()))
        program.replace("take_survey", lambda top, keep: program.Survey(place_fingerprint, []))

    place_fingerprint = program.take_survey(str(images), False).fingerprint
    assert place.run("get", images, inject=inject).rc == 10
    assert place.get(images).path == copy


def test_damaged_copy_is_not_served_but_made_again(place, images):
    for damage in (
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b"short"),
        lambda path: path.parent.joinpath("more").write_bytes(b""),
    ):
        copy = place.get(images).path
        for path in (copy, copy / "one"):
            path.chmod(0o700)
        damage(copy / "one")
        again = place.get(images)
        assert again.path != copy
        assert tree(again.path) == tree(images)
        assert not copy.exists()
