# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the commands of hooks and dumps as their users."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import subprocess
import threading
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import hooks
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import PATH, as_user, end_group
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.results import Result
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.state import DUMP, EXPOSED, HOOK
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.value_types import CommandRow
from ansible_collections.rigwright.workstation.plugins.module_utils._core import programs

HOOK_TIMEOUT_S = 300


def environment(user: str) -> dict[str, str]:
    """Return the environment of a command: with its user's home, where passwords of databases are, and no secret of the unit.

    :raises KeyError: there is no such user.
    """
    account = pwd.getpwnam(user) if user else pwd.getpwuid(os.geteuid())
    own = {"HOME": account.pw_dir, "USER": account.pw_name, "LOGNAME": account.pw_name, "SHELL": account.pw_shell}
    return {**{key: value for key, value in os.environ.items() if key != "CREDENTIALS_DIRECTORY"}, **own}


class Failure(t.NamedTuple):
    """Why a command was not run, or how it failed. The message has no word of the command, which may be a secret."""

    kind: str
    message: str

    def result(self) -> Result:
        """Return the failure as the result of a run."""
        return {"kind": self.kind, "words": self.message}


def _exposed(command: t.Sequence[str], user: str, path: str) -> str:
    """Return which files of a command users other than root can change, where root runs it."""
    if user and pwd.getpwnam(user).pw_uid:
        return ""
    found = [shutil.which(word, path=path) or word for word in hooks.run_files(command)]
    return ", ".join(sorted({place for word in found for place in hooks.exposed(word)}))


def _cannot_be_run(error: Exception, user: str) -> str:
    """Return why a command cannot be run, without any word of it."""
    if isinstance(error, OSError):
        return f"cannot be run: {error.strerror}"
    if isinstance(error, KeyError):
        return f"cannot be run: there is no user {user}"
    return "cannot be run: its command or the result has a character that no argument can have"


def run_hook(hook: CommandRow, name: str, job: str, result: Result) -> Failure | None:
    """Run a hook; return how it failed, or None.

    :param name: the name of the hook in messages, such as `pre[0]`.
    """
    timeout, user = hook.get("timeout_s") or HOOK_TIMEOUT_S, hook.get("user") or ""
    variables = {
        "RIGWRIGHT_BACKUP_JOB": job,
        "RIGWRIGHT_BACKUP_RESULT": str(result.get("kind", "")),
        "RIGWRIGHT_BACKUP_WORDS": str(result.get("words", "")),
    }
    try:
        own = environment(user)
        exposed = _exposed(hook["command"], user, own.get("PATH", PATH))
        if exposed:
            return Failure(EXPOSED, f"the hook {name} was not run: users other than root can change {exposed}")
        child = programs.start(
            hook["command"],
            {**own, **variables},
            {},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            **as_user(user),
        )
    except (OSError, KeyError, ValueError) as error:
        return Failure(HOOK, f"the hook {name} {_cannot_be_run(error, user)}")
    try:
        rc = child.wait(timeout)
    except subprocess.TimeoutExpired:
        end_group(child)
        return Failure(HOOK, f"the hook {name} did not end within {timeout} s")
    return Failure(HOOK, f"the hook {name} ended with {rc}") if rc else None


class Dump:
    """The output of a command on its way to restic. restic sees its end only when the command has ended well."""

    def __init__(self, spec: CommandRow) -> None:
        self.spec = spec
        self.problem = ""
        self.kind = DUMP
        self.bytes = 0
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def feed(self, stdin: t.IO[bytes]) -> bool:
        """Write the output of the command to restic; return whether it is complete."""
        command, timeout = self.spec["command"], self.spec.get("timeout_s") or 0
        user = self.spec.get("user") or ""
        late: list[bool] = []

        def give_up() -> None:
            late.append(True)
            end_group(child)

        try:
            own = environment(user)
            exposed = _exposed(command, user, own.get("PATH", PATH))
            if exposed:
                self.kind, self.problem = EXPOSED, f"was not run: users other than root can change {exposed}"
                return False
            child = programs.start(
                command,
                own,
                {},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                **as_user(user),
            )
        except (OSError, KeyError, ValueError) as error:
            self.problem = _cannot_be_run(error, user)
            return False
        # A command that hangs writes nothing, so the reader cannot notice the time limit.
        timer = threading.Timer(timeout, give_up)
        if timeout:
            timer.start()
        try:
            for block in iter(lambda: child.stdout.read(1 << 20) if child.stdout else b"", b""):
                stdin.write(block)
                self._digest.update(block)
                self.bytes += len(block)
            rc = child.wait()
        except BaseException:
            end_group(child)
            raise
        finally:
            timer.cancel()
        if late:
            self.problem = f"did not end within {timeout} s"
        elif rc:
            self.problem = f"ended with {rc}"
        elif not self.bytes and not self.spec.get("may_be_empty"):
            self.problem = "ended well without output"
        return not self.problem
