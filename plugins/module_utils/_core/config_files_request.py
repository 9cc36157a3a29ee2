# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Validate a request for a set of files: the arguments that the action and its module share, and the paths that they name."""

from __future__ import annotations

import dataclasses
import os
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_plan import (
    MISSING,
    State,
    Wanted,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_state import read_state
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Refused
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import (
    DirectoryRow,
    FileRow,
    SetRequest,
    Spec,
)

# The arguments that the action and its module have in common.
DIRECTORY: Spec = {
    "path": {"type": "str", "required": True},
    # raw: of an unquoted 0644, which YAML reads as the number 420, "str" would make "420", another octal mode.
    "mode": {"type": "raw", "default": "0755"},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str", "default": "root"},
}
FILE: Spec = {
    **DIRECTORY,
    "mode": {"type": "raw", "default": "0644"},
    "state": {"type": "str", "choices": ["present", "released", "absent"], "default": "present"},
    "merged": {"type": "bool", "default": False},
    "secret": {"type": "bool", "default": False},
    "validate": {"type": "str"},
}
UNIT: Spec = {
    "name": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
    "enabled": {"type": "bool"},
    "restart_on": {"type": "list", "elements": "path", "default": []},
    "reload_on": {"type": "list", "elements": "path", "default": []},
    "loaded": {"type": "list", "elements": "path", "default": []},
    "may_restart": {"type": "bool", "default": True},
    "validate": {"type": "str"},
}
UNITS: Spec = {
    "units": {"type": "list", "elements": "dict", "default": [], "options": UNIT},
    "changed_paths": {"type": "list", "elements": "path", "default": []},
    "settle": {"type": "float", "default": 1.0},
}
SET: Spec = {
    "name": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "directories": {"type": "list", "elements": "dict", "default": [], "options": DIRECTORY},
    "checks": {"type": "list", "elements": "str", "default": []},
    **UNITS,
}


class Request:
    """The parameters of one run, with the content of each file."""

    def __init__(self, params: SetRequest, contents: t.Mapping[str, bytes], check_mode: bool) -> None:
        self.params = params
        self.contents = contents
        self.check_mode = check_mode

    def wanted(self) -> list[Wanted]:
        """Return the directories and files that the set should have; none when it should be absent.

        :raises Refused: a path, a mode, an owner or a group is not usable.
        """
        if self.params["state"] != "present":
            return []
        directories = [Wanted(item["path"], self._state("directory", item)) for item in self.params["directories"]]
        files = [self._file(item) for item in self.params["files"]]
        paths = [item.path for item in directories + files]
        repeated = sorted({path for path in paths if paths.count(path) > 1})
        if repeated:
            raise Refused(f"listed twice: {', '.join(repeated)}")
        unusable = [path for path in paths if not os.path.isabs(path) or os.path.normpath(path) != path]
        if unusable:
            raise Refused(f"not an absolute, plain path: {', '.join(unusable)}")
        return directories + files

    def _file(self, item: FileRow) -> Wanted:
        state = self._state("file", item) if item["state"] != "absent" else MISSING
        secret = item["secret"]
        found = read_state(item["path"]) if item.get("merged") and state is not MISSING else MISSING
        if found.kind == "file":
            state = dataclasses.replace(state, mode=found.mode, uid=found.uid, gid=found.gid)
            secret = secret or not (found.mode or 0) & 0o004
        return Wanted(item["path"], state, secret, item["validate"], item["state"] == "released")

    def _state(self, kind: str, item: DirectoryRow) -> State:
        content = self.contents[item["path"]] if kind == "file" else None
        if not isinstance(item["mode"], str) or not re.fullmatch("0[0-7]{3,4}", item["mode"]):
            raise Refused(f'{item["path"]}: mode must be octal text in quotes, such as "0644", and is {item["mode"]!r}')
        uid, gid = accounts.uid_of(item["owner"]), accounts.gid_of(item["group"])
        for key, name, number in (("owner", item["owner"], uid), ("group", item["group"], gid)):
            # In check mode a task before this one would have created it.
            if number is None and not self.check_mode:
                raise Refused(f"{item['path']}: there is no {key} {name}")
        return State(kind, content, int(item["mode"], 8), -1 if uid is None else uid, -1 if gid is None else gid)
