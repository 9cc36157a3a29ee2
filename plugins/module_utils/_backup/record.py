# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""What a host remembers of a repository: how it was asked for when it was last opened, and which keys of it are whose.

A repository that is asked for otherwise than then is due: it is opened again, whatever it is that has changed.
"""

from __future__ import annotations

import dataclasses
import typing as t

RECORD = "/var/lib/rigwright_backup/repositories.json"
_KEY = 8  # restic from 0.18 on tells keys in full, those before the beginning

Row = dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Asked:
    """How a repository is asked for. What is secret is a fingerprint."""

    place: str = ""
    password: str = ""
    password_file: str = ""
    access: str = ""
    owner: str = ""

    @classmethod
    def of(cls, row: t.Mapping[str, t.Any], user: str, of_file: str = "") -> Asked:
        """Return the request for a repository.

        :param row: the repository as _backup.address.public has it.
        :param of_file: fingerprint of what its password_file has, which only the host can tell.
        """
        return cls(
            place=row["place"],
            password=of_file if row["password_file"] else row["fingerprint"],
            password_file=row["password_file"],
            access=row["access"],
            owner=user if row["local_path"] else "",
        )


@dataclasses.dataclass(frozen=True)
class Known:
    """A repository that was opened.

    :ivar key: the key of the password that opens it.
    :ivar retire: keys of older passwords, which go when the new one is in its file.
    :ivar kept: keys of older passwords that the server did not let go.
    """

    asked: Asked = Asked()
    id: str = ""
    key: str = ""
    retire: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @classmethod
    def of(cls, row: t.Any) -> Known:
        """From the record; what is damaged is not known."""
        try:
            keys = {name: tuple(str(key) for key in row[name]) for name in ("retire", "kept")}
            return cls(Asked(**row["asked"]), str(row["id"]), str(row["key"]), **keys)
        except (TypeError, KeyError):
            return cls()

    def row(self) -> Row:
        """For the record, as JSON gives it back."""
        return {**dataclasses.asdict(self), "retire": list(self.retire), "kept": list(self.kept)}

    def is_due(self, asked: Asked) -> bool:
        """Return whether a run of the role has something to do."""
        return self.asked != asked or bool(self.retire)


def short(key: str) -> str:
    """Return a key as all versions of restic take it."""
    return key[:_KEY]


def read_password(path: str) -> str:
    """Read a password as restic does, without blanks around it; nothing where there is no such file."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().strip()
    except OSError:
        return ""


def findings(record: t.Mapping[str, t.Any], names: t.Iterable[str]) -> list[Row]:
    """Return what a person has to do at the repositories."""
    found = []
    for name in names:
        kept = Known.of(record.get(name)).kept
        if kept:
            commands = " and ".join(f"`restic -r /path key remove {key}`" for key in kept)
            found.append(
                {
                    "id": f"backup.old_password.{name}",
                    "status": "warn",
                    "evidence": f"an old password still opens {name}: its server only appends, and so keeps the key",
                    "remedy": f"remove it on the server: {commands}",
                }
            )
    return found
