# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands that change what the cache keeps: `pin`, `unpin`, `release`, `evict` and `rm`."""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import re
import sys
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.cache import Cache
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.failures import Exit, Failed, NoRoom
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.host import user_name
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.leases import Lease, pid_namespace
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.records import Copy, Dataset, Victim
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.settings import load_settings
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.sources import Source
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.store import POLL_S
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.text import (
    format_size,
    read_size,
    shown,
)


def open_cache(args: argparse.Namespace) -> Cache:
    return Cache(load_settings(args.config, args.cache))


def named(cache: Cache, given: str) -> str:
    """Return the name of a dataset, given by that name or by its source, which may be gone or forbidden by now."""
    if "/" not in given and given in cache.names():
        return given
    return Source(given, cache.settings._replace(sources=("/",))).set


def chosen(cache: Cache, given: list[str]) -> list[Dataset]:
    if not given:
        return cache.datasets()
    found = [cache.dataset(named(cache, name)) for name in given]
    for dataset, name in zip(found, given):
        if dataset is None:
            raise Failed(Exit.ABSENT, f"{shown(name)} is not in the cache")
    return t.cast("list[Dataset]", found)


def pin(args: argparse.Namespace) -> Exit:
    cache = open_cache(args)
    for given in args.sources:
        name = given if "/" not in given and given in cache.names() else ""
        source = None if name else Source(given, cache.settings)
        name = name or t.cast(Source, source).set
        with cache.opened(name) as folder:
            if cache.guest and folder is None:
                raise cache.refusal(Source(given, cache.settings))
        with cache.lock(name, "lock"):
            if source and not cache.guest:
                cache.open_set(source).close()
            with cache.opened(name) as folder:
                if folder is None:
                    raise Failed(Exit.ABSENT, f"{shown(given)} is not in the cache")
                with cache.writing(folder):
                    folder.write("pin", user_name(os.getuid()), durable=True)
    return Exit.DONE


def unpin(args: argparse.Namespace) -> Exit:
    cache = open_cache(args)
    for dataset in chosen(cache, args.sources):
        with cache.lock(dataset.set, "lock"):
            with cache.opened(dataset.set) as folder:
                if folder is None or not folder.read("pin"):
                    raise Failed(Exit.ABSENT, f"{shown(dataset.source)} is not pinned")
                with cache.writing(folder):
                    folder.write("pin", "", durable=True)
            cache.close_set(dataset.set)
    return Exit.DONE


def release(args: argparse.Namespace) -> Exit:
    """Give up leases of `get` before their process ends."""
    cache = open_cache(args)
    pid = args.pid or os.getppid()
    for dataset in chosen(cache, args.sources):
        with cache.lock(dataset.set, "lock"), cache.opened(dataset.set) as folder:
            if folder is None or not folder.lstat("leases"):
                continue
            with folder.folder("leases") as leases, cache.acting_as(leases.status.st_uid):
                for name in leases.names():
                    lease = Lease.read(name)
                    if lease and (lease.pid, lease.namespace) == (pid, pid_namespace()):
                        leases.unlink(name)
    return Exit.DONE


def users_of(cache: Cache, copy: Copy) -> list[str]:
    """Return the users of a copy, for a caller that only reports them: a lock that is held for longer delays nobody."""
    end = time.monotonic() + 1
    while True:
        lock = cache.try_lock(copy.set, "lock")
        if lock:
            with lock, cache.opened(copy.set) as folder:
                return cache.users(folder, copy) if folder else []
        if time.monotonic() >= end:
            return ["somebody"]
        time.sleep(POLL_S)


def evict(args: argparse.Namespace) -> Exit:
    cache = open_cache(args)
    need = 0
    if args.need:
        try:
            need = read_size(args.need, cache.size()[0])
        except ValueError as error:
            raise Failed(Exit.USAGE, f"--need {error}") from None

    def report(victim: Victim) -> None:
        if not args.quiet or args.dry_run:
            name = shown(victim.source or victim.set)
            sys.stdout.write(
                f"{'would evict' if args.dry_run else 'evicted'} {name}: {format_size(victim.disk)}, {victim.why}\n"
            )
            sys.stdout.flush()

    with cache.room():
        if cache.guest:
            cache.sweep()
        for name in cache.requests.names() if args.requests else []:
            wanted = re.match(r"\d{1,18}(?=-)", name, re.ASCII)
            if wanted:
                # The user hears from its own attempt when there is no room still.
                with contextlib.suppress(NoRoom):
                    cache.make_room(int(wanted[0]), report)
            with contextlib.suppress(OSError):
                cache.requests.unlink(name)
        if args.dry_run:
            collections.deque(map(report, cache.plan(need)), maxlen=0)
        else:
            cache.make_room(need, report)
            cache.close_sets()
    return Exit.DONE


def remove(args: argparse.Namespace) -> Exit:
    cache = open_cache(args)
    for dataset in chosen(cache, args.sources):
        make = cache.take(dataset.set, "make")
        if make is None:
            raise Failed(Exit.BUSY, f"{shown(dataset.source)} is being copied")
        with make, cache.room(), cache.opened(dataset.set) as folder:
            if folder is None:
                raise Failed(Exit.ABSENT, f"{shown(dataset.source)} is not in the cache")
            dataset = cache.read(folder, dataset.set)  # as it is now that nobody changes it
            if dataset.pin:
                raise Failed(Exit.BUSY, f"{shown(dataset.source)} is pinned: dataset-cache unpin")
            for copy in dataset.copies:
                users = users_of(cache, copy)
                if users:
                    raise Failed(Exit.BUSY, f"{shown(dataset.source)} is used by {', '.join(users)}")
            for copy, kind in [(copy, "copy") for copy in dataset.copies] + [(copy, "trash") for copy in dataset.trash]:
                victim = Victim(kind, copy.set, copy.name, copy.disk, copy.owner, "rm", "")
                if not cache.removable(victim):
                    owner = user_name(copy.owner) if copy.owner >= 0 else "somebody who lets others write to it"
                    raise Failed(Exit.CACHE, f"the copy belongs to {owner}: let them or root remove it")
                if not cache.drop(victim):
                    raise Failed(Exit.BUSY, f"{shown(dataset.source)} is in use")
            for staging in dataset.staging:
                if cache.is_live(folder, staging.name):
                    raise Failed(Exit.BUSY, f"{shown(dataset.source)} is being copied")
                cache.discard(folder, staging.name)
            cache.try_close(dataset.set)
    return Exit.DONE
