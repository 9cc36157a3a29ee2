# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the record of a set of files: the manifest, the journal of a change, and the originals."""

from __future__ import annotations

import hashlib
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import record


class Change(t.TypedDict):
    """The state of a path as the journal has it."""

    kind: str
    mode: int | None
    uid: int | None
    gid: int | None
    digest: str | None


class JournalStep(t.TypedDict):
    """One path of a change."""

    path: str
    before: Change
    after: Change


class Journal(t.TypedDict):
    """A change that has not ended. ``staged``: whether all its files are written."""

    transaction: str
    staged: bool
    steps: list[JournalStep]


class Measured(t.TypedDict, total=False):
    """What the manifest has of the content of an original. Sets of an earlier release have none."""

    digest: str
    size: int


class _Path(t.TypedDict):
    kind: str
    mode: int | None
    uid: int | None
    gid: int | None
    mtime_ns: int | None
    written: str | None
    secret: bool


class Entry(_Path, Measured):
    """A path in the manifest: its original, and what the set wrote last."""


class Manifest(t.TypedDict, total=False):
    """The paths of a set, and the transaction that counts."""

    transaction: str
    paths: dict[str, Entry]


_NUMBER, _TEXT = (int, type(None)), (str, type(None))
_STATE = {"kind": str, "mode": _NUMBER, "uid": _NUMBER, "gid": _NUMBER}
_MANIFEST = {"paths": {str: {**_STATE, "mtime_ns": _NUMBER, "written": _TEXT, "secret": bool}}}
_CHANGE = {**_STATE, "digest": _TEXT}
_JOURNAL = {"transaction": str, "staged": bool, "steps": [{"path": str, "before": _CHANGE, "after": _CHANGE}]}


def read_manifest(folder: str) -> Manifest:
    """Return the manifest of a set, empty where there is none.

    :param folder: the directory of the set.
    :raises Damaged: it is damaged.
    """
    remedy = f"restore it from a backup, or move {folder} away, and what is on the host now counts as its own"
    found: Manifest | None = record.read(os.path.join(folder, "manifest.json"), remedy, _MANIFEST)
    return found or {}


def read_journal(folder: str) -> Journal | None:
    """Return the journal of a change that has not ended, None where there is none.

    :raises Damaged: it is damaged.
    """
    remedy = "compare the files of this set with what they are to be, and remove it"
    found: Journal | None = record.read(os.path.join(folder, "journal.json"), remedy, _JOURNAL)
    return found


def read_original(path: str, entry: Entry) -> bytes:
    """Return the original of a file.

    :param entry: that of the manifest. Sets of an earlier release have no digest in it.
    :raises Damaged: it is not what was kept.
    """
    manifest = os.path.join(os.path.dirname(os.path.dirname(path)), "manifest.json")
    remedy = (
        f'restore it from a backup, or write there what the file was before, and take its "digest" out of {manifest}'
    )
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        raise record.Damaged(path, "it is missing", remedy) from None
    if "digest" in entry and entry["digest"] != measured(content)["digest"]:
        raise record.Damaged(path, f"it has {len(content)} bytes, and {entry.get('size')} others were kept", remedy)
    return content


def measured(content: bytes) -> Measured:
    """Return what the manifest has of an original."""
    return {"digest": hashlib.sha256(content).hexdigest(), "size": len(content)}
