# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Bringing a repository to where its jobs can use it: made, or opened, or given another password.

What says "wrong password" is never taken for "there is none": nothing is made where something answers. And a new password comes beside the
old one first; the old one goes only when the new one is in its file, so a run that is killed in between locks nobody out.
"""

from __future__ import annotations

import json
import os
import pwd
import tempfile
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils import _backup_address as addresses
from ansible_collections.rigwright.workstation.plugins.module_utils._restic import (
    DENIED,
    MISSING,
    WRONG_PASSWORD,
    Outcome,
    judge,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._restic_run import Repository, Restic, probe

Row = dict[str, t.Any]
TIMEOUT_S = 120


class OpenError(Exception):
    """A repository cannot be used; the text says why and what to do."""


def lay_down(entry: t.Mapping[str, t.Any], folder: str, **instead: str) -> Repository:
    """Write the files by which restic reaches a repository into a folder that only root reads.

    :param instead: texts that take the place of the entry's own, by what they are.
    """
    public = addresses.public(entry)
    repository = Repository(
        public["name"],
        folder,
        password_file=public["password_file"],
        ca=public["ca"],
        ssh=public["ssh"],
        options=tuple(public["options"]),
    )
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for what, text in {**addresses.texts(entry), **instead}.items():
        write_secret(repository.file(what), text)
    return repository


class Opener:
    """One repository, with the secrets that are asked for and those that are in place."""

    def __init__(
        self, entry: t.Mapping[str, t.Any], program: str, version: t.Sequence[int], user: str, folder: str, scratch: str
    ) -> None:
        self.entry = entry
        self.name = str(entry["name"])
        self.public = addresses.public(entry)
        self.folder = folder
        self.user = user
        self._program, self._version, self._scratch = program, version, scratch
        self.new = self._restic("new")

    def _restic(self, part: str, **instead: str) -> Restic:
        repository = lay_down(self.entry, os.path.join(self._scratch, part), **instead)
        return Restic(self._program, self._version, repository, "", self.user if self.public["local_path"] else "")

    def old(self) -> Restic | None:
        """The repository by the password that is in place, if it is another one."""
        try:
            with open(os.path.join(self.folder, f"{self.name}.password"), encoding="utf-8") as file:
                before = file.read()
        except FileNotFoundError:
            return None
        if before.rstrip("\n") == str(self.entry.get("password") or ""):
            return None
        return self._restic("old", password=before)

    def open(self, known: t.Mapping[str, t.Any]) -> tuple[str, Row]:
        """What was done, and what is to be remembered.

        :raises OpenError: it cannot be used.
        """
        self._own_directory()
        outcome, identity = probe(self.new)
        record: Row = {"place": self.public["place"], "id": identity}
        for key in ("retire", "kept"):
            if known.get(key):
                record[key] = known[key]
        if outcome.ok:
            old = None if record.get("retire") else self.old()
            # A run that was killed has added the new password, and nobody knows of it.
            if old is not None and probe(old)[0].ok:
                return "password_added", {**record, "retire": self.current_key(old)}
            return ("password_added" if record.get("retire") else "opened"), record
        if outcome.kind == MISSING:
            return "made", {"place": self.public["place"], "id": self._init(outcome)}
        if outcome.kind == WRONG_PASSWORD:
            return "password_added", {**record, **self._add_password()}
        raise OpenError(f"{self.name} cannot be opened: {outcome.words}. To do: {outcome.remedy}")

    def _own_directory(self) -> None:
        """A repository on this machine belongs to the user of the units, who has no other right to write there."""
        path = self.public["local_path"]
        if not path:
            return
        account = pwd.getpwnam(self.user)
        if not os.path.isdir(path):
            os.makedirs(path, mode=0o755, exist_ok=True)
        there = os.listdir(path)
        owner = os.stat(path).st_uid
        if not there and owner != account.pw_uid:
            os.chown(path, account.pw_uid, account.pw_gid)
            os.chmod(path, 0o700)
        elif there and owner != account.pw_uid:
            raise OpenError(
                f"{path} is not empty and belongs to another user than {self.user}: see whether it is the repository that you mean, then "
                f"`chown -R {self.user}: {path}`, or set backup_user"
            )

    def _init(self, outcome: Outcome) -> str:
        if not self.public["init"]:
            raise OpenError(
                f"{self.name} is not there ({outcome.words}), and its `init` is false. To do: {outcome.remedy}"
            )
        made = judge(self.new.run("init", timeout_s=TIMEOUT_S))
        if not made.ok:
            raise OpenError(f"{self.name} cannot be made: {made.words}. To do: {made.remedy}")
        return self._identity()

    def _identity(self) -> str:
        outcome, identity = probe(self.new)
        if not outcome.ok:
            raise OpenError(f"{self.name} cannot be opened: {outcome.words}. To do: {outcome.remedy}")
        return identity

    def _add_password(self) -> Row:
        """Have the repository take the new password beside the old one, which has to open it."""
        old = self.old()
        if old is None:
            raise OpenError(
                f"{self.name} does not take its password, and no other is known here. To do: {Outcome(WRONG_PASSWORD, '').remedy}"
            )
        outcome, _identity = probe(old)
        if not outcome.ok:
            raise OpenError(
                f"{self.name} takes neither the new password nor the one in place: {outcome.words}. To do: {outcome.remedy}"
            )
        key = self.current_key(old)
        old.run("unlock", timeout_s=TIMEOUT_S)
        # root hands the new one on: whom restic runs as may not read its file.
        new_file = self.new.repository.file("password")
        with Handed(new_file, self.user if old.user else "") as handed:
            added = judge(old.run("key", "add", "--new-password-file", handed, timeout_s=TIMEOUT_S))
        if not added.ok:
            raise OpenError(f"{self.name} does not take a further password: {added.words}. To do: {added.remedy}")
        return {"retire": key, "id": self._identity()}

    def current_key(self, restic: Restic) -> str:
        done = restic.run("key", "list", "--json", timeout_s=TIMEOUT_S)
        try:
            return next(str(row["id"]) for row in json.loads(done.out) if row["current"])
        except (ValueError, KeyError, StopIteration):
            raise OpenError(f"{self.name} does not list its keys: {judge(done).words}") from None

    def retire(self, known: t.Mapping[str, t.Any]) -> tuple[str, Row]:
        """Remove the key of the old password, once the new one is in its file.

        :raises OpenError: it cannot be removed, for a reason other than that nothing may be.
        """
        key = str(known["retire"])
        record = {name: value for name, value in known.items() if name != "retire"}
        if self.old() is not None:
            return "opened", dict(known)
        if self.public["append_only"]:
            return "password_kept", {**record, "kept": key}
        self.new.run("unlock", timeout_s=TIMEOUT_S)
        outcome = judge(self.new.run("key", "remove", key, timeout_s=TIMEOUT_S))
        if outcome.ok:
            return "password_retired", record
        if outcome.kind == DENIED:
            return "password_kept", {**record, "kept": key}
        raise OpenError(f"the old password of {self.name} cannot be removed: {outcome.words}. To do: {outcome.remedy}")


class Handed:
    """A secret file as a user may read it, for the time of a block."""

    def __init__(self, path: str, user: str) -> None:
        self.path = path
        self.user = user
        self._folder = ""

    def __enter__(self) -> str:
        if not self.user:
            return self.path
        account = pwd.getpwnam(self.user)
        self._folder = tempfile.mkdtemp(prefix="rigwright-")
        place = os.path.join(self._folder, "password")
        with open(self.path, encoding="utf-8") as file:
            write_secret(place, file.read())
        for path in (place, self._folder):
            os.chown(path, account.pw_uid, account.pw_gid)
        return place

    def __exit__(self, *_error: object) -> None:
        if self._folder:
            os.unlink(os.path.join(self._folder, "password"))
            os.rmdir(self._folder)


def write_secret(path: str, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
