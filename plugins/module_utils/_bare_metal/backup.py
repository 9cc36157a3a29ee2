# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The backup from which a machine is built again, opened as the role backup does."""

from __future__ import annotations

import json
import os
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import address as addresses
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.backup_options import BackupRepositories
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.repository import lay_down
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import (
    ConfigError,
    Restic,
    read_version,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic_outcome import (
    DAMAGED,
    FAILED,
    Done,
    judge,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.steps import WORK
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Spec
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest.document import PATH as MANIFEST
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest.document import Facts

SPEC: Spec = {
    "repository": {"type": "dict", "options": {**addresses.OPTIONS, "name": {"type": "str", "default": "backup"}}},
    "snapshots": {
        "type": "list",
        "elements": "dict",
        "default": [{"id": "latest", "filters": []}],
        "options": {
            "id": {"type": "str", "default": "latest"},
            "filters": {"type": "list", "elements": "str", "default": []},
        },
    },
}
# The message of restic about a file that it could not restore, before it goes on with the next.
_LOST = re.compile(r"^ignoring error for (/.*?): (.*)$", re.MULTILINE)
# The kinds of real losses. Another problem, such as a full disk or a server that is gone, can be fixed, and nothing is lost.
_GONE = (DAMAGED, FAILED)
_SHOWN = 20


class Failed(Exception):
    """A step failed; the text names it, and has its message."""


class Backup:
    """The repository to restore from. Its secrets are in the live system's memory, and never in a command."""

    def __init__(self, entry: BackupRepositories, program: str = "restic", work: str = WORK) -> None:
        """Write the secrets, and find restic."""
        if not entry.get("password") and not entry.get("password_file"):
            raise Failed("the repository has no password: set `password`, or `password_file`")
        try:
            version = read_version(program)
        except ConfigError:
            raise Failed("there is no restic here: install it in the live system") from None
        os.makedirs(f"{work}/cache", mode=0o700, exist_ok=True)
        self.restic = Restic(program, version, lay_down(entry, f"{work}/secrets"), f"{work}/cache")
        path = addresses.public(entry)["local_path"]
        # A disk that is mounted read-only takes no lock, and nobody can prune what is on it meanwhile.
        self.lock = ["--no-lock"] if path and not os.access(path, os.W_OK) else []

    def ask(self, *arguments: str) -> str:
        """Return the output of a command of restic."""
        done = self.restic.run(*self.lock, *arguments)
        outcome = judge(done)
        if not outcome.ok:
            raise Failed(f"restic {arguments[0]}: {outcome.message}")
        return done.out

    def manifest(self, snapshot: Facts) -> Facts:
        """Return the manifest in a snapshot."""
        try:
            found: Facts = json.loads(self.ask("dump", snapshot["id"], MANIFEST))
        except Failed as error:
            raise Failed(
                f"the snapshot {snapshot['id'][:8]} of {', '.join(snapshot['paths'])} has no {MANIFEST} ({error}): "
                "name one that has it first in bare_metal_snapshots, or set bare_metal_manifest to a copy of it"
            ) from error
        return found

    def resolve(self, snapshot: str, filters: t.Sequence[str]) -> Facts:
        """Return the snapshot as it is now: id, host, time, tags, paths.

        :raises Failed: there is none.
        """
        found = json.loads(self.ask("snapshots", "--json", *filters, snapshot) or "[]") or []
        if len(found) != 1:
            raise Failed(f"the repository has no snapshot {' '.join([*filters, snapshot])}: see `restic snapshots`")
        return {
            "id": found[0]["id"],
            "host": found[0].get("hostname", ""),
            "time": found[0]["time"][:19],
            "tags": found[0].get("tags") or [],
            "paths": found[0]["paths"],
        }

    def restore(
        self,
        snapshot: str,
        filters: t.Sequence[str],
        target: str,
        exclude: t.Sequence[str],
        accept_losses: bool = False,
    ) -> list[str]:
        """Restore all that can be read; return the files that could not be.

        :raises Failed: restic could not do its work, or something is lost and that is not accepted.
        """
        arguments = ["restore", *filters, snapshot, "--target", target]
        # 0.14 writes holes out in full. What is there already is compared byte for byte, as restic does by default: by size
        # and time a file with a hole where the backup could not be read would be taken for whole.
        arguments += ["--sparse"] if self.restic.has("sparse") else []
        for path in exclude:
            # The mount point itself comes back, empty.
            arguments += ["--exclude", re.sub(r"([*?[])", r"[\1]", path) + "/*"]
        done = self.restic.run(*self.lock, *arguments)
        outcome = judge(done)
        if outcome.ok:
            return []
        lost = losses(done)
        if not lost:
            raise Failed(f"restic restore: {outcome.message}")
        if not accept_losses:
            raise Failed(
                f"the backup no longer has all of these, and the others are there: {summarize(lost)}. See `restic check --read-data`; "
                "another snapshot may have them. bare_metal_accept_losses: true goes on without them"
            )
        return lost


def losses(done: Done) -> list[str]:
    """Return the files that the backup no longer has; empty where a restore failed for another reason."""
    found = _LOST.findall(done.err)
    gone = all(judge(Done(1, "", why)).kind in _GONE for _path, why in found)
    # With this restic ends when it has tried all files. With anything else there is more that it has not done.
    tried_all = re.search(r"^Fatal: There were (\d+) errors", done.err, re.MULTILINE)
    if not tried_all or not gone:
        return []
    # Of thousands of lines the middle is not kept.
    more = [f"(more: restic reported {tried_all[1]} errors)"] if int(tried_all[1]) > len(found) else []
    return sorted({path for path, _why in found}) + more


def summarize(lost: t.Sequence[str]) -> str:
    """Return the losses in one line."""
    return ", ".join(lost[:_SHOWN]) + (f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else "")
