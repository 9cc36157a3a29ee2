# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of a repository on a host: its settings when it was last opened, and its keys.

A repository whose settings have changed since then is due: it is opened again, whatever has changed.
"""

from __future__ import annotations

import dataclasses
import json
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup.address import RepositoryRow
from ansible_collections.rigwright.workstation.plugins.module_utils._core import record as records
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.root_directories import make_directories
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject

RECORD = "/var/lib/rigwright_backup/repositories.json"
_REMEDY = (
    "see that each repository is where it was, and remove this file: the role then opens them again, and creates those that are missing;"
    " `restic key list` has the passwords that still open them"
)
_KEY = 8  # restic from 0.18 on prints keys in full, older versions only their beginning


@dataclasses.dataclass(frozen=True)
class RepositorySettings:
    """The settings of a repository; secrets are fingerprints."""

    place: str = ""
    password: str = ""
    password_file: str = ""
    access: str = ""
    owner: str = ""

    @classmethod
    def of(cls, row: RepositoryRow, user: str, of_file: str = "") -> RepositorySettings:
        """Return the settings of a repository.

        :param row: the repository as _backup.address.public has it.
        :param of_file: fingerprint of the content of its password_file, which only the host can read.
        """
        return cls(
            place=row["place"],
            password=of_file if row["password_file"] else row["fingerprint"],
            password_file=row["password_file"],
            access=row["access"],
            owner=user if row["local_path"] else "",
        )


@dataclasses.dataclass(frozen=True)
class RepositoryRecord:
    """The record of a repository that was opened.

    :ivar key: the key of the password that opens it.
    :ivar retire: keys of older passwords, which go when the new one is in its file.
    :ivar kept: keys of older passwords that the server did not let go.
    """

    asked: RepositorySettings = RepositorySettings()  # kept: a key of the file on hosts
    id: str = ""
    key: str = ""
    retire: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @classmethod
    def of(cls, row: t.Any) -> RepositoryRecord:
        """Parse the record; a damaged one is empty."""
        try:
            keys = {name: tuple(str(key) for key in row[name]) for name in ("retire", "kept")}
            return cls(RepositorySettings(**row["asked"]), str(row["id"]), str(row["key"]), **keys)
        except (TypeError, KeyError):
            return cls()

    def row(self) -> JsonObject:
        """Return plain data, as JSON returns it."""
        return {**dataclasses.asdict(self), "retire": list(self.retire), "kept": list(self.kept)}

    def is_due(self, settings: RepositorySettings) -> bool:
        """Return whether a run of the role has something to do."""
        return self.asked != settings or bool(self.retire)


def read(path: str) -> dict[str, JsonObject]:
    """Return the records of the repositories, by name. Without them a lost repository would be created again, and old keys would stay.

    :raises Damaged: the file is damaged.
    """
    return records.read(path, _REMEDY, {str: dict}) or {}


def write(path: str, rows: t.Mapping[str, JsonObject]) -> None:
    make_directories(os.path.dirname(path), existing=True)
    replace_file(path, json.dumps(rows, indent=1, sort_keys=True) + "\n", 0o600)


def short(key: str) -> str:
    """Return a key as all versions of restic take it."""
    return key[:_KEY]


def read_password(path: str) -> str:
    """Return the password in a file as restic reads it, without blanks around it; empty where there is no such file."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().strip()
    except OSError:
        return ""


def findings(record: t.Mapping[str, JsonObject], names: t.Iterable[str]) -> list[Finding]:
    """Return the findings about keys that the user has to remove."""
    found = []
    for name in names:
        kept = RepositoryRecord.of(record.get(name)).kept
        if kept:
            commands = " and ".join(f"`restic -r /path key remove {key}`" for key in kept)
            found.append(
                finding(
                    f"backup.old_password.{name}",
                    "warn",
                    f"an old password still opens {name}: its server only appends, and so keeps the key",
                    f"remove it on the server: {commands}",
                )
            )
    return found
