# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tell the snapshots of this machine from those of another one with the same name in the repository.

Each snapshot has a tag that stands for the machine. Those of before that have none, and count as this machine's.
"""

from __future__ import annotations

import contextlib
import os
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import state as states
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Job, Place
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.results import Result
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.tags import MACHINE
from ansible_collections.rigwright.workstation.plugins.module_utils._core import record
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.identity import machine_key
from ansible_collections.rigwright.workstation.plugins.module_utils._core.root_directories import make_directories

# For each job the machines and former host names that a user has declared to be this machine.
ADOPTED = "adopted.json"
_REMEDY = "remove it, and adopt the snapshots of each job again: `rigwright-backup adopt JOB`"


class Row(t.Protocol):
    """The attributes of a snapshot that are used here."""

    @property
    def id(self) -> str: ...
    @property
    def time(self) -> float: ...
    @property
    def host(self) -> str: ...
    @property
    def tags(self) -> tuple[str, ...]: ...


def tag(place: Place) -> str:
    """Return the tag of this machine; empty without a machine id."""
    try:
        with open(place.machine_id, encoding="utf-8", errors="replace") as file:
            key = machine_key(file.read())
    except OSError:
        return ""
    return MACHINE + key if key else ""


def tags(place: Place) -> list[str]:
    """Return the options of restic that tag a snapshot with this machine."""
    own = tag(place)
    return ["--tag", own] if own else []


def adopted(place: Place, job: Job) -> frozenset[str]:
    """Return what was adopted. Of a damaged or closed record that is nothing, which refuses; `adopt` and `closed` report it."""
    with contextlib.suppress(states.Damaged, PermissionError):
        return frozenset(read_adopted(place).get(job.name, []))
    return frozenset()


def read_adopted(place: Place) -> dict[str, list[str]]:
    """Return what was adopted, by job.

    :raises Damaged: the record is damaged.
    """
    return record.read(os.path.join(place.state, ADOPTED), _REMEDY, {str: [str]}) or {}


def adopt(place: Place, job: Job, rows: t.Sequence[Row]) -> list[str]:
    """Declare all machines and hosts of the snapshots to be this machine, and return them."""
    before = read_adopted(place)
    hosts = {row.host for row in rows} - {job.host}
    found = sorted({*adopted(place, job), *_machines(rows), *hosts})
    make_directories(place.state, existing=True)
    replace_file(os.path.join(place.state, ADOPTED), states.dump({**before, job.name: found}))
    return found


def is_adopted(place: Place, job: Job) -> bool:
    """Return whether a user has declared the snapshots under the former name of the host to be this machine's."""
    return job.former_host in adopted(place, job)


def counted(place: Place, job: Job, rows: t.Sequence[Row]) -> tuple[Result, str]:
    """Return how many snapshots the job has under each name of the host, and why those under the present one are another machine's."""
    own = [row for row in rows if row.host == job.host]
    return {"snapshots": len(own), "former": len(rows) - len(own)}, problem(place, job, own)


def hosts(place: Place, job: Job) -> list[str]:
    """Return the options of restic that select what `forget` may let go: of a former name only after it was adopted."""
    former = [job.former_host] if job.former_host and is_adopted(place, job) else []
    return [word for name in (job.host, *former) for word in ("--host", name)]


def problem(place: Place, job: Job, rows: t.Sequence[Row]) -> str:
    """Return that another machine makes snapshots under the name of the host; empty if none does, as far as is known.

    Where a job only lets snapshots of another host go, they are to be of one machine.
    """
    own = {tag(place)} if job.paths or job.dumps else _machines(rows[-1:])
    others = _machines(rows) - own - adopted(place, job)
    found = [row for row in rows if _machines([row]) & others]
    if not found or not own - {""}:
        return ""
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(found[-1].time))
    return f"another machine makes snapshots as {job.host}, too: {found[-1].id[:8]} of {day}"


def _machines(rows: t.Iterable[Row]) -> set[str]:
    return {tag for row in rows for tag in row.tags if tag.startswith(MACHINE)}
