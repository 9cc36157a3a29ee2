#!/usr/bin/python
# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: config_files_apply
short_description: Put rendered configuration files in place (the target's half of config_files)
description:
  - Called by M(rigwright.workstation.config_files) on the target, once for the whole set. Not for playbooks.
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
  - rigwright.workstation.config_files
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  files:
    description: As O(rigwright.workstation.config_files#module:files), without what their content is made from.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: Absolute path., type: str, required: true}
      state:
        description: Whether the file should be there, and whether it is the set's.
        type: str
        choices: [present, released, absent]
        default: present
      mode: {description: Octal mode in quotes., type: raw, default: "0644"}
      owner: {description: User name., type: str, default: root}
      group: {description: Group name., type: str, default: root}
      secret: {description: Whether the content is hidden., type: bool, default: false}
      validate: {description: Command that checks the staged file., type: str}
  contents:
    description:
      - JSON object of C(files) (path and text) and C(secrets) (words that an error must not show).
      - One opaque value, so that no content reaches the target's log.
    type: str
    default: '{"files": {}, "secrets": []}'
"""

EXAMPLES = r"""
- name: Use the action instead
  rigwright.workstation.config_files:
    name: example
    files:
      - path: /etc/example.conf
        content: "words\n"
"""

# The action returns it unchanged: plugins/modules/config_files.py.
RETURN = r""" # """

import base64
import contextlib
import grp
import json
import os
import pwd
import re
import shlex
import shutil
import signal
import tempfile
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core import config_files_boot as boot
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import (
    FILE,
    MISSING,
    SET,
    Refused,
    State,
    Step,
    Store,
    Transaction,
    Wanted,
    new_name,
    write,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.writable import open_to_others


class CheckFailed(Exception):
    """A validator or check said no."""


class ConfigFiles:
    """The request of one run, weighed against what lies on the host."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params = module.params
        self.store = Store(self.params["name"])
        payload = json.loads(self.params["contents"])
        self.contents = {path: text.encode() for path, text in payload["files"].items()}
        for path, program in payload.get("programs", {}).items():
            self.contents[path] = base64.b64decode(program)
        self.secrets = payload["secrets"]
        self.changes_before = module.check_mode and payload.get("changes_before", False)
        self.version = payload.get("version", "")
        self.wanted = self._wanted() if self.params["state"] == "present" else []
        self.recovered = False

    def run(self) -> dict[str, t.Any]:
        if self.module.check_mode:
            steps = self._plan().steps
            self._rehearse(steps)
            return self._result(steps)
        try:
            with self.store.locked():
                self.recovered = self.store.recover()
                transaction = self._plan()
                if transaction.due:
                    with self._recovered_at_boot(transaction):
                        self._apply(transaction)
                elif self.recovered:
                    boot.disarm()
                return self._result(transaction.steps)
        finally:
            for kept in self.store.rescued:
                self.module.warn(
                    f"A file that was edited while a run was half done was put back; the edited one is kept as {kept}"
                )

    @contextlib.contextmanager
    def _recovered_at_boot(self, transaction: Transaction) -> t.Iterator[None]:
        """Have a boot in the middle of the transaction put its files back."""
        if transaction.steps:
            boot.arm()
        try:
            yield
        finally:
            boot.disarm()

    def _wanted(self) -> list[Wanted]:
        directories = [Wanted(item["path"], self._state("directory", item)) for item in self.params["directories"]]
        files = [
            Wanted(
                item["path"],
                self._state("file", item) if item["state"] != "absent" else MISSING,
                item["secret"],
                item["validate"],
                item["state"] == "released",
            )
            for item in self.params["files"]
        ]
        paths = [item.path for item in directories + files]
        twice = sorted({path for path in paths if paths.count(path) > 1})
        if twice:
            raise Refused(f"listed twice: {', '.join(twice)}")
        strange = [path for path in paths if not os.path.isabs(path) or os.path.normpath(path) != path]
        if strange:
            raise Refused(f"not an absolute, plain path: {', '.join(strange)}")
        return directories + files

    def _state(self, kind: str, item: t.Mapping[str, t.Any]) -> State:
        content = self.contents[item["path"]] if kind == "file" else None
        if not isinstance(item["mode"], str) or not re.fullmatch("0[0-7]{3,4}", item["mode"]):
            raise Refused(f'{item["path"]}: mode must be octal text in quotes, such as "0644", and is {item["mode"]!r}')
        return State(kind, content, int(item["mode"], 8), self._id(item, "owner"), self._id(item, "group"))

    def _id(self, item: t.Mapping[str, t.Any], what: str) -> int:
        try:
            return pwd.getpwnam(item["owner"]).pw_uid if what == "owner" else grp.getgrnam(item["group"]).gr_gid
        except KeyError:
            if self.module.check_mode:  # a task before this one would have made it
                return -1
            raise Refused(f"{item['path']}: there is no {what} {item[what]}") from None

    def _plan(self) -> Transaction:
        claimed = self.store.owner_of(item.path for item in self.wanted if item.state.kind != "directory")
        if claimed:
            raise Refused(
                "; ".join(f"{path} belongs to the set {name}: one file has one owner" for path, name in claimed.items())
            )
        transaction = Transaction(self.store, self.wanted)
        made = {step.path for step in transaction.steps if step.after.kind == "directory"}
        parents = {os.path.dirname(step.path) for step in transaction.steps if step.after.kind != "missing"}
        exchangeable = sorted({place for path in parents for place in open_to_others(path)} - made)
        if exchangeable:
            raise Refused(f"others than root may write in {', '.join(exchangeable)}, and could put a link in the way")
        lost = sorted(path for path in parents - made if not os.path.isdir(path))
        # Check mode does not know which directories a package of an earlier task brings.
        if lost and not self.changes_before:
            raise Refused(f"no such directory: {', '.join(lost)} (list it under directories)")
        return transaction

    def _apply(self, transaction: Transaction) -> None:
        # A hang-up or a termination takes the files back too, instead of leaving that to the next run.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _interrupt)
        try:
            transaction.stage()
            for step in transaction.steps:
                self._validate(step, new_name(step.path))
            transaction.commit()
            if transaction.steps:
                self._check()
            _ignore_signals()
            if _signals:
                raise CheckFailed(f"ended by signal {_signals[0]}")
            transaction.finish()
        except BaseException:
            _ignore_signals()
            transaction.rollback()
            raise
        for kept in transaction.edited:
            self.module.warn(f"A file that was edited by hand was given back; the edited one is kept as {kept}")

    def _rehearse(self, steps: t.Sequence[Step]) -> None:
        """Check mode validates in a private place, and only with programs that are there: on a fresh host they are not yet."""
        for step in steps:
            if step.validate and shutil.which(shlex.split(step.validate)[0]):
                with tempfile.TemporaryDirectory(prefix="rigwright.") as directory:
                    name = os.path.join(directory, os.path.basename(step.path))
                    write(name, step.after.content or b"")
                    self._validate(step, name)

    def _validate(self, step: Step, name: str) -> None:
        if not step.validate or step.after.kind != "file":
            return
        words = shlex.split(step.validate)
        self._run([word.replace("%s", name) for word in words], f"{step.path} is refused by `{step.validate}`")

    def _check(self) -> None:
        for command in self.params["checks"]:
            self._run(shlex.split(command), f"the files of {self.params['name']} are refused by `{command}`")

    def _run(self, command: list[str], complaint: str) -> None:
        try:
            code, out, err = self.module.run_command(
                command, handle_exceptions=False, environ_update={"LC_ALL": "C.UTF-8"}
            )
        except OSError as error:
            raise CheckFailed(f"{complaint}: {error.strerror}") from error
        if code != 0:
            raise CheckFailed(f"{complaint} (exit status {code}): {self._redact(err.strip() or out.strip())}")

    def _redact(self, text: str) -> str:
        for word in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(word, "********")
        return text

    def _result(self, steps: t.Sequence[Step]) -> dict[str, t.Any]:
        return {
            "changed": bool(steps) or self.recovered,
            "changed_paths": [step.path for step in steps],
            "removed_paths": [step.path for step in steps if step.after.kind == "missing"],
            "recovered": self.recovered,
            "diff": [_diff(step, self.version) for step in steps],
        }


def _ignore_signals() -> None:
    """What is short and must not stop half-way."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


# Python drops what is raised while it destroys an object: then the run goes on, and looks here before it is final.
_signals: list[int] = []


def _interrupt(number: int, _frame: object) -> t.NoReturn:
    _signals.append(number)
    raise CheckFailed(f"ended by signal {number}")


def _diff(step: Step, version: str) -> dict[str, str]:
    before, after = _described(step.before), _described(step.after)
    same = step.before.digest == step.after.digest
    return {
        "before_header": f"{step.path} ({before})",
        "after_header": f"{step.path} ({after})",
        # Where only mode or owner differ, they are the diff.
        "before": f"{before}\n" if same else _shown(step, step.before, "the content before"),
        "after": f"{after}\n" if same else _shown(step, step.after, "the content after", version),
    }


def _shown(step: Step, state: State, what: str, version: str = "") -> str:
    if state.content is None:
        return ""
    if step.secret:
        return f"({what} is secret)\n"
    text = state.content.decode(errors="replace")
    if not _is_program(step.path, text):
        return text
    of = f" of rigwright.workstation {version}" if version else ""
    return f"program {os.path.basename(step.path)}{of}, {len(state.content)} bytes, sha256 {state.digest}\n"


def _is_program(path: str, text: str) -> bool:
    """Whether a person would rather not read it all: code outside of /etc, where scripts are configuration."""
    return not path.startswith("/etc/") and (path.endswith((".py", ".pyz")) or text.startswith("#!"))


def _described(state: State) -> str:
    if state.mode is None:
        return state.kind
    return f"{state.kind}, mode {state.mode:04o}, owner {state.uid}:{state.gid}"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **SET,
            "files": {"type": "list", "elements": "dict", "default": [], "options": FILE},
            "contents": {"type": "str", "default": '{"files": {}, "secrets": []}', "no_log": True},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**ConfigFiles(module).run())
    except (Refused, CheckFailed) as error:
        module.fail_json(msg=f"{error}. Nothing was changed.")
    except OSError as error:
        module.fail_json(msg=f"{error.filename or ''}: {error.strerror}. Every file is as it was before.")


if __name__ == "__main__":
    main()
