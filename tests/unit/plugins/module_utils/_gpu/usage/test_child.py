# SPDX-License-Identifier: GPL-3.0-or-later
"""The child process that asks NVML: it may hang, end, or answer with nonsense."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.child import Child, Unanswered

PATIENCE_S = 60.0
ECHO = "import sys\nfor number, line in enumerate(sys.stdin): print('{\"number\": %d}' % number, flush=True)"
HANGS = "import signal; signal.pause()"


@pytest.fixture
def start() -> Iterator[Callable[[str], Child]]:
    children: list[Child] = []

    def build(program: str) -> Child:
        children.append(Child([sys.executable, "-I", "-c", program]))
        return children[-1]

    yield build
    for child in children:
        child.close()


def test_one_child_answers_each_question(start: Callable[[str], Child]) -> None:
    child = start(ECHO)
    assert [child.ask(PATIENCE_S)["number"] for _ in range(3)] == [0, 1, 2]


def test_hanging_child_is_killed_and_another_started(start: Callable[[str], Child]) -> None:
    child = start(HANGS)
    with pytest.raises(Unanswered, match="does not answer within"):
        child.ask(0.05)
    assert child.pid is not None
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    child.command[-1] = ECHO
    assert child.ask(PATIENCE_S) == {"number": 0}


def test_starting_child_has_longer_than_one_that_has_answered(start: Callable[[str], Child]) -> None:
    child = start(ECHO)
    child.start_s = PATIENCE_S
    # No Python starts in a millisecond.
    assert child.ask(0.001) == {"number": 0}
    assert child.pid is not None
    os.kill(child.pid, signal.SIGSTOP)
    with pytest.raises(Unanswered, match="does not answer within"):
        child.ask(0.05)


def test_stopped_child_is_killed_too(start: Callable[[str], Child]) -> None:
    child = start(ECHO)
    child.ask(PATIENCE_S)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGSTOP)
    with pytest.raises(Unanswered, match="does not answer within"):
        child.ask(0.05)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert child.ask(PATIENCE_S) == {"number": 0}


def test_child_that_the_kernel_keeps_is_not_replaced(
    start: Callable[[str], Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    child = start(HANGS)
    child._running()
    # A process in the driver takes no signal.
    monkeypatch.setattr(child._process, "kill", lambda: None)
    kept = child.pid
    for message in ("does not answer within", "the kernel cannot end the process"):
        with pytest.raises(Unanswered, match=message):
            child.ask(0.05)
    assert child.pid == kept
    monkeypatch.undo()


@pytest.mark.parametrize(
    "program",
    ["", "print('{')", "print('[]')", "raise SystemExit(1)", "import sys; sys.stdout.write('x' * 5_000_000)"],
)
def test_child_that_ends_or_talks_nonsense_is_reported(start: Callable[[str], Child], program: str) -> None:
    child = start(program)
    with pytest.raises(Unanswered, match="the process that asks NVML"):
        child.ask(PATIENCE_S)


def test_missing_program_is_reported() -> None:
    with pytest.raises(Unanswered, match="No such file"):
        Child(["/nonexistent/python3"]).ask(PATIENCE_S)
