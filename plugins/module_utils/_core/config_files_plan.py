# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the steps from the files that are on a host to those that a set wants. Pure."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Refused


@dataclasses.dataclass(frozen=True)
class State:
    """The state of a path: ``missing``, ``file``, ``directory``, or a kind that is never replaced (``link``, ``other``)."""

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
    """The wanted state of a path. An owner that does not exist yet (check mode on a fresh host) has uid -1.

    A *released* path no longer belongs to the set: it stays, and its original is not restored.
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
    """What the store records of a path: its original, what the set wrote last, and whether any of it was secret."""

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
    """Return the steps from the current to the wanted state, in the order in which they are taken.

    The original of a path that the set managed and that is no longer wanted is restored.

    :param shared: directories that another set manages too; the last set restores them.
    :raises Refused: a path is a link, a device or a directory instead of a file, or the like; all such paths are named.
    """
    steps: list[Step] = []
    problems: list[str] = []
    for item in wanted:
        before = current[item.path]
        problem = _obstacle(item, before)
        if problem:
            problems.append(problem)
        elif before != item.state:
            # The diff of a file that becomes public has the secret content before.
            secret = item.secret or (item.path in records and records[item.path].secret)
            steps.append(Step(item.path, before, item.state, secret, item.validate))
    named = {item.path for item in wanted}
    for path, record in records.items():
        before = current[path]
        if path in named or path in shared or before == record.original:
            continue
        if before.kind not in ("missing", record.original.kind) and record.original.kind != "missing":
            problems.append(
                f"{path} is a {before.kind} now and cannot be restored as the {record.original.kind} it was: move it away"
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
    """Return the records after the steps of ``plan``: of each path that was changed, and of each that holds a secret.

    :param shared: records of directories by other sets. The last set restores the state before the first one.
    """
    remembered = {}
    for item in wanted:
        if item.released:
            continue
        before = current[item.path]
        record = records.get(item.path) or shared.get(item.path)
        own = _is_own_directory(item)
        if record or own or item.secret or before != item.state:
            first = record or Record(MISSING if own else before, times.get(item.path))
            # A path stays secret: the diff of a later run shows its previous content.
            secret = first.secret or item.secret
            # A file that the set did not write is a person's, also if its content is what the set wants.
            found = item.path in records and before.digest == item.state.digest
            written = first.written if found else item.state.digest
            remembered[item.path] = dataclasses.replace(first, written=written, secret=secret)
    return remembered


def _is_own_directory(item: Wanted) -> bool:
    """Return True for a directory of the collection, whether a set or one of its programs created it."""
    return item.state.kind == "directory" and os.path.basename(item.path).startswith("rigwright")


def _obstacle(item: Wanted, before: State) -> str | None:
    """Return why a path cannot get the wanted state, or None."""
    if before.kind == "link":
        return f"{item.path} is a symbolic link: remove it, or name the file that it points to"
    if before.kind not in ("missing", item.state.kind) and not (item.state.kind == "missing" and before.kind == "file"):
        return f"{item.path} is a {before.kind}, not a {item.state.kind if item.state.kind != 'missing' else 'file'}: move it away"
    return None


def _order(step: Step) -> tuple[int, int]:
    """Return the sort key of a step: directories are created before their content and removed after it."""
    if step.after.kind == "directory":
        return (0, step.path.count("/"))
    if step.before.kind == "directory":
        return (2, -step.path.count("/"))
    return (1, 0)
