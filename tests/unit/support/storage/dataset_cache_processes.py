# SPDX-License-Identifier: GPL-3.0-or-later
"""Run dataset-cache as processes: forks of the test, which start in milliseconds and can inject failures."""

from __future__ import annotations

import atexit
import errno
import fcntl
import hashlib
import importlib
import json
import mmap
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import bundle

CASES = int(os.environ.get("RIGWRIGHT_CASES", "30"))
MIB = 1 << 20

Injection = Callable[[], None]


class Program:
    """The names of all files of the package, as if it were one file."""

    def __init__(self) -> None:
        self.modules = [importlib.import_module(name) for name in bundle.collect("_dataset_cache.cli")]

    def __getattr__(self, name: str) -> Any:
        """Return what one of the files defines."""
        for module in self.modules:
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(name)

    def replace(self, name: str, value: object) -> None:
        """Replace a function or a constant in every file that uses it."""
        for module in self.modules:
            if hasattr(module, name):
                setattr(module, name, value)


def installed() -> Path:
    """Return the program as the role installs it; each test process builds it once."""
    folder = tempfile.mkdtemp(prefix="dataset-cache-program-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    Path(folder).chmod(0o755)
    path = Path(folder) / "dataset-cache"
    path.write_bytes(bundle.bundle("_dataset_cache.cli"))
    return path


program = Program()
PROGRAM = installed()


class Done(NamedTuple):
    rc: int
    out: str
    err: str

    @property
    def path(self) -> Path:
        """Return the path that `get` printed."""
        assert self.rc == 0, self.err
        assert self.out.endswith("\n")
        return Path(self.out[:-1])


class Running:
    """A process of the tool; it calls *inject* first."""

    def __init__(self, arguments: list[str], inject: Injection | None, user: tuple[int, int] | None) -> None:
        self.files = [tempfile.TemporaryFile() for _number in range(2)]  # noqa: SIM115 - they live as long as this
        self.status: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self.child(arguments, inject, user)

    def child(self, arguments: list[str], inject: Injection | None, user: tuple[int, int] | None) -> None:
        status = 70
        try:
            for number, file in enumerate(self.files, start=1):
                os.dup2(file.fileno(), number)
            sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115
            if user:
                os.setgroups([user[1]])
                # As users have it: a group of their own, and that of the cache besides.
                os.setgid(user[0])
                os.setuid(user[0])
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
                signal.signal(
                    number, signal.SIG_DFL
                )  # a job in the background of a shell has them otherwise, and so have its tests
            if inject:
                inject()
            status = program.main(arguments)
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 1
        except BaseException:  # noqa: BLE001 - nothing of the child may run in the test
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def wait(self) -> Done:
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return Done(self.status, *(self.read(number) for number in range(2)))

    def read(self, number: int) -> str:
        size = os.fstat(self.files[number].fileno()).st_size
        return os.fsdecode(os.pread(self.files[number].fileno(), size, 0))

    def send(self, number: int) -> None:
        if self.status is None:
            os.kill(self.pid, number)

    def kill(self) -> Done:
        self.send(signal.SIGKILL)
        return self.wait()


class Place:
    """A folder with a cache and sources, and the tool's commands there."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.cache, self.data = top / "cache", top / "data"
        self.started: list[Running] = []
        for folder in (self.cache, self.data):
            folder.mkdir()
        self.configure()

    def configure(self, **values: Any) -> None:
        self.settings = {"cache": str(self.cache), "sources": [str(self.data)], **values}
        configuration = self.top / "configuration.json"
        configuration.write_text(json.dumps(self.settings))
        configuration.chmod(0o644)

    def start(
        self, *arguments: object, inject: Injection | None = None, user: tuple[int, int] | None = None
    ) -> Running:
        command = ["--config", str(self.top / "configuration.json"), *map(str, arguments)]
        running = Running(command, inject, user)
        self.started.append(running)
        return running

    def run(self, *arguments: object, inject: Injection | None = None, user: tuple[int, int] | None = None) -> Done:
        return self.start(*arguments, inject=inject, user=user).wait()

    def get(self, source: Path, *arguments: object, user: tuple[int, int] | None = None) -> Done:
        """Run `get` for a process that has ended when the next command runs."""
        done = self.run("get", "--pid", dead_soon(), source, *arguments, user=user)
        end_sleepers()
        return done

    def read(self, source: Path, user: tuple[int, int] | None = None) -> Running:
        """Start a process that uses the copy until it is killed."""
        running = self.start("run", source, "--", "sh", "-c", "echo {}; exec sleep 1000", user=user)
        await_that(lambda: running.read(0).endswith("\n"))
        return running

    def status(self) -> Any:
        done = self.run("status", "--json")
        assert done.rc == 0, done.err
        return json.loads(done.out)

    def rows(self, *states: str) -> list[dict[str, Any]]:
        return [row for row in self.status()["datasets"] if not states or row["state"] in states]

    def cached(self) -> set[str]:
        """Return names of the sources that have a whole copy."""
        return {Path(row["source"]).name for row in self.rows("whole")}

    def leftovers(self) -> list[str]:
        return [path.name for path in self.cache.glob("sets/*/.*")]

    def source(self, name: str, **files: bytes) -> Path:
        folder = self.data / name
        folder.mkdir()
        for file, content in files.items():
            (folder / file).write_bytes(content)
        return folder

    def clear(self) -> None:
        empty(self.cache)

    def close(self) -> None:
        end_sleepers()
        for running in self.started:
            if running.status is None:
                running.kill()
        empty(self.top)
        self.top.rmdir()


def empty(path: Path) -> None:
    with program.Folder.at(os.path.realpath(path)) as folder:
        folder.empty()


SLEEPERS: list[subprocess.Popen[bytes]] = []


def dead_soon() -> int:
    """Return the id of a process that exists for the next command, and has ended at the one after it."""
    end_sleepers()
    # Without the test's own descriptors: a test that is killed leaves nothing behind that holds them.
    SLEEPERS.append(
        subprocess.Popen(
            ["sleep", "60"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    )
    return SLEEPERS[0].pid


def end_sleepers() -> None:
    while SLEEPERS:
        sleeper = SLEEPERS.pop()
        sleeper.kill()
        sleeper.wait()


def place() -> Iterator[Place]:
    """Create a place on a file system in memory, where there is one: flushing a disk that others use takes seconds."""
    memory = Path("/dev/shm")
    top = tempfile.mkdtemp(prefix="dataset-cache-", dir=memory if os.access(memory, os.W_OK) else None)
    Path(top).chmod(0o755)
    created = Place(Path(top))
    try:
        yield created
    finally:
        created.close()


def await_that(condition: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "this did not come about"
        time.sleep(0.01)


def tree(top: Path) -> dict[bytes, object]:
    """Return everything that reading a folder or a file shows."""
    found: dict[bytes, object] = {}
    paths = [top]
    while paths:
        path = paths.pop()
        name = os.fsencode(path.relative_to(top))
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            found[name] = ("link", path.readlink())
        elif stat.S_ISDIR(status.st_mode):
            found[name] = "folder"
            paths += [path / item for item in os.listdir(path)]
        else:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[name] = (digest, status.st_mtime_ns, bool(status.st_mode & 0o100))
    return found


# --- Injected failures ---

CALLS = (
    *("open", "mkdir", "rename", "unlink", "rmdir", "pwrite", "preadv", "fsync"),
    *("link", "symlink", "chmod", "fchmod", "utime", "ftruncate", "listdir"),
)


class Calls:
    """Counts the calls by which a process touches files; kills it before a chosen one."""

    def __init__(self) -> None:
        self.shared = mmap.mmap(-1, 8)

    @property
    def count(self) -> int:
        return int.from_bytes(self.shared[:8], "little")

    def kill_before(self, number: int) -> Injection:
        self.shared[:8] = bytes(8)

        def call(real: Callable[..., Any]) -> Callable[..., Any]:
            def counted(*arguments: Any, **options: Any) -> Any:
                count = self.count + 1
                self.shared[:8] = count.to_bytes(8, "little")
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*arguments, **options)

            return counted

        def inject() -> None:
            for name in CALLS:
                setattr(os, name, call(getattr(os, name)))
            fcntl.flock = call(fcntl.flock)
            program.replace("sync_tree", call(program.sync_tree))

        return inject


def name_of(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")


def at_read(path: Path, action: Callable[[], object], after: int = 0) -> Injection:
    """Call *action* once, before the program reads a file of the source from *after* on."""

    def inject() -> None:
        real, waiting = os.preadv, [action]

        def preadv(fd: int, buffers: Any, position: int) -> int:
            if waiting and position >= after and name_of(fd) == str(path):
                waiting.pop()()
            return real(fd, buffers, position)

        os.preadv = preadv  # type: ignore[assignment]

    return inject


def fails(number: int) -> Callable[[], None]:
    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail


def full_after(count: int) -> Injection:
    """Fill the disk of the cache after so many bytes."""

    def inject() -> None:
        real, remaining = os.pwrite, [count]

        def pwrite(fd: int, data: Any, position: int) -> int:
            remaining[0] -= len(data)
            if remaining[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(fd, data, position)

        os.pwrite = pwrite

    return inject


def writes_wrong(name: str) -> Injection:
    """Make the disk of the cache keep another byte than was written."""

    def inject() -> None:
        real = os.pwrite

        def pwrite(fd: int, data: Any, position: int) -> int:
            if name_of(fd).endswith(name):
                data = bytes([data[0] ^ 1]) + bytes(data[1:])
            return real(fd, data, position)

        os.pwrite = pwrite

    return inject


def clock_is(offset: float) -> Injection:
    """Move the time of day by so many seconds."""

    def inject() -> None:
        real, real_ns = time.time, time.time_ns
        time.time = lambda: real() + offset
        time.time_ns = lambda: real_ns() + int(offset * 1e9)

    return inject


def mounts() -> bool:
    """Return whether this process can mount a file system."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        return False
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
        if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            return False
        subprocess.run(["umount", folder], check=True)
    return True


MOUNTS = pytest.mark.skipif(not mounts(), reason="may not mount a file system")


def refused(place: Place, source: Path, *options: object, inject: Injection | None = None) -> str:
    """Return the message of `get`; the attempt leaves nothing, and --or-source does not help."""
    done = place.run("get", "--or-source", source, *options, inject=inject)
    assert done.out == ""
    assert place.rows() == []
    assert place.leftovers() == []
    return f"{done.rc}: {done.err}"


def rewrite(path: Path) -> None:
    """Write other bytes of the same number, and set the time of change back."""
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"changed")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def fell_back(place: Place, source: Path, rc: int, inject: Injection) -> None:
    done = place.run("get", source, inject=inject)
    assert (done.rc, done.out) == (rc, ""), done.err
    assert place.leftovers() == []
    assert place.rows() == []
    done = place.run("get", "--or-source", source, inject=inject)
    assert done.path == source
    assert "the source itself is used" in done.err
    assert place.leftovers() == []
