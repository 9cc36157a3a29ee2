# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The source of apt that a role adds: its text, the key that signs it, and whether its set of files has to be written."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import STORE, Record, Store
from ansible_collections.rigwright.workstation.plugins.module_utils._core.openpgp import Invalid, armored, parse_keys
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree


def source_text(fields: t.Mapping[str, str]) -> str:
    """Return the deb822 text of a source of packages."""
    return "".join(f"{name}: {value}\n" for name, value in {"Types": "deb", **fields}.items())


def read_key(tree: Tree, path: str, fingerprints: t.Iterable[str]) -> str:
    """Read a key file and return its keys as one armor block; empty unless it has exactly the keys of these fingerprints."""
    try:
        keys = parse_keys(tree.bytes(path))
    except Invalid:
        return ""
    wanted = sorted(fingerprint.replace(" ", "").upper() for fingerprint in fingerprints)
    return armored(keys.packets) if sorted(keys.fingerprints) == wanted else ""


def read_records(tree: Tree, name: str) -> dict[str, Record]:
    """Read the records of a set of config_files by their paths."""
    return Store(name, tree.at(STORE)).load()


def is_due(tree: Tree, name: str, wanted: t.Mapping[str, str], removed: t.Iterable[str] = ()) -> bool:
    """Return whether a set of config_files has to be written.

    :param wanted: the content of each file by its path; empty where it has to be downloaded first, as a key.
    :param removed: files that must not exist.
    """
    written = {path for path, record in read_records(tree, name).items() if record.written}
    return (
        written != wanted.keys()
        or any(not content or tree.text(path) != content for path, content in wanted.items())
        or any(tree.exists(path) for path in removed)
    )
