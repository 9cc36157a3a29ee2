# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""The backup that a machine is built again from, reached as the role backup reaches it."""

from __future__ import annotations

import json
import os
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils import _backup_address as addresses
from ansible_collections.rigwright.workstation.plugins.module_utils._backup_config import ConfigError, read_version
from ansible_collections.rigwright.workstation.plugins.module_utils._backup_open import lay_down
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal_steps import WORK
from ansible_collections.rigwright.workstation.plugins.module_utils._restic import judge
from ansible_collections.rigwright.workstation.plugins.module_utils._restic_run import Restic

Facts = dict[str, t.Any]

MANIFEST = "/var/lib/rigwright/manifest.json"
SPEC = {
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


class Failed(Exception):
    """A step did not work; the text says which, and what it said."""


class Backup:
    """The repository to restore from. Its secrets lie in the live system's memory, and are never in a command."""

    def __init__(self, entry: t.Mapping[str, t.Any], program: str = "restic", work: str = WORK) -> None:
        """:raises Failed: there is no password, or no restic."""
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

    def ask(self, *words: str) -> str:
        """:raises Failed: restic says no."""
        done = self.restic.run(*self.lock, *words)
        outcome = judge(done)
        if not outcome.ok:
            raise Failed(f"restic {words[0]}: {outcome.words}")
        return done.out

    def manifest(self, snapshot: str, filters: t.Sequence[str]) -> Facts:
        found: Facts = json.loads(self.ask("dump", *filters, snapshot, MANIFEST))
        return found

    def restore(self, snapshot: str, filters: t.Sequence[str], target: str, exclude: t.Sequence[str]) -> None:
        words = ["restore", *filters, snapshot, "--target", target]
        # 0.14 writes holes out in full; an interrupted restore is taken up again where it can be told what is there.
        words += ["--sparse"] if self.restic.has("sparse") else []
        words += ["--overwrite", "if-changed"] if self.restic.has("overwrite") else []
        for path in exclude:
            # The mount point itself comes back, empty.
            words += ["--exclude", re.sub(r"([*?[])", r"[\1]", path) + "/*"]
        self.ask(*words)
