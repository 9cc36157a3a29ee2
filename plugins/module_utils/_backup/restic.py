# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run restic on a repository without showing a secret to other users."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pwd
import re
import signal
import subprocess
import threading
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic_outcome import (
    FAILED,
    LOCKED,
    SINCE,
    Done,
    Outcome,
    judge,
    parse_version,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core import programs

_LIMIT = 2500  # first lines of stderr that are kept, and as many last ones
_PATIENCE_S = 10
_AGAIN_S = 5.0
# restic ignores SIGTERM while it waits for its input.
_RESTLESS_S = 3
# The capabilities that restic needs to read all files, and to restore them.
READ = ("dac_read_search",)
RESTORE = ("chown", "dac_override", "dac_read_search", "fowner", "fsetid", "mknod", "setfcap")
_SFTP_URL = re.compile(
    r"sftp://(?P<user>[^@:/\s-][^@:/\s]*@)?(?:(?P<ip>\[[0-9A-Fa-f:.]+\])|(?P<host>[^@:/\s\[-][^@:/\s]*))(?::(?P<port>\d+))?/\S.*"
)
_SFTP_SHORT = re.compile(r"sftp:(?P<user>[^@:/\s-][^@:/\s]*@)?(?P<host>[^@:/\s\[-][^@:/\s]*):\S.*")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ConfigError(Exception):
    """A request does not fit the configuration; the text names the problem and the remedy."""


@dataclasses.dataclass(frozen=True)
class Repository:
    """How restic reaches a repository. Secrets are files in `folder`, and reach restic only as files or in its environment."""

    name: str
    folder: str
    password_file: str = ""
    ca: bool = False
    ssh: bool = False
    options: tuple[str, ...] = ()

    def file(self, kind: str) -> str:
        return os.path.join(self.folder, f"{self.name}.{kind}")

    def environment(self, as_values: bool = False) -> dict[str, str]:
        """Return the environment of restic, which only its user and root can read.

        :param as_values: for a restic that root runs as somebody who may not read the files.
        """
        try:
            with open(self.file("environment"), encoding="utf-8") as file:
                own = {str(key): str(value) for key, value in json.load(file).items()}
        except FileNotFoundError:
            own = {}
        files = {
            "RESTIC_REPOSITORY": self.file("address"),
            "RESTIC_PASSWORD": self.password_file or self.file("password"),
        }
        if not as_values:
            return {**own, **{f"{name}_FILE": path for name, path in files.items()}}
        for name, path in files.items():
            with open(path, encoding="utf-8") as file:
                own[name] = file.read().rstrip("\n")
        return own

    def free(self) -> int:
        """Return how many bytes are free where it lies; -1 if that is not this machine or cannot be known."""
        try:
            with open(self.file("address"), encoding="utf-8") as file:
                path = re.sub(r"^local:", "", file.read().strip())
            if not path.startswith("/"):
                return -1
            room = os.statvfs(path)
        except OSError:
            return -1
        return room.f_bavail * room.f_frsize

    def arguments(self) -> list[str]:
        found = [word for option in self.options for word in ("--option", option)]
        if self.ca:
            found += ["--cacert", self.file("ca")]
        if self.ssh:
            found += ["--option", f"sftp.command={self.ssh_command()}"]
        return found

    def ssh_command(self) -> str:
        """Return the command of ssh: it asks no question, trusts only the given keys, and ends when the connection is dead."""
        with open(self.file("address"), encoding="utf-8") as file:
            target, port = parse_sftp(file.read().strip())
        known_hosts = self.file("known_hosts")
        command = ["ssh", target, "-p", port, "-i", self.file("ssh_key"), "-F", "none"]
        for option in (
            "BatchMode=yes",
            "IdentitiesOnly=yes",
            f"UserKnownHostsFile={known_hosts}",
            "StrictHostKeyChecking=yes",
            "ServerAliveInterval=60",
            "ServerAliveCountMax=4",
        ):
            command += ["-o", option]
        return " ".join([*command, "-s", "sftp"])


def parse_sftp(address: str) -> tuple[str, str]:
    """Return login and host (`user@host`) and port of an address of sftp; empty for another address."""
    found = _SFTP_URL.fullmatch(address) or _SFTP_SHORT.fullmatch(address)
    if not found:
        return "", ""
    parts = found.groupdict()
    host = (parts.get("ip") or parts["host"]).strip("[]")
    return f"{parts['user'] or ''}{host}", parts.get("port") or "22"


class Restic:
    """restic on one repository, under one user's cache.

    :param user: the user that root runs it as, with the capabilities in `rights`: the owner of a repository on this machine.
    """

    def __init__(
        self, program: str, version: t.Sequence[int], repository: Repository, cache: str = "", user: str = ""
    ) -> None:
        self.program = program
        self.version = tuple(version)
        self.repository = repository
        self.cache = cache
        self.user = user
        self.rights: tuple[str, ...] = READ

    def has(self, feature: str) -> bool:
        return self.version >= SINCE[feature]

    def command(self, *arguments: str, retry_lock_s: int = 0) -> list[str]:
        command = [*self._as_owner(), self.program, *self.repository.arguments()]
        command += ["--cache-dir", self.cache] if self.cache else ["--no-cache"]
        if retry_lock_s and self.has("retry_lock"):
            command += ["--retry-lock", f"{retry_lock_s}s"]
        return [*command, *arguments]

    def _as_owner(self) -> list[str]:
        if not self.user:
            return []
        rights = ",".join(f"+{right}" for right in self.rights)
        command = ["setpriv", f"--reuid={self.user}", f"--regid={pwd.getpwnam(self.user).pw_gid}", "--init-groups"]
        return [*command, f"--inh-caps={rights}", f"--ambient-caps={rights}", "--"]

    def environment(self) -> dict[str, str]:
        kept = {
            key: os.environ[key]
            for key in ("TZ", "TMPDIR", "no_proxy", "http_proxy", "https_proxy")
            if key in os.environ
        }
        if self.cache:
            # Packs are made in files first, and they are large: not where the unit may not write, and not in memory.
            kept["TMPDIR"] = self.cache
        return {"PATH": PATH, **kept, **self.repository.environment(as_values=bool(self.user))}

    def run(
        self,
        *arguments: str,
        retry_lock_s: int = 0,
        timeout_s: float = 0,
        on_line: t.Callable[[str], None] | None = None,
        feed: t.Callable[[t.IO[bytes]], bool] | None = None,
        cwd: str | None = None,
        on_block: t.Callable[[bytes], None] | None = None,
        pass_fds: t.Sequence[int] = (),
    ) -> Done:
        """Run restic to its end. Where it cannot wait for a lock itself, it is run again until the lock is gone or the time is over.

        :param on_line: gets each line of stdout as it comes; they are not kept then.
        :param on_block: gets stdout as it comes, where that is no text.
        :param pass_fds: descriptors that restic inherits, for paths below /proc/self/fd.
        :param feed: writes to stdin, and says whether that was all; if not, restic is ended before it could save anything.
        """
        if feed and not self.has("retry_lock"):
            # The input exists only once: wait for the lock before it begins.
            self.run("cat", "config", retry_lock_s=retry_lock_s, timeout_s=timeout_s)
        limit = time.monotonic() + retry_lock_s
        while True:
            command = self.command(*arguments, retry_lock_s=retry_lock_s)
            done = self._run_once(command, timeout_s, on_line, on_block, feed, cwd, pass_fds)
            if self.has("retry_lock") or feed or time.monotonic() >= limit or judge(done).kind != LOCKED:
                return done
            time.sleep(min(_AGAIN_S, max(0.1, limit - time.monotonic())))

    def _run_once(
        self,
        command: list[str],
        timeout_s: float,
        on_line: t.Callable[[str], None] | None,
        on_block: t.Callable[[bytes], None] | None,
        feed: t.Callable[[t.IO[bytes]], bool] | None,
        cwd: str | None,
        pass_fds: t.Sequence[int],
    ) -> Done:
        child = programs.start(
            command,
            self.environment(),
            stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            pass_fds=pass_fds,
        )
        out: list[str] = []
        err: list[str] = []
        late: list[bool] = []

        dropped = 0

        def keep(line: str) -> None:
            nonlocal dropped
            err.append(line)
            if len(err) > 2 * _LIMIT:
                del err[_LIMIT]
                dropped += 1

        def give_up() -> None:
            late.append(True)
            end(child)  # it would wait for a minute to take its lock away from where nobody answers

        stdout, stderr = t.cast("t.IO[bytes]", child.stdout), t.cast("t.IO[bytes]", child.stderr)
        # All output of restic is read, however slow the callback is. Its ssh may keep stderr open after restic has ended.
        readers = {
            _Reader(_blocks(stdout), on_block) if on_block else _Reader(_lines(stdout), on_line or out.append): None,
            _Reader(_lines(stderr), keep): _PATIENCE_S,
        }
        timer = threading.Timer(timeout_s, give_up)
        if timeout_s:
            timer.start()
        try:
            for thread in readers:
                thread.start()
            if feed and child.stdin:
                with contextlib.suppress(BrokenPipeError):
                    if not feed(child.stdin):
                        # Before the end of its input restic has saved nothing, and so it never will.
                        end(child, _RESTLESS_S)
                    child.stdin.close()
            rc = child.wait()
        except BaseException:
            end(child)
            raise
        finally:
            timer.cancel()
        for thread, patience_s in readers.items():
            thread.join(patience_s)
            if thread.problem:
                raise thread.problem
        return Done(rc, "\n".join(out), "\n".join(err), bool(late), dropped, self.repository.free() if late else -1)


def as_user(user: str) -> dict[str, t.Any]:
    """Return the arguments of Popen that run a program as another user."""
    return (
        {
            "user": user,
            "group": pwd.getpwnam(user).pw_gid,
            "extra_groups": os.getgrouplist(user, pwd.getpwnam(user).pw_gid),
        }
        if user
        else {}
    )


def end(child: subprocess.Popen[bytes], patience_s: float = _PATIENCE_S) -> None:
    """End a program, and wait until it is gone."""
    child.terminate()
    try:
        child.wait(patience_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def end_group(child: subprocess.Popen[bytes]) -> None:
    """Kill a command that leads its own process group, with all its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


class _Reader(threading.Thread):
    """Passes pieces of a stream to a callback, and reads on to the end when that fails: restic would wait for its reader."""

    def __init__(self, pieces: t.Iterator[t.Any], take: t.Callable[[t.Any], None]) -> None:
        super().__init__(daemon=True)
        self._pieces = pieces
        self._take = take
        # The thread that waits for restic raises it: an exception in this thread would be lost.
        self.problem: BaseException | None = None

    def run(self) -> None:
        with self:
            for piece in self._pieces:
                self._take(piece)
        for rest in self._pieces:
            del rest

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        self.problem = error
        return True


def _lines(stream: t.IO[bytes]) -> t.Iterator[str]:
    for line in stream:
        yield line.decode("utf-8", errors="surrogateescape").rstrip("\n")


def _blocks(stream: t.IO[bytes]) -> t.Iterator[bytes]:
    yield from iter(lambda: stream.read(1 << 20), b"")


def probe(restic: Restic, timeout_s: float = 30) -> tuple[Outcome, str]:
    """Return whether the repository exists and takes the password, and its id. Nothing is changed, not even a lock.

    restic from 0.17 on tries to reach a server for a quarter of an hour: here that ends after `timeout_s`.
    """
    done = restic.run("--no-lock", "cat", "config", timeout_s=timeout_s)
    outcome = judge(done)
    if not outcome.ok:
        return outcome, ""
    try:
        return outcome, str(json.loads(done.out)["id"])
    except (ValueError, KeyError):
        return Outcome(FAILED, "restic reported no id"), ""


def read_version(program: str) -> tuple[int, ...]:
    """Return the version of restic.

    :raises ConfigError: there is no restic.
    """
    try:
        done = programs.run([program, "version"])
    except OSError as error:
        raise ConfigError(f"{program} cannot be run ({error}): run the role backup") from None
    version = parse_version(done.stdout)
    if not version:
        raise ConfigError(f"{program} does not say its version: {done.stdout or done.stderr}")
    return version
