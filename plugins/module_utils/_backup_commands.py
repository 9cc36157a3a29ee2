# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Commands of hooks and dumps, run as whom they are to run as."""

from __future__ import annotations

import hashlib
import os
import pwd
import subprocess
import threading
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._restic_run import as_user, end_group

HOOK_TIMEOUT_S = 300


def environment(user: str) -> dict[str, str]:
    """What a command finds in its environment: its user's home, where passwords of databases lie, and no secret of the unit.

    :raises KeyError: there is no such user.
    """
    who = pwd.getpwnam(user) if user else pwd.getpwuid(os.geteuid())
    own = {"HOME": who.pw_dir, "USER": who.pw_name, "LOGNAME": who.pw_name, "SHELL": who.pw_shell}
    return {**{key: value for key, value in os.environ.items() if key != "CREDENTIALS_DIRECTORY"}, **own}


def run_hook(hook: t.Mapping[str, t.Any], job: str, result: t.Mapping[str, t.Any]) -> str:
    """Run a command, and return what is wrong with how it ended. Of its words only the first is told: others may be secrets."""
    timeout = hook.get("timeout_s") or HOOK_TIMEOUT_S
    program, user = hook["command"][0], hook.get("user") or ""
    told = {
        "RIGWRIGHT_BACKUP_JOB": job,
        "RIGWRIGHT_BACKUP_RESULT": str(result.get("kind", "")),
        "RIGWRIGHT_BACKUP_WORDS": str(result.get("words", "")),
    }
    try:
        # There is no module whose run_command could be used.
        child = subprocess.Popen(  # pylint: disable=ansible-bad-function,consider-using-with
            hook["command"],
            stdin=subprocess.DEVNULL,
            env={**environment(user), **told},
            start_new_session=True,
            **as_user(user),
        )
    except (OSError, KeyError) as error:
        return f"`{program}` cannot be run: {error}"
    try:
        rc = child.wait(timeout)
    except subprocess.TimeoutExpired:
        end_group(child)
        return f"`{program}` did not end within {timeout} s"
    return f"`{program}` ended with {rc}" if rc else ""


class Dump:
    """The output of a command on its way to restic. restic sees its end only when the command has ended well."""

    def __init__(self, spec: t.Mapping[str, t.Any]) -> None:
        self.spec = spec
        self.problem = ""
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
            child = subprocess.Popen(  # pylint: disable=ansible-bad-function,consider-using-with
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                env=environment(user),
                **as_user(user),
            )
        except (OSError, KeyError) as error:
            self.problem = f"cannot be run: {error}"
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
