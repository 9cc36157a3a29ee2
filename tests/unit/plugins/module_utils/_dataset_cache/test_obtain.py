# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands `get` and `run`, and several processes at once."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.unit.support.storage import dataset_cache_processes as processes
from tests.unit.support.storage.dataset_cache_processes import MIB, await_that, tree

# Threads of pytest-xdist wait for messages, and hold no lock that a child could miss.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_cache_that_is_missing_gives_the_source_only_when_asked(place, images):
    place.configure(cache=str(place.top / "nothing"))
    assert place.get(images).rc == 10
    assert place.get(images, "--or-source").path == images


def test_concurrent_writers_create_one_copy(place, images):
    (images / "large").write_bytes(os.urandom(20 * MIB))
    running = [place.start("get", images) for _number in range(5)]
    paths = {process.wait().path for process in running}
    assert len(paths) == 1
    assert tree(paths.pop()) == tree(images)
    assert len(place.rows()) == 1


def test_waiting_process_takes_over_from_a_killed_writer(place, images):
    pause = processes.at_read(images / "one", lambda: time.sleep(600))
    maker = place.start("get", images, inject=pause)
    await_that(lambda: place.rows("making"))
    assert place.run("get", "--wait", "0.2", images).rc == 11
    waiter = place.start("get", images)
    await_that(lambda: "waiting" in waiter.read(1))
    maker.kill()
    assert tree(waiter.wait().path) == tree(images)
    assert place.leftovers() == []


def test_run_is_the_command(place, images):
    def outer() -> None:
        os.umask(0o027)

    done = place.run("run", images, "--", "sh", "-c", 'echo "$DATASET_CACHE_PATH" "$(umask)" {}; exit 3', inject=outer)
    copy = place.get(images).path
    assert (done.rc, done.out) == (3, f"{copy} 0027 {copy}\n")
    assert place.run("run", "--env", "TRAIN", images, "--", "sh", "-c", 'test "$TRAIN" = {}').rc == 0
    assert place.run("run", images, "--", "no-such-command").rc == 127
    assert place.run("run", images, "--", "/etc/passwd").rc == 126
    assert place.run("run", images).rc == 2
    # A program that writes into a closed pipe has to end by it, as anywhere else.
    assert place.run("run", images, "--", "sh", "-c", "yes | head -1; kill -PIPE $$").rc == -signal.SIGPIPE
