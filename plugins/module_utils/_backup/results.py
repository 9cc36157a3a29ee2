# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The types of what runs leave: their results, the state that is merged of them, and the lists that a drill compares with."""

from __future__ import annotations

import typing as t


class DumpResult(t.TypedDict, total=False):
    """The result of a dump. Those after `bytes` are of a good one."""

    kind: str
    words: str  # kept: a key of the file on hosts
    bytes: int
    sha256: str
    snapshot: str
    path: str


class Result(t.TypedDict, total=False):
    """The result of a run. `dumps` is a number in that of a drill."""

    kind: str
    words: str  # kept: a key of the file on hosts
    exit_code: int
    started: float
    duration_s: float
    snapshot: str
    snapshots: int
    former: int
    bytes_added: int
    bytes: int
    files: int
    vanished: int
    total: int | None
    lost: list[str]
    mounts: list[str]
    removed: int
    part: int
    parts: int
    next_part: int
    dumps: int | dict[str, DumpResult]
    dumps_of_job: list[str]
    manifest: str
    sample: str


class State(Result, total=False):
    """The state of a job or repository. `damaged` marks one that could not be read."""

    ended: float
    last_success: float
    unchanged_since: float
    damaged: bool


States = t.Mapping[tuple[str, str], State]


class Described(t.TypedDict, total=False):
    """A file as a backup has it. `links` are other names of it."""

    type: int
    mode: int
    uid: int
    gid: int
    mtime: int
    size: int
    sha256: str
    target: str
    device: int
    attributes: dict[str, str]
    links: list[str]


class Drawn(t.TypedDict, total=False):
    """The files of a snapshot that a drill compares, or why there are none."""

    snapshot: str
    problem: str
    total: int
    files: dict[str, Described]
    missing: list[str]
    directories: list[str]
    changed: list[str]
