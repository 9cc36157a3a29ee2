# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Commands of hooks and dumps, run as whom they are to run as."""

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
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.state import DUMP, EXPOSED, HOOK

HOOK_TIMEOUT_S = 300


def environment(user: str) -> dict[str, str]:
    """Return the environment of a command: its user's home, where passwords of databases are, and no secret of the unit.

    :raises KeyError: there is no such user.
    """
    who = pwd.getpwnam(user) if user else pwd.getpwuid(os.geteuid())
    own = {"HOME": who.pw_dir, "USER": who.pw_name, "LOGNAME": who.pw_name, "SHELL": who.pw_shell}
    return {**{key: value for key, value in os.environ.items() if key != "CREDENTIALS_DIRECTORY"}, **own}


class Problem(t.NamedTuple):
    """Why a command was not run, or how it failed: a kind of result, and words. None of the command's: they may be secrets."""

    kind: str
    words: str


def _exposed(command: t.Sequence[str], user: str, path: str) -> str:
    """Return the files of a command of root's that users other than root can change."""
    if user and pwd.getpwnam(user).pw_uid:
        return ""
    found = [shutil.which(word, path=path) or word for word in hooks.run_files(command)]
    return ", ".join(sorted({place for word in found for place in hooks.exposed(word)}))


def _cannot_be_run(error: Exception, user: str) -> str:
    """Return why a command cannot be run, without any of its text."""
    if isinstance(error, OSError):
        return f"cannot be run: {error.strerror}"
    if isinstance(error, KeyError):
        return f"cannot be run: there is no user {user}"
    return "cannot be run: its command or the result has a character that no argument can have"


def run_hook(hook: t.Mapping[str, t.Any], name: str, job: str, result: t.Mapping[str, t.Any]) -> Problem | None:
    """Run a command, and return what is wrong with how it ended.

    :param name: what it is told as, such as `pre[0]`.
    """
    timeout, user = hook.get("timeout_s") or HOOK_TIMEOUT_S, hook.get("user") or ""
    told = {
        "RIGWRIGHT_BACKUP_JOB": job,
        "RIGWRIGHT_BACKUP_RESULT": str(result.get("kind", "")),
        "RIGWRIGHT_BACKUP_WORDS": str(result.get("words", "")),
    }
    try:
        own = environment(user)
        exposed = _exposed(hook["command"], user, own.get("PATH", PATH))
        if exposed:
            return Problem(EXPOSED, f"the hook {name} was not run: others than root can change {exposed}")
        # There is no module whose run_command could be used.
        child = subprocess.Popen(  # pylint: disable=ansible-bad-function,consider-using-with
            hook["command"],
            stdin=subprocess.DEVNULL,
            env={**own, **told},
            start_new_session=True,
            **as_user(user),
        )
    except (OSError, KeyError, ValueError) as error:
        return Problem(HOOK, f"the hook {name} {_cannot_be_run(error, user)}")
    try:
        rc = child.wait(timeout)
    except subprocess.TimeoutExpired:
        end_group(child)
        return Problem(HOOK, f"the hook {name} did not end within {timeout} s")
    return Problem(HOOK, f"the hook {name} ended with {rc}") if rc else None


class Dump:
    """The output of a command on its way to restic. restic sees its end only when the command has ended well."""

    def __init__(self, spec: t.Mapping[str, t.Any]) -> None:
        self.spec = spec
        self.problem = ""
        self.kind = DUMP
        self.bytes = 0
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def feed(self, stdin: t.IO[bytes]) -> bool:
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
                self.kind, self.problem = EXPOSED, f"was not run: others than root can change {exposed}"
                return False
            child = subprocess.Popen(  # pylint: disable=ansible-bad-function,consider-using-with
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                env=own,
                **as_user(user),
            )
        except (OSError, KeyError, ValueError) as error:
            self.problem = _cannot_be_run(error, user)
            return False
        # One that hangs says nothing: its end is not for the reader to see.
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
            self.problem = "ended well and told nothing"
        return not self.problem
