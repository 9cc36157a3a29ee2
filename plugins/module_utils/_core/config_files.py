# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Change a set of files as one transaction, and keep what is needed to restore the previous files.

``Transaction`` takes the steps of ``config_files_plan`` so that the previous state can be restored at every moment, also
after ``kill -9`` or a power cut: an old file stays as a hard link (same inode, so owner, mode, times and attributes are
exactly the old ones) until the whole set has passed its checks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import shutil
import stat
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import (
    clear_unfinished,
    replace_file,
    sync_directory,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_plan import (
    MISSING,
    Record,
    State,
    Step,
    Wanted,
    plan,
    remember,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_record import (
    Change,
    Entry,
    Journal,
    JournalStep,
    measured,
    read_journal,
    read_manifest,
    read_original,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_state import (
    STORE,
    journal_of,
    manifest_of,
    names_of_sets,
    read_state,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import Busy, host_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Refused
from ansible_collections.rigwright.workstation.plugins.module_utils._core.record import Damaged
from ansible_collections.rigwright.workstation.plugins.module_utils._core.writable import is_roots, open_problem

LOCK = "config_files"
# A run holds the lock while its units start, which may take minutes.
LOCK_SECONDS = 300


def refuse_open(paths: t.Iterable[str], closed: t.Collection[str] = ()) -> None:
    """Refuse to create, replace or remove files below directories in which other users may write.

    :param closed: directories whose owner and mode the same transaction sets.
    :raises Refused: names the directories.
    """
    problem = open_problem({os.path.dirname(path) for path in paths}, closed=closed)
    if problem:
        raise Refused(problem)


class Store:
    """The record of one set, in a directory that only root reads: originals, the journal, files edited by hand."""

    def __init__(self, name: str, root: str = STORE) -> None:
        self.name = name
        self.root = root
        self.path = os.path.join(root, name)
        self.manifest = manifest_of(name, root)
        self.journal = journal_of(name, root)
        # Copies of the files that a recovery replaced by older ones.
        self.rescued: list[str] = []

    @contextlib.contextmanager
    def locked(self) -> t.Iterator[None]:
        """Let one run at a time change files on a host.

        :raises Refused: another run held the lock for ``LOCK_SECONDS``.
        """
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(host_lock(LOCK, LOCK_SECONDS))
            except Busy as error:
                raise Refused(str(error)) from None
            yield

    def is_open(self) -> bool:
        """Return whether an interrupted run, or one that is at work, has left the set half changed."""
        return os.path.exists(self.journal)

    def load(self) -> dict[str, Record]:
        return {path: self._record(path, entry) for path, entry in self._entries().items()}

    def owner_of(self, paths: t.Iterable[str]) -> dict[str, str]:
        """Return the paths that another set manages, with the name of the set."""
        claimed = {path: other.name for other in self._others() for path in other.readable_entries()}
        return {path: claimed[path] for path in paths if path in claimed}

    def shared(self, directories: t.Iterable[str]) -> dict[str, Record]:
        """Return the directories that another set manages too, with its records of them."""
        wanted = set(directories)
        return {
            path: other._record(path, entry)
            for other in self._others()
            for path, entry in other.readable_entries().items()
            if path in wanted
        }

    def _others(self) -> list[Store]:
        return [Store(name, self.root) for name in names_of_sets(self.root) if name != self.name]

    def _entries(self) -> dict[str, Entry]:
        return read_manifest(self.path).get("paths", {})

    def readable_entries(self) -> dict[str, Entry]:
        """Return the entries of another set, none of one whose manifest is damaged: its own run refuses that."""
        try:
            return self._entries()
        except Damaged:
            return {}

    def _record(self, path: str, entry: Entry) -> Record:
        content = read_original(self._blob(path), entry) if entry["kind"] == "file" else None
        original = State(entry["kind"], content, entry["mode"], entry["uid"], entry["gid"])
        return Record(original, entry["mtime_ns"], entry["written"], entry["secret"])

    def _blob(self, path: str) -> str:
        return os.path.join(self.path, "originals", _flat(path))

    def keep_original(self, path: str, original: State) -> None:
        os.makedirs(os.path.join(self.path, "originals"), mode=0o700, exist_ok=True)
        if original.content is not None:
            write(self._blob(path), original.content)

    def keep_edited(self, path: str, found: State) -> str:
        """Save a file that a person edited, before its original is restored; return where."""
        kept = os.path.join(self.path, "edited", _flat(path))
        os.makedirs(os.path.dirname(kept), mode=0o700, exist_ok=True)
        write(kept, found.content or b"")
        return kept

    def save(self, records: t.Mapping[str, Record], transaction: str) -> None:
        """Write the manifest with the id of the transaction: from this moment on the transaction counts."""
        paths = {
            path: {
                "kind": kept.original.kind,
                "mode": kept.original.mode,
                "uid": kept.original.uid,
                "gid": kept.original.gid,
                "mtime_ns": kept.mtime_ns,
                "written": kept.written,
                "secret": kept.secret,
                **({} if kept.original.content is None else measured(kept.original.content)),
            }
            for path, kept in records.items()
        }
        write(self.manifest, json.dumps({"transaction": transaction, "paths": paths}, indent=1).encode())

    def forget(self) -> None:
        """Remove the store of a set that manages nothing any more; what a person edited stays."""
        for name in ("manifest.json", "originals"):
            _remove(os.path.join(self.path, name))
        with contextlib.suppress(OSError):
            clear_unfinished(self.path)
            for path in (self.path, self.root, os.path.dirname(self.root)):
                os.rmdir(path)

    def recover(self) -> bool:
        """Restore the files of an interrupted transaction; return True if that changed a path.

        A power cut brings the journal of a finished transaction back: its staged files go, and that is no change.

        :raises Refused: other users may write in a directory on the way, or the record is damaged; nothing was restored.
        """
        journal = read_journal(self.path)
        if journal is None:
            return False
        closed = {
            step["path"] for step in journal["steps"] if "directory" in (step["before"]["kind"], step["after"]["kind"])
        }
        refuse_open((step["path"] for step in journal["steps"]), closed)
        counts = read_manifest(self.path).get("transaction") == journal["transaction"]
        changed = not counts
        if not counts:
            self._undo(journal)
        for step in journal["steps"]:
            _remove(_staging(step["path"]))
            # Last, since a directory that is removed has contained the staged files of the transaction.
            if counts and step["before"]["kind"] == "directory" and step["after"]["kind"] == "missing":
                changed |= _remove_when_empty(step["path"])
        _remove(self.journal)
        sync_directory(self.path)
        return changed

    def _undo(self, journal: Journal) -> None:
        """Take journalled steps back, last first. May be run again after a crash in the middle."""
        for step in reversed(journal["steps"]):
            path, before, after = step["path"], step["before"], step["after"]
            # While the staged file exists, its path was not changed yet: the file there may be a person's.
            if journal["staged"] and not os.path.lexists(new_name(path)):
                self._undo_file(path, before, after)
            _remove(_staging(path))
            if before["kind"] == "directory":
                if not os.path.isdir(path):
                    os.mkdir(path, 0o700)
                _set_owner_and_mode(path, State("directory", None, before["mode"], before["uid"], before["gid"]))
            elif before["kind"] == "missing" and after["kind"] == "directory":
                _remove_when_empty(path)

    def _undo_file(self, path: str, before: Change, after: Change) -> None:
        replaced = os.path.lexists(old_name(path))
        created = before["kind"] == "missing" and after["kind"] == "file"
        if not replaced and not created:
            return
        found = read_state(path)
        if found.kind == "file" and found.digest not in (before["digest"], after["digest"]):
            self.rescued.append(self.keep_edited(path, found))
        if replaced:
            os.rename(old_name(path), path)
        elif found.kind == "file":
            os.unlink(path)


def sets_in_place(root: str = STORE) -> list[str]:
    """Return the names of the sets that manage a path on this host.

    A set whose first run was interrupted is one: units may run with its files.
    """
    found = []
    for store in (Store(name, root) for name in names_of_sets(root)):
        try:
            in_place = bool(store._entries()) or store.is_open()
        except Damaged:
            in_place = True
        found += [store.name] if in_place else []
    return found


class Transaction:
    """The change of one set to the wanted state: ``stage``, ``commit``, the caller's checks, then ``finish`` or ``rollback``.

    :raises Refused: a path cannot be changed.
    """

    def __init__(self, store: Store, wanted: t.Sequence[Wanted]) -> None:
        self.store = store
        self.records = store.load()
        current = {path: read_state(path) for path in {*(item.path for item in wanted), *self.records}}
        shared = store.shared(path for path, state in current.items() if state.kind == "directory")
        times = {path: _mtime_ns(path) for path, state in current.items() if state.kind == "file"}
        self.steps = plan(wanted, current, self.records, shared)
        self.remembered = remember(wanted, current, self.records, shared, times)
        self.id = f"{time.time_ns()}-{os.getpid()}"
        self.due = bool(self.steps) or self.remembered != self.records
        self.made = [step for step in self.steps if step.before.kind == "missing" and step.after.kind == "directory"]
        self.edited: list[str] = []

    def stage(self) -> None:
        """Write everything that needs room on a disk; after this only renames are left. No wanted path is touched.

        :raises OSError: no room, no such owner, a missing parent directory ...; call ``rollback``.
        """
        os.makedirs(self.store.path, mode=0o700, exist_ok=True)
        self._note(staged=False)
        for path in self.remembered.keys() - self.records.keys():
            self.store.keep_original(path, self.remembered[path].original)
        for step in self.steps:
            if step.edited:
                self.edited.append(self.store.keep_edited(step.path, step.before))
            if step in self.made:
                os.mkdir(step.path, 0o700)
                _set_owner_and_mode(step.path, step.after)
            elif step.after.kind == "directory" and not (step.after.mode or 0) & 0o022:
                # Before a file is staged in it: users who may write there until now could create a link in the way.
                _set_owner_and_mode(step.path, step.after)
            elif step.after.kind == "file" or step.before.kind == "file":
                _make_staging(step.path)
                if step.before.kind == "file":
                    _link(step.path, old_name(step.path))
                if step.after.kind == "file":
                    write(new_name(step.path), step.after.content or b"", step.after)
                    if step.after == dataclasses.replace(step.before, content=step.after.content):
                        _copy_attributes(step.path, new_name(step.path))
                    if step.mtime_ns:
                        os.utime(new_name(step.path), ns=(step.mtime_ns, step.mtime_ns))
        self._note(staged=True)

    def _note(self, staged: bool) -> None:
        """Write the journal. Until everything is staged, a recovery knows that no wanted path was touched."""
        journal = {"transaction": self.id, "staged": staged, "steps": [_journal_entry(step) for step in self.steps]}
        write(self.store.journal, json.dumps(journal).encode())

    def commit(self) -> None:
        """Put the staged files in place: one rename each.

        :raises OSError: call ``rollback``.
        """
        for step in self.steps:
            if step.after.kind == "file":
                os.rename(new_name(step.path), step.path)
            elif step.before.kind == "file":
                os.unlink(step.path)
            elif step.after.kind == "directory" and step not in self.made:
                _set_owner_and_mode(step.path, step.after)
        for directory in filter(os.path.isdir, {os.path.dirname(step.path) for step in self.steps}):
            sync_directory(directory)

    def rollback(self) -> None:
        """Restore the state before ``stage``."""
        self.store.recover()
        if not os.path.exists(self.store.manifest):
            self.store.forget()

    def finish(self) -> None:
        """Record what was written, and remove the old files."""
        self.store.save(self.remembered, self.id)
        self.store.recover()
        if not self.remembered:
            self.store.forget()


def _journal_entry(step: Step) -> JournalStep:
    return {"path": step.path, "before": _journal_state(step.before), "after": _journal_state(step.after)}


def _journal_state(state: State) -> Change:
    return {"kind": state.kind, "mode": state.mode, "uid": state.uid, "gid": state.gid, "digest": state.digest}


def _staging(path: str) -> str:
    """Return the staging directory of a path: next to it, so that a rename is atomic; hidden, so that no *.conf pattern matches it."""
    return os.path.join(os.path.dirname(path), f".rigwright.{os.path.basename(path)}")


def _make_staging(path: str) -> None:
    """Create the staging directory of a path.

    :raises OSError: another user has created one.
    """
    directory = _staging(path)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    found = os.lstat(directory)
    if not (stat.S_ISDIR(found.st_mode) and is_roots(found)):
        raise OSError(errno.EEXIST, "is in the way, remove it", directory)


def new_name(path: str) -> str:
    """Return the path of the staged file. It keeps its base name, since programs choose a format by the ending."""
    return os.path.join(_staging(path), os.path.basename(path))


def old_name(path: str) -> str:
    return os.path.join(_staging(path), f"{os.path.basename(path)}.old")


def _link(path: str, name: str) -> None:
    if os.path.lexists(name):
        os.unlink(name)
    try:
        os.link(path, name)
    except OSError as error:
        # File systems without hard links (an EFI partition) get a copy with the same owner, mode and times.
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise
        found = os.stat(path)
        shutil.copy2(path, name)
        os.chown(name, found.st_uid, found.st_gid)


def write(path: str, content: bytes, state: State = MISSING) -> None:
    """Write a file of which a state names owner and mode; it is root's alone unless it does."""
    owner = (-1 if state.uid is None else state.uid, -1 if state.gid is None else state.gid)
    replace_file(path, content, 0o600 if state.mode is None else state.mode, owner)


def _copy_attributes(path: str, copy: str) -> None:
    """Give a file the access control list and the other extended attributes of one with the same owner and mode.

    :raises OSError: an attribute cannot be written.
    """
    names: list[str] = []
    with contextlib.suppress(OSError):  # a file system without attributes
        names = os.listxattr(path)
    for name in names:
        # Of the content, and of a program.
        if name not in ("security.ima", "security.evm", "security.capability"):
            os.setxattr(copy, name, os.getxattr(path, name))


def _set_owner_and_mode(path: str, state: State) -> None:
    """Set owner and mode of a directory, and not those of a link that another user has put there before the directory above was closed."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        # The owner first: chown clears the set-id bits of a mode.
        os.fchown(handle, -1 if state.uid is None else state.uid, -1 if state.gid is None else state.gid)
        if state.mode is not None:
            os.fchmod(handle, state.mode)
    finally:
        os.close(handle)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def _remove_when_empty(path: str) -> bool:
    """Remove a directory if it is empty: files of people and other programs in it stay."""
    with contextlib.suppress(FileNotFoundError):
        if not os.listdir(path):
            os.rmdir(path)
            return True
    return False


def _flat(path: str) -> str:
    return path.strip("/").replace("%", "%25").replace("/", "%2F")


def _mtime_ns(path: str) -> int:
    return os.lstat(path).st_mtime_ns
