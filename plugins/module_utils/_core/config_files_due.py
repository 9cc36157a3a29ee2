# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide, while a role is planned, whether a run of ``config_files`` for a set would change anything."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import STORE, Store, read_state
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import FileRow


def is_due(tree: Tree, name: str, files: t.Iterable[FileRow] = (), directories: t.Iterable[str] = ()) -> bool:
    """Return whether a set is not yet as wanted, or was left half changed. Without files: whether something of it is in place.

    :param files: with ``path`` and ``content``, to be root's with the usual mode.
    :param directories: likewise.
    """
    store = Store(name, tree.at(STORE))
    wanted = {row["path"]: row["content"] for row in files}
    folders = set(directories)
    return (
        os.path.exists(store.journal)
        or bool(store.load().keys() - wanted.keys() - folders)
        or any(not _is(tree, path, "file", 0o644, text.encode()) for path, text in wanted.items())
        or any(not _is(tree, path, "directory", 0o755, None) for path in folders)
    )


def _is(tree: Tree, path: str, kind: str, mode: int, content: bytes | None) -> bool:
    found = read_state(tree.at(path))
    # A plan runs as root.
    owner = (os.geteuid(), os.getegid())
    return (found.kind, found.mode, found.content, (found.uid, found.gid)) == (kind, mode, content, owner)
