"""MPS without a GPU: a fake control daemon, and a fake CUDA driver that finds it as the real one does.

    with fake_mps(["GPU-...", "GPU-..."]) as mps:
        mps.env                                  # PATH, LD_LIBRARY_PATH and the table of GPUs, for child processes
        mps.start(pipe, "-S")                    # a daemon of another user; the module starts its own
        mps.ask(pipe, "get_server_list")         # the shell of protocol 2; mps.command(pipe, "server", "list") is protocol 3
        mps.client(pipe, uid=1001, pid=4242)     # a client that stays; mps.leave(pipe, 4242) ends it

The daemon is `mps_daemon/*.py`, under its original's name; the driver is `nvml_library/mps_cuda.c`, built by gcc. It is
independent of the fake NVML (`nvml.py`); tests give both the same UUIDs. `files()` returns the same for a sandbox host.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")

FILES = Path(__file__).with_name("mps_daemon")
DRIVER = Path(__file__).with_name("nvml_library") / "mps_cuda.c"
PROGRAM = "nvidia-cuda-mps-control"
LIBRARY = "libcuda.so.1"
HOME = "/usr/lib/rigwright-fake-gpu"
TABLE = f"{HOME}/cuda"
# An H200, as nvidia-smi and CUDA's deviceQuery report it.
SMS, MEMORY_MIB, NAME = 132, 143771, "NVIDIA H200"


@functools.cache
def library() -> bytes:
    """Compile the fake CUDA driver, and return it."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, LIBRARY)
        options = ("-shared", "-fPIC", "-O2", "-Wall", "-Werror", f"-Wl,-soname,{LIBRARY}")
        subprocess.run(["gcc", *options, "-o", target, DRIVER], check=True)
        return target.read_bytes()


def table(uuids: Sequence[str], sms: int = SMS, memory_mib: int = MEMORY_MIB, name: str = NAME) -> str:
    return "".join(f"{uuid} {sms} {memory_mib} {name}\n" for uuid in uuids)


def program(python: str, library: str) -> str:
    """Return the daemon as a program of this interpreter, with its modules below *library*. It starts fast, without site packages."""
    return f"""\
#!{python} -ES
import sys
sys.path.insert(0, {library!r})
from harness.fakes.mps_daemon.control import main
sys.exit(main())
"""


def files(uuids: Sequence[str], python: str = "/usr/bin/python3") -> dict[str, tuple[bytes, int]]:
    """Return content and mode by path, to put on a sandbox host."""
    return {
        f"/usr/bin/{PROGRAM}": (program(python, HOME).encode(), 0o755),
        **{
            f"{HOME}/harness/fakes/mps_daemon/{path.name}": (path.read_bytes(), 0o644)
            for path in sorted(FILES.glob("*.py"))
        },
        f"/usr/lib/x86_64-linux-gnu/{LIBRARY}": (library(), 0o755),
        TABLE: (table(uuids).encode(), 0o644),
    }


@dataclass
class Mps:
    """A folder with the program, the library and the table."""

    folder: Path

    @property
    def table(self) -> Path:
        return self.folder / "gpus"

    @property
    def env(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("CUDA_")}
        libraries = f"{self.folder}:{kept.get('LD_LIBRARY_PATH', '')}".rstrip(":")
        path = f"{self.folder}:{kept['PATH']}"
        return {**kept, "PATH": path, "LD_LIBRARY_PATH": libraries, "RIGWRIGHT_FAKE_CUDA": str(self.table)}

    def run(self, pipe: Path, *arguments: str, text: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        own = {"CUDA_MPS_PIPE_DIRECTORY": str(pipe), "CUDA_MPS_LOG_DIRECTORY": f"{pipe}-log", **environment}
        return subprocess.run(
            [self.folder / PROGRAM, *arguments],
            input=text,
            env={**self.env, **own},
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )

    def start(self, pipe: Path, *options: str, **environment: str) -> int:
        """Start a daemon, and return its process id."""
        pipe.mkdir(parents=True, exist_ok=True)
        done = self.run(pipe, "-d", *options, **environment)
        done.check_returncode()
        file = pipe / f"{PROGRAM}.pid"
        return int(waited_for(lambda: file.read_text().strip() if file.exists() else ""))

    def ask(self, pipe: Path, *lines: str) -> str:
        done = self.run(pipe, text="".join(f"{line}\n" for line in lines))
        done.check_returncode()
        return done.stdout.strip()

    def command(self, pipe: Path, *arguments: str) -> tuple[int, str]:
        done = self.run(pipe, *arguments)
        return done.returncode, done.stdout.strip()

    def client(self, pipe: Path, uid: int, pid: int) -> int:
        """Attach a client that stays until it leaves or is ended, and return the process id of its server."""
        return int(self.ask(pipe, f"fake_client {uid} {pid} train.py"))

    def leave(self, pipe: Path, pid: int) -> None:
        self.ask(pipe, f"fake_exit {pid}")

    def fault(self, pipe: Path, server: int, pid: int) -> None:
        self.ask(pipe, f"fake_fault {server} {pid}")

    def daemons(self) -> list[int]:
        """Return the process ids of the daemons and servers that run from this folder."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdecimal() and f"={self.table}\0".encode() in (entry / "environ").read_bytes() + b"\0":
                    command = (entry / "cmdline").read_bytes()
                    found += [int(entry.name)] if b"nvidia-cuda-mps" in command else []
        return found


@contextlib.contextmanager
def fake_mps(uuids: Sequence[str], sms: int = SMS, memory_mib: int = MEMORY_MIB) -> Iterator[Mps]:
    """Create a fake MPS with these GPUs; at the end its daemons end."""
    # A socket's path may have 107 bytes: pytest's folders are too long for it.
    folder = Path(tempfile.mkdtemp(prefix="mps"))
    folder.chmod(0o755)
    mps = Mps(folder)
    try:
        (folder / PROGRAM).write_text(program(sys.executable, str(FILES.parents[2])))
        (folder / PROGRAM).chmod(0o755)
        (folder / LIBRARY).write_bytes(library())
        mps.table.write_text(table(uuids, sms, memory_mib))
        yield mps
    finally:
        for pid in mps.daemons():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        shutil.rmtree(folder, ignore_errors=True)


def waited_for(ask: Callable[[], Value], seconds: float = 10) -> Value:
    """Return the first true value of *ask*.

    :raises TimeoutError: *ask* returned none in time.
    """
    end = time.monotonic() + seconds
    while not (found := ask()):
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.02)
    return found
