# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a lease of `get` keeps a copy."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from tests.unit.support.storage.dataset_cache_processes import PROGRAM

# Threads of pytest-xdist wait for messages, and hold no lock that a child could miss.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_dataset_that_was_got_stays_as_long_as_the_caller_runs(place, four):
    a, b, c, d = four
    caller = subprocess.Popen(["sleep", "600"])
    place.run("get", "--pid", caller.pid, a)
    for source in (b, c, d):
        assert place.get(source).rc == 0
    assert place.cached() == {"a", "c", "d"}
    caller.kill()
    caller.wait()
    assert place.get(b).rc == 0
    assert place.cached() == {"b", "c", "d"}


def test_caller_is_the_process_that_asked(place, images):
    command = f"{sys.executable} -I {PROGRAM} --config {place.top}/configuration.json"
    script = f"DATA=$({command} get {images}); {command} rm {images}; echo $?; test -e $DATA/one && echo there"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["8", "there"]
    assert place.run("rm", images).rc == 0


def test_lease_of_a_reused_pid_does_not_count(place, images):
    place.run("get", images)
    (lease,) = place.cache.glob("sets/*/leases/*")
    copy, pid, started, *rest = lease.name.split("@")
    lease.rename(lease.with_name("@".join([copy, pid, str(int(started) - 1), *rest])))
    assert place.run("rm", images).rc == 0


@pytest.mark.parametrize(("age", "rc"), [(3600, 8), (25 * 3600, 0), (-3600, 0)])
def test_lease_of_another_pid_namespace_expires(place, images, age, rc):
    place.run("get", images)
    (lease,) = place.cache.glob("sets/*/leases/*")
    copy, pid, started, _namespace, boot, since = lease.name.split("@")
    lease.rename(lease.with_name("@".join([copy, pid, started, "1", boot, str(max(0, int(since) + 10**6))])))

    def inject() -> None:
        real = time.clock_gettime
        time.clock_gettime = lambda clock: real(clock) + 10**6 + age

    assert place.run("rm", images, inject=inject).rc == rc
