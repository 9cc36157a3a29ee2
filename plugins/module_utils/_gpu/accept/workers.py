# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The processes of the measuring program, one for each GPU, and the samples of NVML meanwhile. PyTorch needs no NVML, and NVML no PyTorch.

The processes live for the whole measurement and do one step after the other on command: first each GPU alone, then all at once. A step
has a limit. A process that exceeds it hangs: it is killed, and the others go on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import programs
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import (
    links,
    loads,
    patterns,
    program,
    progress,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.figures import COPY_TESTS
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.rows import Event, Request, Sample
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.state import EVENT_REASONS

# Ten samples a second: gpu.md 5.3 asks for five at least, and each takes some milliseconds.
PERIOD_S = 0.1
# Kept events, and kept lines of standard error. The longest request has half as many events: those of a burn-in count as one for each test.
KEPT_EVENTS = 20000
KEPT_ERROR_LINES = 20
# For the import of PyTorch from a cold disk by all processes at once, and for the end of a process.
START_S, END_S = 120.0, 30.0
# Of a step in addition to its windows, for its data.
STEP_S = 60.0
# For six patterns, written and read, on a card of 300 GB at a tenth of its speed.
MEMORY_S = 300.0
REDUCE_S = 120.0
PAIR_S = 20.0
# The tests of all cards at once: a product, h2d, d2h.
TOGETHER = 3

SM, MEMORY = 1, 2

# The first line of standard input has the modules as [name, text]: on the target they are inside Ansible's archive, and have no path.
# The steps follow.
STARTER = """
import json, sys, types
for name, text in json.loads(sys.stdin.readline()):
    parent, _dot, short = name.rpartition(".")
    package = sys.modules.setdefault(parent, types.ModuleType(parent))
    module = sys.modules[name] = types.ModuleType(name)
    setattr(package, short, module)
    exec(compile(text, short, "exec"), module.__dict__)
raise SystemExit(module.main(sys.argv[1:]))
"""


@dataclasses.dataclass
class Outcome:
    """The result of a process. *status* is None where it was killed. *events* and *samples* are in the order of time."""

    status: int | None = None
    events: list[Event] = dataclasses.field(default_factory=list)
    samples: list[Sample] = dataclasses.field(default_factory=list)
    # The end of its standard error.
    output: str = ""
    # The step in which it hung, and the error of NVML for a lost card.
    hung: str | None = None
    lost: NvmlError | None = None

    def of(self, kind: str) -> list[Event]:
        """Return the events of a kind."""
        return [event for event in self.events if event.get("event") == kind]

    def burns_in(self) -> bool:
        """Check that the last event is of the burn-in. Its samples are not needed."""
        return bool(self.events) and self.events[-1].get("event") == "burn_in"

    def did(self, step: str) -> bool:
        """Check that a step is done."""
        return any(event.get("step") == step for event in self.of("did"))


def sources() -> list[tuple[str, str]]:
    """Return name and text of the program and of the modules that it imports, in the order of their import."""
    found = []
    for module in (loads, patterns, links, program):
        spec: t.Any = module.__spec__
        found.append((spec.name, spec.loader.get_source(spec.name)))
    return found


def sample(nvml: Nvml, card: Card) -> Sample:
    """Read clocks, power, temperature and link of a card; null where it does not report a value.

    :raises NvmlError: the card does not answer.
    """
    handle = card.handle
    reasons = nvml.ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if reasons is None:
        reasons = nvml.ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    power = nvml.ask("nvmlDeviceGetPowerUsage", handle)
    return {
        "at": time.monotonic(),
        "clock_mhz": nvml.ask("nvmlDeviceGetClockInfo", handle, SM),
        "memory_clock_mhz": nvml.ask("nvmlDeviceGetClockInfo", handle, MEMORY),
        "power_w": None if power is None else power / 1000,
        "temperature_c": nvml.ask("nvmlDeviceGetTemperature", handle, 0),
        "reasons": None if reasons is None else [name for bit, name in EVENT_REASONS.items() if reasons & bit],
        "pcie_generation": nvml.ask("nvmlDeviceGetCurrPcieLinkGeneration", handle),
        "pcie_width": nvml.ask("nvmlDeviceGetCurrPcieLinkWidth", handle),
    }


def step_seconds(request: Request, step: str) -> float:
    """Return the time limit of a step."""
    settle = loads.SETTLE_S + 1
    if step == "measure":
        windows = request["windows"] * (len(request["dtypes"]) + len(COPY_TESTS))
        return STEP_S + float(
            request["warm_up_s"] + windows * (request["window_s"] + settle) + 1.2 * request["burn_in_s"]
        )
    if step == "together":
        return STEP_S + TOGETHER * float(request["window_s"] + settle)
    return {"start": START_S, "memory": MEMORY_S, "all_reduce": REDUCE_S, "end": END_S}[step]


def seconds_needed(request: Request, cards: int = 1) -> float:
    """Return the time limit of all steps."""
    once = sum(step_seconds(request, step) for step in ("start", "memory", "together", "all_reduce", "end"))
    return once + cards * step_seconds(request, "measure")


def read_lines(pipe: t.IO[str], events: list[Event]) -> None:
    """Append the events in a pipe to a list, until it is closed."""
    for line in pipe:
        # A library might print text without the end of its line.
        begin = line.find('{"event":')
        with contextlib.suppress(ValueError, RecursionError):
            if begin >= 0:
                keep_event(json.loads(line[begin:]), events)


def keep_event(event: Event, events: list[Event]) -> None:
    """Append an event to a list. A burn-in may last for days: of each test one event is kept, with the number of its windows."""
    if event["event"] == "burn_in":
        event["windows"] = 1
        same = (
            kept for kept in reversed(events) if (kept["event"], kept.get("test")) == ("burn_in", event.get("test"))
        )
        kept = next(same, None)
        if kept:
            kept.update(windows=kept["windows"] + 1, wrong=max(kept.get("wrong", 0), event.get("wrong", 0)))
            return
    if len(events) < KEPT_EVENTS:
        events.append(event)


def keep_end(pipe: t.IO[str], lines: list[str]) -> None:
    """Read a pipe until it is closed, and keep its last lines."""
    for line in pipe:
        lines.append(line.strip())
        del lines[:-KEPT_ERROR_LINES]


class Worker:
    """A process with the measuring program, which sees only these GPUs."""

    def __init__(
        self, cards: t.Sequence[Card], python: str, request: Request, limit_s: float, **options: t.Any
    ) -> None:
        """Start the process.

        :raises OSError: it cannot be started.
        """
        visible = ",".join(card.uuid for card in cards)
        variables = {"CUDA_VISIBLE_DEVICES": visible, "CUDA_CACHE_DISABLE": "1"}
        environment = {**os.environ, **options.pop("env", {}), **variables}
        self.card, self.outcome = cards[0], Outcome()
        self.process = programs.start(
            [python, "-I", "-u", "-c", STARTER, json.dumps({**request, "limit_s": limit_s})],
            environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            start_new_session=True,
            **options,
        )
        self._error_lines: list[str] = []
        self._ended = False
        self.stdin, stdout, stderr = t.cast(
            "tuple[t.IO[str], ...]", (self.process.stdin, self.process.stdout, self.process.stderr)
        )
        self._threads = [
            threading.Thread(target=read_lines, args=(stdout, self.outcome.events), daemon=True),
            threading.Thread(target=keep_end, args=(stderr, self._error_lines), daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        self.send(sources())

    def send(self, line: t.Any) -> None:
        """Write a line to the process."""
        # The exit status of an ended process has the reason.
        with contextlib.suppress(OSError):
            self.stdin.write(json.dumps(line) + "\n")
            self.stdin.flush()

    def runs(self) -> bool:
        """Check that the process runs. It is not reaped here, so that its process group is not reused."""
        if not self._ended:
            waited = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            if waited is not None:
                self.end()
        return not self._ended

    def end(self, hung: str | None = None, lost: NvmlError | None = None) -> None:
        """Kill the process and its children, and complete its outcome."""
        if self._ended:
            return
        self._ended = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for thread in self._threads:
            thread.join(5)
        with contextlib.suppress(OSError):
            self.stdin.close()
        self.outcome.hung, self.outcome.lost, self.outcome.output = hung, lost, " ".join(self._error_lines[-3:])
        self.outcome.status = None if hung or lost else self.process.returncode


def wait(nvml: Nvml, workers: t.Sequence[Worker], done: t.Callable[[Worker], bool], step: str, seconds: float) -> None:
    """Sample the GPUs until all running processes are done. Kill a process at the limit."""
    limit = time.monotonic() + seconds
    while True:
        waiting = [worker for worker in workers if worker.runs() and not done(worker)]
        if not waiting:
            return
        for worker in running(workers):
            if worker in waiting and time.monotonic() >= limit:
                worker.end(hung=step)
                continue
            try:
                found = sample(nvml, worker.card)
                if not worker.outcome.burns_in():
                    worker.outcome.samples.append(found)
            except NvmlError as error:
                worker.end(lost=error)
        time.sleep(PERIOD_S)


def measured(request: Request, report: progress.Report) -> t.Callable[[Worker], bool]:
    """Return a check for the end of the step `measure`, which reports each round of windows."""
    size, reported = len(request["dtypes"]) + len(COPY_TESTS), [0]

    def did(worker: Worker) -> bool:
        rounds = len(worker.outcome.of("window")) // size
        if rounds > reported[0]:
            reported[0] = rounds
            report(f"GPU {worker.card.index}: round {rounds} of {request['windows']} is done")
            if rounds == request["windows"] and request["burn_in_s"]:
                report(f"GPU {worker.card.index}: burn-in, {progress.minutes(request['burn_in_s'])}")
        return worker.outcome.did("measure")

    return did


def do(nvml: Nvml, workers: t.Sequence[Worker], step: str, seconds: float, **facts: t.Any) -> None:
    """Let processes do a step at the same time, each with its rank among them."""
    for rank, worker in enumerate(workers):
        worker.send({"do": step, "rank": rank, "world": len(workers), "limit_s": seconds, **facts})
    wait(nvml, workers, lambda worker: worker.outcome.did(step), step, seconds)


def load_together(nvml: Nvml, workers: t.Sequence[Worker], seconds: float) -> None:
    """Let processes do the step `together`. Each test begins when all processes are ready for it."""
    for worker in workers:
        worker.send({"do": "together"})
    for number in range(1, TOGETHER + 1):

        def is_ready(worker: Worker, number: int = number) -> bool:
            return len(worker.outcome.of("ready")) >= number

        wait(nvml, workers, is_ready, "together", seconds)
        for worker in running(workers):
            worker.send({"go": number})
    wait(nvml, workers, lambda worker: worker.outcome.did("together"), "together", seconds)


def running(workers: t.Sequence[Worker]) -> list[Worker]:
    """Return the processes that run."""
    return [worker for worker in workers if worker.runs()]


def measure(
    nvml: Nvml,
    requests: t.Sequence[tuple[Card, Request]],
    python: str,
    report: progress.Report = progress.silent,
    **options: t.Any,
) -> list[Outcome]:
    """Run the program on these GPUs, with a Python that has PyTorch, and sample them until it ends.

    :param requests: each GPU, and its request.
    :param options: of Popen, such as the user.
    :raises OSError: a process cannot be started.
    """
    longest = max(seconds_needed(request, len(requests)) for _card, request in requests)
    workers: list[Worker] = []
    try:
        for card, request in requests:
            workers.append(Worker([card], python, request, longest, **options))
        wait(nvml, workers, lambda worker: bool(worker.outcome.of("started")), "start", START_S)
        for number, (worker, (card, request)) in enumerate(zip(workers, requests), 1):
            if worker.runs():
                alone = progress.minutes(progress.seconds_alone(request))
                report(f"GPU {card.index}: alone ({number} of {len(requests)}), about {alone}")
                worker.send({"do": "measure", "rank": 0, "world": 1, "limit_s": step_seconds(request, "measure")})
                wait(nvml, [worker], measured(request, report), "measure", step_seconds(request, "measure"))
        request = requests[0][1]
        if request["memory_share"]:
            report("memory of all GPUs")
            do(nvml, running(workers), "memory", MEMORY_S)
        if len(running(workers)) > 1:
            report("all GPUs together, and the links between them")
            load_together(nvml, running(workers), step_seconds(request, "together"))
        if len(running(workers)) > 1:
            with meeting_place(**options) as store:
                do(nvml, running(workers), "all_reduce", REDUCE_S, store=store)
        for worker in running(workers):
            worker.stdin.close()
        wait(nvml, workers, lambda _worker: False, "end", END_S)
    finally:
        for worker in workers:
            worker.end(hung="end")
    return [worker.outcome for worker in workers]


def measure_pairs(nvml: Nvml, cards: t.Sequence[Card], python: str, request: Request, **options: t.Any) -> Outcome:
    """Run one process that measures copies between all pairs of these GPUs."""
    seconds = STEP_S + PAIR_S * len(cards) * (len(cards) - 1)
    worker = Worker(cards, python, request, seconds + START_S + END_S, **options)
    try:
        wait(nvml, [worker], lambda started: bool(started.outcome.of("started")), "start", START_S)
        do(nvml, running([worker]), "pairs", seconds)
        worker.stdin.close()
        wait(nvml, [worker], lambda _worker: False, "end", END_S)
    finally:
        worker.end(hung="end")
    return worker.outcome


@contextlib.contextmanager
def meeting_place(**options: t.Any) -> t.Iterator[str]:
    """Create a directory of the user, for the file by which the processes find each other."""
    folder = tempfile.mkdtemp(prefix="rigwright-gpu-accept-")
    try:
        if "user" in options:
            os.chown(folder, options["user"], options["group"])
        yield f"{folder}/store"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
