"""What a stage of `script/test` is made of: its commands, their log, and how its tests are counted."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / ".cache" / "test"
# A command that takes longer hangs: the slowest, the unit tests, take 25 minutes beside two other stages. CI, which stops at 90 minutes,
# must say which it is.
LIMIT_S = 2700
SHOWN_LINES = 120
FAULT_CHARACTERS = 240


@dataclass(frozen=True)
class Tally:
    """How many tests passed, failed and were skipped. A skipped test has proved nothing, so it is never among the passed.

    `failures` has a line for each test that failed, and `seconds` the time of each test, where the tool reports them.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: tuple[str, ...] = ()
    seconds: tuple[tuple[float, str], ...] = ()

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.failures + other.failures,
            self.seconds + other.seconds,
        )

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed" + (f", {self.skipped} skipped" if self.skipped else "")


class StageFailed(Exception):
    """Raised when a stage found a problem. `tally` counts its single tests, where it has any."""

    def __init__(self, why: str, tally: Tally | None = None) -> None:
        super().__init__(why)
        self.tally = tally or Tally()


class Outcome(NamedTuple):
    """What a command ended with: its exit status, and what it printed to either stream."""

    status: int
    output: str


class Log:
    """Runs the commands of a stage, with `env` on top of the environment, and keeps what they say in one file."""

    def __init__(self, path: Path, env: Mapping[str, str] | None = None) -> None:
        self.path = path
        self.env = env or {}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")

    def write(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)

    def run(
        self, *command: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None, must_pass: bool = True
    ) -> Outcome:
        """Run `command`; raise StageFailed when its exit status is not 0 and `must_pass`."""
        argv = [str(word) for word in command]
        self.write(f"$ {shlex.join(argv)}\n")
        before = self.path.stat().st_size
        with self.path.open("a") as file:
            try:
                process = subprocess.Popen(
                    argv,
                    cwd=cwd,
                    env={**clean_environment(), **self.env, **(env or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                )
            except FileNotFoundError as error:
                raise StageFailed(f"{argv[0]} is not installed: run script/bootstrap --dev") from error
            try:
                status = process.wait(LIMIT_S)
            except subprocess.TimeoutExpired as error:
                kill_tree(process.pid)
                process.wait()
                raise StageFailed(f"{argv[0]} did not end within {LIMIT_S} s") from error
        if status != 0 and must_pass:
            raise StageFailed(f"{argv[0]} ended with status {status}")
        return Outcome(status, self.path.read_bytes()[before:].decode(errors="replace"))

    def tail(self) -> str:
        lines = self.path.read_text(errors="replace").splitlines()
        left_out = [f"... ({len(lines) - SHOWN_LINES} lines before)"] if len(lines) > SHOWN_LINES else []
        return "\n".join([*left_out, *lines[-SHOWN_LINES:]])


def kill_tree(pid: int) -> None:
    """Kill a process with its descendants: an emulated machine would run on without its test."""
    children = [child for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    for child in children:
        kill_tree(int(child))


def clean_environment() -> dict[str, str]:
    """Return the environment with this Python's programs first and without what the user's shell sets for Ansible.

    A Python that may not keep what it has compiled compiles the same files again in every process of the tests.
    """
    dropped = ("ANSIBLE_", "MOLECULE_", "PYTEST_", "PYTHONDONTWRITEBYTECODE")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    # pyenv's shims refuse to run where no version is chosen: its real programs are asked instead.
    pythons = sorted(Path(kept.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.*/bin"))
    others = [path for path in kept["PATH"].split(os.pathsep) if not path.endswith("/shims")]
    return {
        **kept,
        "NO_COLOR": "1",
        "PATH": os.pathsep.join(map(str, [Path(sys.executable).parent, *others, *pythons])),
    }


@dataclass(frozen=True)
class Stage:
    """One check. `work` raises StageFailed, or returns how many tests passed and were skipped."""

    name: str
    proves: str
    work: Callable[[Log], Tally]
    fast: bool = True  # part of `--fast`: no containers, seconds
    by_default: bool = True  # part of `script/test` without options
    with_all: bool = False  # part of `script/test --all` alone


def at_least_one_failed(tally: Tally) -> Tally:
    """Count a stage that failed without a failed test (a crash, nothing collected) as one failure."""
    return tally if tally.failed else tally + Tally(failed=1)


def tally_of_junit(path: Path) -> Tally:
    """Count the test cases of a JUnit XML file. A file that is missing or cut short is a failed stage."""
    try:
        root = ElementTree.parse(path).getroot()  # noqa: S314 - our own tools wrote it
    except (OSError, ElementTree.ParseError) as error:
        raise StageFailed(f"no test results in {path.name}: {error}") from error
    tally = Tally()
    for case in root.iter("testcase"):
        # An element without children is false.
        failure = next((found for kind in ("failure", "error") if (found := case.find(kind)) is not None), None)
        if failure is not None:
            tally += Tally(failed=1, failures=(describe_failure(case, failure),))
        elif case.find("skipped") is not None:
            tally += Tally(skipped=1)
        else:
            tally += Tally(passed=1)
    times = tuple((float(case.get("time", 0)), case.get("name", "")) for case in root.iter("testcase"))
    return tally + Tally(seconds=times)


def describe_failure(case: ElementTree.Element, failure: ElementTree.Element) -> str:
    """Return in one line which test failed, where, and why: an error of Ansible's, else the beginning of the message."""
    where = re.search(r"^\S+\.py:\d+(?=:)", failure.text or "", re.MULTILINE)
    message = " ".join(failure.get("message", "").split())
    reason = message[max(message.find("[ERROR]"), 0) :]
    return ": ".join(filter(None, [case.get("name"), where and where[0], reason[:FAULT_CHARACTERS]]))
