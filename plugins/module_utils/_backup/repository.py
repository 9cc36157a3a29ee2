# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make a repository usable for its jobs: create it, open it, or change its password.

A wrong password never counts as a missing repository: none is created where something answers, nor where one was before.
A new password is first added to the old one, which is removed only when the new one is in its file. A run that is killed in
between locks nobody out.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pwd
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import address as addresses
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.backup_options import BackupRepositories
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.location import give, unfit
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.record import (
    RepositoryRecord,
    RepositorySettings,
    read_password,
    short,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import Repository, Restic, probe
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic_outcome import (
    DENIED,
    MISSING,
    WRONG_PASSWORD,
    Outcome,
    judge,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import UnsafePath, directory

TIMEOUT_S = 120


class OpenError(Exception):
    """A repository cannot be used; the text says why and what to do."""


def lay_down(entry: BackupRepositories, folder: str) -> Repository:
    """Write the files by which restic reaches a repository into a folder that only root can read."""
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
    for kind, text in addresses.texts(entry).items():
        write_secret(repository.file(kind), text)
    return repository


def password_of(entry: BackupRepositories) -> str:
    """Return the password of a repository."""
    return str(entry.get("password") or read_password(str(entry.get("password_file") or "")))


def settings_of(entry: BackupRepositories, user: str) -> RepositorySettings:
    """Return the settings of a repository, as read on the host."""
    public = addresses.public(entry)
    of_file = public["password_file"] and addresses.fingerprint(public["name"], password_of(entry))
    return RepositorySettings.of(public, user, of_file)


class Opener:
    """One repository, with the requested secrets and those that are in place."""

    def __init__(
        self, entry: BackupRepositories, program: str, version: t.Sequence[int], user: str, folder: str, scratch: str
    ) -> None:
        self.entry = entry
        self.name = str(entry["name"])
        self.public = addresses.public(entry)
        self.folder = folder
        self.user = user
        self.program = program
        self._version, self._scratch = version, scratch
        self.new = self._restic("new", entry)
        self.password = password_of(entry)
        if not self.password:
            raise OpenError(f"{self.public['password_file']}, the password_file of {self.name}, has no password")
        self.settings = settings_of(entry, user)

    def _restic(self, part: str, entry: BackupRepositories) -> Restic:
        repository = lay_down(entry, os.path.join(self._scratch, part))
        return Restic(self.program, self._version, repository, "", self.user if self.public["local_path"] else "")

    def older(self, record: RepositoryRecord) -> t.Iterator[Restic]:
        """Yield the repository with the passwords that are in place or were the last ones, if they differ."""
        files = [os.path.join(self.folder, f"{self.name}.password"), record.asked.password_file]
        passwords = {read_password(path) for path in files if path} - {"", self.password}
        for number, password in enumerate(sorted(passwords)):
            yield self._restic(f"old{number}", {**self.entry, "password": password, "password_file": None})

    def open(self, record: RepositoryRecord) -> tuple[str, RepositoryRecord]:
        """Open or create the repository; return what was done, and the record.

        :raises OpenError: it cannot be used.
        """
        self._own_directory(record)
        outcome, identity = probe(self.new)
        if outcome.kind == MISSING:
            return "made", self._make(outcome, record)
        if outcome.kind == WRONG_PASSWORD:
            self._add_password(record)
            outcome, identity = probe(self.new)
        self._demand("opened", outcome)
        self._same(identity, record)
        keys = self._keys(self.new)
        key = _current(keys)
        ours = record if record.id == identity else RepositoryRecord()
        # In the end only this password opens it, whatever earlier runs did, also those that were killed.
        before = {
            *ours.retire,
            ours.key,
            *(_current(self._keys(old)) for old in self.older(record) if probe(old)[0].ok),
        }
        retire = tuple(sorted((before & {*keys}) - {key}))
        kept = tuple(old for old in ours.kept if old in keys and old not in (key, *retire))
        return ("password_added" if retire else "opened"), RepositoryRecord(self.settings, identity, key, retire, kept)

    def _own_directory(self, record: RepositoryRecord) -> None:
        """Give a repository on this machine to the user of the units, who has no other right to write there."""
        path = self.public["local_path"]
        if not path:
            return
        wrong = unfit(path, self.user)
        if wrong:
            raise OpenError(f"{self.name} {wrong.problem}. To do: {wrong.remedy}")
        account = pwd.getpwnam(self.user)
        entries = os.listdir(path) if os.path.isdir(path) else []
        if not entries:
            self._refuse_known(record, "it is empty")
        try:
            owner = self._make_directory(path, account, not entries)
        except UnsafePath as error:
            raise OpenError(f"{self.name}: {error.filename} {error.strerror}. To do: make it a directory") from None
        if owner == account.pw_uid:
            return
        if record.asked.place == self.settings.place and record.asked.owner not in ("", self.user):
            give(path, owner, account)
        else:
            raise OpenError(
                f"{path} is not empty and belongs to another user than {self.user}: see whether it is the repository that you mean, then "
                f"`chown -R {self.user}: {path}`, or set backup_user"
            )

    def _make_directory(self, path: str, account: pwd.struct_passwd, is_empty: bool) -> int:
        """Give an empty directory to the user of the units, or create a missing one; return its owner."""
        with directory(path, make=is_empty) as handle:
            if is_empty and not os.listdir(handle):
                os.fchown(handle, account.pw_uid, account.pw_gid)
                os.fchmod(handle, 0o700)
            return os.fstat(handle).st_uid

    def _make(self, outcome: Outcome, record: RepositoryRecord) -> RepositoryRecord:
        """Create the repository where there is none, and none was before."""
        self._refuse_known(record, outcome.message)
        if not self.public["init"]:
            raise OpenError(
                f"{self.name} is not there ({outcome.message}), and its `init` is false. To do: {outcome.remedy}"
            )
        keys = os.path.join(self.public["local_path"], "keys")
        if self.public["local_path"] and os.path.isdir(keys) and os.listdir(keys):
            raise OpenError(self._half("has keys and no config"))
        self._demand("made", judge(self.new.run("init", timeout_s=TIMEOUT_S)))
        outcome, identity = probe(self.new)
        found = self._keys(self.new) if outcome.ok else {}
        if len(found) != 1:
            raise OpenError(self._half("has keys of another making"))
        return RepositoryRecord(self.settings, identity, _current(found))

    def _half(self, problem: str) -> str:
        return (
            f"{self.name} {problem}: its making was cut short, or its config was lost. To do: where there is nothing below `data`, "
            "remove its other files and run the role again; else bring `config` back from a copy"
        )

    def _refuse_known(self, record: RepositoryRecord, reason: str) -> None:
        if record.id and record.asked.place == self.settings.place:
            raise OpenError(
                f"{self.name} is not where it was ({reason}), and none is made in its place. To do: mount its disk, or bring it back; "
                "if it is lost, give the new one another name in backup_repositories"
            )

    def _same(self, identity: str, record: RepositoryRecord) -> None:
        if record.id and record.asked.place == self.settings.place and record.id != identity:
            raise OpenError(
                f"{self.name} is another repository than before ({identity[:8]}, not {record.id[:8]}). To do: bring the one before back, "
                "or give this one another name in backup_repositories"
            )

    def _demand(self, done: str, outcome: Outcome) -> None:
        if not outcome.ok:
            raise OpenError(f"{self.name} cannot be {done}: {outcome.message}. To do: {outcome.remedy}")

    def _add_password(self, record: RepositoryRecord) -> None:
        """Add the new password to the repository, which an old one has to open."""
        remedy = Outcome(WRONG_PASSWORD, "").remedy
        reason = "does not take its password, and no other is known here"
        for old in self.older(record):
            outcome, identity = probe(old)
            if outcome.ok:
                break
            reason = f"takes neither the new password nor the one in place: {outcome.message}"
            remedy = outcome.remedy
        else:
            raise OpenError(f"{self.name} {reason}. To do: {remedy}")
        self._same(identity, record)
        old.run("unlock", timeout_s=TIMEOUT_S)
        file = self.new.repository.password_file or self.new.repository.file("password")
        added = judge(old.run("key", "add", "--new-password-file", file, timeout_s=TIMEOUT_S))
        if not added.ok:
            raise OpenError(f"{self.name} does not take a further password: {added.message}. To do: {added.remedy}")

    def _keys(self, restic: Restic) -> dict[str, bool]:
        """Return the keys, and whether each is that of the password which opens it now."""
        done = restic.run("--no-lock", "key", "list", "--json", timeout_s=TIMEOUT_S)
        try:
            return {short(str(row["id"])): bool(row["current"]) for row in json.loads(done.out)}
        except (ValueError, KeyError, TypeError):
            raise OpenError(f"{self.name} does not list its keys: {judge(done).message}") from None

    def retire(self, record: RepositoryRecord) -> tuple[str, RepositoryRecord]:
        """Remove the keys of old passwords, when the units already read the new one.

        :raises OpenError: one cannot be removed, for a reason other than that nothing may be.
        """
        keys = self._keys(self.new)
        going = [key for key in record.retire if not keys.get(key, True)]
        kept = [key for key in going if not self._remove(key)]
        remaining = dataclasses.replace(record, retire=(), kept=(*record.kept, *kept))
        return ("password_kept" if kept else "password_retired"), remaining

    def _remove(self, key: str) -> bool:
        """Remove a key; return whether the server has done so."""
        if self.public["append_only"]:
            return False
        self.new.run("unlock", timeout_s=TIMEOUT_S)
        outcome = judge(self.new.run("key", "remove", key, timeout_s=TIMEOUT_S))
        if not outcome.ok and outcome.kind != DENIED:
            raise OpenError(
                f"the old password of {self.name} cannot be removed: {outcome.message}. To do: {outcome.remedy}"
            )
        return outcome.ok


def _current(keys: t.Mapping[str, bool]) -> str:
    return next((key for key, current in keys.items() if current), "")


def write_secret(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
