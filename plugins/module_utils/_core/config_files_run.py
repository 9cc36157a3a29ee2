# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Put a set of rendered files in place as one transaction: the part of ``config_files`` that runs on the target."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shlex
import shutil
import signal
import tempfile
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import config_files_boot as boot
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import (
    Store,
    Transaction,
    new_name,
    refuse_open,
    write,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_diff import diff
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_plan import Step
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_request import Request
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Refused
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Diff

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


class CheckFailed(Exception):
    """A validator or a check has failed."""


class SetResult(t.TypedDict):
    """What the files of one run became."""

    changed: bool
    changed_paths: list[str]
    removed_paths: list[str]
    recovered: bool
    diff: list[Diff]


class ConfigFiles:
    """One run: validate the request, plan, and change the files."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params = module.params
        self.store = Store(self.params["name"])
        payload = json.loads(self.params["contents"])
        contents = {path: text.encode() for path, text in payload["files"].items()}
        for path, program in payload.get("programs", {}).items():
            contents[path] = base64.b64decode(program)
        self.secrets = payload["secrets"]
        self.changes_before = module.check_mode and payload.get("changes_before", False)
        self.version = payload.get("version", "")
        self.digest = payload.get("digest", "")
        self.wanted = Request(module.params, contents, module.check_mode).wanted()
        self.recovered = False

    def run(self) -> SetResult:
        if self.module.check_mode:
            steps = self._plan().steps
            self._validate_ahead(steps)
            return self._result(steps)
        try:
            with self.store.locked():
                transaction = self._recover_and_plan()
                if transaction.due:
                    with self._recovered_at_boot(transaction):
                        self._apply(transaction)
                else:
                    # Also that of a run which was killed before it changed a file.
                    boot.disarm()
                    self._use_unchanged()
                return self._result(transaction.steps)
        finally:
            for kept in self.store.rescued:
                self.module.warn(
                    f"A file that was edited while a run was half done was put back; the edited one is kept as {kept}"
                )

    def _recover_and_plan(self) -> Transaction:
        try:
            if self.store.is_open():
                self._make_way()
            self.recovered = self.store.recover()
            return self._plan()
        except BaseException:
            self._use_old()
            raise

    @contextlib.contextmanager
    def _recovered_at_boot(self, transaction: Transaction) -> t.Iterator[None]:
        """Let a boot in the middle of the transaction restore the files."""
        if transaction.steps:
            boot.arm()
        try:
            yield
        finally:
            boot.disarm()

    def _plan(self) -> Transaction:
        claimed = self.store.owner_of(item.path for item in self.wanted if item.state.kind != "directory")
        if claimed:
            raise Refused(
                "; ".join(f"{path} belongs to the set {name}: one file has one owner" for path, name in claimed.items())
            )
        transaction = Transaction(self.store, self.wanted)
        created = {step.path for step in transaction.steps if step.after.kind == "directory"}
        refuse_open((step.path for step in transaction.steps), created)
        parents = {os.path.dirname(step.path) for step in transaction.steps if step.after.kind != "missing"}
        lost = sorted(path for path in parents - created if not os.path.isdir(path))
        # Check mode does not know which directories a package of an earlier task creates.
        if lost and not self.changes_before:
            raise Refused(f"no such directory: {', '.join(lost)} (list it under directories)")
        return transaction

    def _apply(self, transaction: Transaction) -> None:
        # A hang-up or a termination restores the files at once, instead of leaving that to the next run.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _interrupt)
        try:
            transaction.stage()
            for step in transaction.steps:
                self._validate(step, new_name(step.path))
            self._make_way()
            transaction.commit()
            if transaction.steps:
                self._check()
            self._use()
            _ignore_signals()
            if _signals:
                raise CheckFailed(f"ended by signal {_signals[0]}")
            transaction.finish()
        except BaseException:
            _ignore_signals()
            transaction.rollback()
            self._use_old()
            raise
        for kept in transaction.edited:
            self.module.warn(
                f"The original of a file that was edited by hand was restored; the edited one is kept as {kept}"
            )

    def _use_unchanged(self) -> None:
        try:
            self._use()
        except BaseException:
            self._use_old()
            raise

    def _make_way(self) -> None:
        """Stop what must not run while the files change."""

    def _use(self) -> None:
        """Let services use the files."""

    def _use_old(self) -> None:
        """Let services use the files of before again, which are back in place."""

    def _validate_ahead(self, steps: t.Sequence[Step]) -> None:
        """Validate in check mode, in a private directory and with installed programs: a fresh host does not have them yet."""
        for step in steps:
            if step.validate and shutil.which(shlex.split(step.validate)[0]):
                with tempfile.TemporaryDirectory(prefix="rigwright.") as directory:
                    name = os.path.join(directory, os.path.basename(step.path))
                    write(name, step.after.content or b"")
                    self._validate(step, name)

    def _validate(self, step: Step, name: str) -> None:
        if not step.validate or step.after.kind != "file":
            return
        command = shlex.split(step.validate)
        self._run(
            [argument.replace("%s", name) for argument in command], f"{step.path} is refused by `{step.validate}`"
        )

    def _check(self) -> None:
        for command in self.params["checks"]:
            self._run(shlex.split(command), f"the files of {self.params['name']} are refused by `{command}`")

    def _run(self, command: list[str], complaint: str) -> None:
        try:
            code, out, err = self.module.run_command(command, handle_exceptions=False)
        except OSError as error:
            raise CheckFailed(f"{complaint}: {error.strerror}") from error
        if code != 0:
            raise CheckFailed(f"{complaint} (exit status {code}): {self._redact(err.strip() or out.strip())}")

    def _redact(self, text: str) -> str:
        for word in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(word, "********")
        return text

    def _result(self, steps: t.Sequence[Step]) -> SetResult:
        return {
            "changed": bool(steps) or self.recovered,
            "changed_paths": [step.path for step in steps],
            "removed_paths": [step.path for step in steps if step.after.kind == "missing"],
            "recovered": self.recovered,
            "diff": [diff(step, self.version) for step in steps],
        }


def _ignore_signals() -> None:
    """Ignore signals while the last short steps run, which must not be interrupted."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


# Python drops an exception that is raised while it destroys an object. The run then continues, and checks this list before the end.
_signals: list[int] = []


def _interrupt(number: int, _frame: object) -> t.NoReturn:
    _signals.append(number)
    raise CheckFailed(f"ended by signal {number}")
