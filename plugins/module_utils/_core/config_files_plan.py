# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the steps from the files that are on a host to those that a set wants. Pure."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import typing as t


class Refused(Exception):
    """The request cannot be carried out; nothing was changed."""


@dataclasses.dataclass(frozen=True)
class State:
    """What lies at a path: ``missing``, ``file``, ``directory``, or a kind that is never replaced (``link``, ``other``)."""

    kind: str = "missing"
    content: bytes | None = None
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None

    @property
    def digest(self) -> str | None:
        return None if self.content is None else hashlib.sha256(self.content).hexdigest()


MISSING = State()


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What should lie at a path. An owner that does not exist yet (check mode on a fresh host) has uid -1.

    A *released* one is no longer the set's: it stays, and what was there before the set does not come back.
    """

    path: str
    state: State
    secret: bool = False
    validate: str | None = None
    released: bool = False


@dataclasses.dataclass(frozen=True)
class Step:
    """One path from ``before`` to ``after``."""

    path: str
    before: State
    after: State
    secret: bool = False
    validate: str | None = None
    mtime_ns: int | None = None
    edited: bool = False


@dataclasses.dataclass(frozen=True)
class Record:
    """What the store remembers of a path: what was there before the set, what the set wrote last, and whether any of it was secret."""

    original: State
    mtime_ns: int | None = None
    written: str | None = None
    secret: bool = False


def plan(
    wanted: t.Sequence[Wanted],
    current: t.Mapping[str, State],
    records: t.Mapping[str, Record],
    shared: t.Collection[str] = (),
) -> list[Step]:
    """The steps from what lies there to what should, in the order in which they are taken.

    A path that the set once managed and that is no longer wanted gets its original back.

    :param shared: directories that another set manages too, and gives back when its turn comes.
    :raises Refused: a link, device or directory stands where a file should, or the like; all such paths are named.
    """
    steps: list[Step] = []
    problems: list[str] = []
    for item in wanted:
        before = current[item.path]
        problem = _obstacle(item, before)
        if problem:
            problems.append(problem)
        elif before != item.state:
            # What was secret before is secret in the diff that makes it public.
            secret = item.secret or (item.path in records and records[item.path].secret)
            steps.append(Step(item.path, before, item.state, secret, item.validate))
    named = {item.path for item in wanted}
    for path, record in records.items():
        before = current[path]
        if path in named or path in shared or before == record.original:
            continue
        if before.kind not in ("missing", record.original.kind) and record.original.kind != "missing":
            problems.append(
                f"{path} is a {before.kind} now and cannot be given back as the {record.original.kind} it was: move it away"
            )
            continue
        edited = before.kind == "file" and before.digest != record.written
        steps.append(Step(path, before, record.original, record.secret, None, record.mtime_ns, edited))
    if problems:
        raise Refused("; ".join(problems))
    return sorted(steps, key=_order)


def remember(
    wanted: t.Sequence[Wanted],
    current: t.Mapping[str, State],
    records: t.Mapping[str, Record],
    shared: t.Mapping[str, Record],
    times: t.Mapping[str, int],
) -> dict[str, Record]:
    """The records once the steps of ``plan`` are taken: of each path that was changed, and of each that holds a secret.

    :param shared: what other sets remember of directories. What was there before the first set is what the last one gives back.
    """
    remembered = {}
    for item in wanted:
        if item.released:
            continue
        before = current[item.path]
        known = records.get(item.path) or shared.get(item.path)
        own = _is_own_directory(item)
        if known or own or item.secret or before != item.state:
            first = known or Record(MISSING if own else before, times.get(item.path))
            # What was secret once stays so: the diff of a later run shows what was there before it.
            secret = first.secret or item.secret
            # Text that lay there already is a person's if it was not written by the set, also where the set wants just this text.
            found = item.path in records and before.digest == item.state.digest
            written = first.written if found else item.state.digest
            remembered[item.path] = dataclasses.replace(first, written=written, secret=secret)
    return remembered


def _is_own_directory(item: Wanted) -> bool:
    """Whether a directory is the collection's own: who made it, a set or a program of the collection, makes no difference."""
    return item.state.kind == "directory" and os.path.basename(item.path).startswith("rigwright")


def _obstacle(item: Wanted, before: State) -> str | None:
    """Why a path cannot become what is wanted, or None."""
    if before.kind == "link":
        return f"{item.path} is a symbolic link: remove it, or name the file that it points to"
    if before.kind not in ("missing", item.state.kind) and not (item.state.kind == "missing" and before.kind == "file"):
        return f"{item.path} is a {before.kind}, not a {item.state.kind if item.state.kind != 'missing' else 'file'}: move it away"
    return None


def _order(step: Step) -> tuple[int, int]:
    """Directories are made before what lies in them and removed after it."""
    if step.after.kind == "directory":
        return (0, step.path.count("/"))
    if step.before.kind == "directory":
        return (2, -step.path.count("/"))
    return (1, 0)
