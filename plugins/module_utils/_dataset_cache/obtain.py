# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands `get` and `run`: they serve a whole copy of a source."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import re
import signal
import sys
import time

from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.cache import Cache
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.failures import (
    FALL_BACK,
    Exit,
    Failed,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.making import Making
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.progress import Progress
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.records import Held, as_count
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.settings import (
    Settings,
    load_settings,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.sources import Source, take_survey
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.store import POLL_S
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.text import say, shown
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.transfer import Options


def obtain(cache: Cache, source: Source, options: Options) -> Held:
    """Return a held, whole copy of the source as it is now; one process at a time makes a missing one."""
    waiting, reported = Progress(source.name, options.quiet, "waiting for"), False
    end = None if options.wait is None else time.monotonic() + options.wait
    while True:
        if not options.offline:
            source.require()
        held = cache.find(source, None if options.offline else take_survey(source.path, keep=False).fingerprint)
        if held:
            return held
        if options.offline:
            raise Failed(Exit.ABSENT, f"there is no whole copy of {shown(source.path)}")
        if cache.guest:
            raise cache.refusal(source)
        lock = cache.take(source.set, "make")
        if lock:
            with lock:
                held = cache.find(source, take_survey(source.path, keep=False).fingerprint)
                if held is None:
                    held = Making(cache, source, options).run()
                    drop_old(cache, source)
                return held
        if not options.quiet and not reported:
            say(f"another process copies {shown(source.path)}; waiting for it")
            reported = True
        try:
            wait_for_maker(cache, source, waiting, end)
        finally:
            waiting.end()


def wait_for_maker(cache: Cache, source: Source, waiting: Progress, end: float | None) -> None:
    while True:
        lock = cache.take(source.set, "make")
        if lock:
            lock.release()
            return
        if end is not None and time.monotonic() >= end:
            raise Failed(Exit.WAIT, f"another process still copies {shown(source.path)}")
        dataset = cache.dataset(source.set)
        for staging in dataset.staging if dataset else ():
            waiting.show(as_count(staging.state.get("done")), as_count(staging.state.get("total")))
        time.sleep(POLL_S)


def drop_old(cache: Cache, source: Source) -> None:
    """Remove copies that the new one replaces, but those in use."""
    with contextlib.suppress(OSError), cache.room():
        dataset = cache.dataset(source.set)
        for victim in cache.victims([dataset] if dataset else [], cache.is_used):
            if victim.kind == "copy" and victim.why != "used longest ago" and cache.removable(victim):
                cache.drop(victim)


def options_of(args: argparse.Namespace, settings: Settings) -> Options:
    if args.expect and not re.fullmatch("[0-9a-fA-F]{64}", args.expect):
        raise Failed(Exit.USAGE, "--expect is no SHA-256")
    return Options(
        args.hash or settings.hash,
        args.jobs or settings.jobs,
        args.quiet,
        args.wait,
        args.offline,
        args.share,
        args.sums,
        args.expect,
    )


def serve(args: argparse.Namespace) -> tuple[str, Cache | None, Held | None]:
    """Return the path to use: of a copy, or with --or-source of the source itself."""
    source = None
    try:
        settings = load_settings(args.config, args.cache)
        source = Source(args.source, settings)
        cache = Cache(settings)
        held = obtain(cache, source, options_of(args, settings))
        return held.path, cache, held
    except OSError as error:
        failure = Failed(Exit.CACHE, f"the cache cannot be used: {error}")
    except Failed as error:
        failure = error
    if not (args.or_source and source and failure.status in FALL_BACK):
        raise failure
    source.require()
    say(f"the source itself is used: {failure}")
    return source.path, None, None


def get(args: argparse.Namespace) -> Exit:
    path, cache, held = serve(args)
    if cache and held:
        cache.lease(held, args.pid or os.getppid())
    sys.stdout.buffer.write(os.fsencode(path) + b"\n")
    sys.stdout.buffer.flush()
    return Exit.DONE


def run(args: argparse.Namespace) -> Exit:
    """Become the command, with the lock on the copy as an open file that all its children have too."""
    if not args.command:
        raise Failed(Exit.USAGE, "no command: dataset-cache run SOURCE -- COMMAND [ARGUMENT ...]")
    path, _cache, held = serve(args)
    if held:
        os.set_inheritable(held.lock.fd, True)
    command = [part.replace("{}", path) for part in args.command]
    os.umask(args.umask)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, {**os.environ, args.env: path})  # noqa: S606 - what `run` is for
    except OSError as error:
        say(f"{shown(command[0])}: {error.strerror}")
        os._exit(127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126)
