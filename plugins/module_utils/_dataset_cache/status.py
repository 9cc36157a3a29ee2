# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command `status`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.cache import Cache
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.commands import (
    chosen,
    open_cache,
    users_of,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.failures import Exit, Failed
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.records import Dataset, Record
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.sources import take_survey
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.store import NOBODY
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.text import (
    format_size,
    read_size,
    shown,
)


class Total(t.TypedDict):
    """The cache as a whole, in bytes."""

    cache: str
    used: int
    quota: int
    free: int
    floor: int
    odd: list[str]


class Common(t.TypedDict):
    """A data set, whether it has a copy or not."""

    name: str
    source: str
    last_used: float | None
    pinned: bool
    pinned_by: str | None
    path: str | None
    made: float | None  # kept: a printed key
    files: int | None
    done: float | None
    in_use_by: list[str]


class Row(Common):
    """A copy, one that is being made, or a pin alone."""

    state: str
    size: int


def status(args: argparse.Namespace) -> Exit:
    cache = open_cache(args)
    datasets = chosen(cache, args.sources)
    rows = [row for dataset in datasets for row in describe(cache, dataset, args.check)]
    whole, free = cache.size()
    total: Total = {
        "cache": cache.path,
        "used": cache.used(cache.datasets()),
        "quota": read_size(cache.settings.quota, whole),
        "free": free,
        "floor": read_size(cache.settings.free, whole),
        "odd": [cache.at(name) for name in cache.top.names() if name.startswith(".odd-")],
    }
    if args.json:
        sys.stdout.write(json.dumps({**total, "datasets": rows}, indent=2) + "\n")
        return Exit.DONE
    table = [("SIZE", "LAST USED", "STATE", "PIN", "IN USE BY", "SOURCE")]
    for row in rows:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["last_used"])) if row["last_used"] else "never"
        state = row["state"] + (f" {row['done']:.0%}" if row["state"] == "making" else "")
        pinned = shown(row["pinned_by"] or "")
        table.append((format_size(row["size"]), used, state, pinned, ", ".join(row["in_use_by"]), shown(row["source"])))
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        sys.stdout.write("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() + "\n")
    sys.stdout.write(
        f"{format_size(total['used'])} of {format_size(total['quota'])} used, {format_size(free)} free on the file system\n"
    )
    for path in total["odd"]:
        sys.stdout.write(f"{shown(path)} was no part of the cache: remove it by hand\n")
    return Exit.DONE


def describe(cache: Cache, dataset: Dataset, check: bool) -> list[Row]:
    """Return a row for each copy, for each one that is being made, or for a pin alone."""
    common: Common = {
        "name": dataset.set,
        "source": dataset.source,
        "last_used": dataset.used or None,
        "pinned": bool(dataset.pin),
        "pinned_by": dataset.pin or None,
        "path": None,
        "made": None,
        "files": None,
        "done": None,
        "in_use_by": [],
    }
    rows: list[Row] = []
    current = dataset.current()
    for copy in dataset.copies:
        state = "whole" if copy is current else "damaged" if copy.damaged or not copy.record else "superseded"
        if check and state == "whole":
            # A member of the group may have written what its source is.
            with cache.acting_as(copy.owner if copy.owner >= 0 else NOBODY):
                state = compare(t.cast(Record, copy.record))
        record = copy.record
        path = os.path.join(copy.path, "data", record.name) if record else copy.path
        row: Row = {**common, "state": state, "size": copy.disk, "in_use_by": users_of(cache, copy)}
        if record:
            row["path"], row["made"], row["files"] = path, record.made, record.files
        rows.append(row)
    for staging in dataset.staging:
        state = "making" if cache.is_making(staging) else "interrupted"
        done = min(1.0, staging.done / staging.need) if staging.need else 0.0
        rows.append({**common, "state": state, "size": staging.need, "done": done})
    for copy in dataset.trash:
        rows.append({**common, "state": "removed", "size": copy.disk})
    return rows or [{**common, "state": "absent", "size": 0}]


def compare(record: Record) -> str:
    """Return the state of a copy compared with its source: whole, stale or sourceless."""
    try:
        return "whole" if take_survey(record.source, keep=False).fingerprint == record.fingerprint else "stale"
    except (Failed, OSError):
        return "sourceless"
