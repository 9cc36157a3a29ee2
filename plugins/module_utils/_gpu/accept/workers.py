# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""GPUs under the measuring program, one process a GPU, sampled through NVML by its side. PyTorch needs no NVML, and NVML no PyTorch.

The processes live as long as the whole measurement and do one step after the other, as they are told. First each GPU alone, then all at
once. A step has a limit: a process that is not done by then hangs. It is ended, and the others go on.
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

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import links, loads, patterns, program
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.state import EVENT_REASONS

Facts = dict[str, t.Any]

# Ten samples a second: gpu.md 5.3 asks for five at least, and each takes some milliseconds.
PERIOD_S = 0.1
# Of what the program writes, and of its complaints.
KEPT_LINES = 20000
KEPT_WORDS = 20
# An import of PyTorch from a cold disk by all processes at once, and the end of one.
START_S, END_S = 120.0, 30.0
# Beside its windows: data, the windows' settling.
STEP_S = 60.0
# Six patterns, written and read: a card of 300 GB at a tenth of its speed.
MEMORY_S = 300.0
REDUCE_S = 120.0
PAIR_S = 20.0
# Tests of a card beside products: copy, h2d, d2h and both ways; those of all cards at once: a product, h2d, d2h.
BESIDE, TOGETHER = 4, 3

SM, MEMORY = 1, 2

# Standard input has the modules in its first line, as [name, text], and then the steps: they reach the target inside Ansible's archive,
# where no path leads to them.
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
    """What a process told. *status* is None when it was ended before its time. *events* and *samples* are in the order of time."""

    status: int | None = None
    events: list[Facts] = dataclasses.field(default_factory=list)
    samples: list[Facts] = dataclasses.field(default_factory=list)
    words: str = ""
    # The step that it did not end in time, and the error with which NVML no longer answered.
    hung: str | None = None
    lost: NvmlError | None = None

    def of(self, kind: str) -> list[Facts]:
        return [event for event in self.events if event.get("event") == kind]

    def did(self, step: str) -> bool:
        return any(event.get("step") == step for event in self.of("did"))


def sources() -> list[tuple[str, str]]:
    """The program and what it imports from here, which comes before it."""
    found = []
    for module in (loads, patterns, links, program):
        spec: t.Any = module.__spec__
        found.append((spec.name, spec.loader.get_source(spec.name)))
    return found


def sample(nvml: Nvml, card: Card) -> Facts:
    """What the card says now; null where it does not say.

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


def step_seconds(request: t.Mapping[str, t.Any], step: str) -> float:
    """How long a process may take for a step, if nothing hangs."""
    settle = loads.SETTLE_S + 1
    if step == "measure":
        windows = request["windows"] * (len(request["dtypes"]) + BESIDE)
        return STEP_S + float(
            request["warm_up_s"] + windows * (request["window_s"] + settle) + 1.2 * request["burn_in_s"]
        )
    if step == "together":
        return STEP_S + TOGETHER * float(request["window_s"] + settle)
    return {"start": START_S, "memory": MEMORY_S, "all_reduce": REDUCE_S, "end": END_S}[step]


def seconds_needed(request: t.Mapping[str, t.Any], cards: int = 1) -> float:
    """What the whole takes at most."""
    once = sum(step_seconds(request, step) for step in ("start", "memory", "together", "all_reduce", "end"))
    return once + cards * step_seconds(request, "measure")


def read_lines(pipe: t.IO[str], events: list[Facts]) -> None:
    for line in pipe:
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            # A program of somebody else's might print numbers.
            if isinstance(found, dict) and len(events) < KEPT_LINES:
                events.append(found)


def keep_end(pipe: t.IO[str], words: list[str]) -> None:
    for line in pipe:
        words.append(line.strip())
        del words[:-KEPT_WORDS]


class Worker:
    """A process with the measuring program, which sees these GPUs alone."""

    def __init__(self, cards: t.Sequence[Card], python: str, request: t.Mapping[str, t.Any], **options: t.Any) -> None:
        """:raises OSError: it cannot be started."""
        visible = ",".join(card.uuid for card in cards)
        own = {"CUDA_VISIBLE_DEVICES": visible, "CUDA_CACHE_DISABLE": "1"}
        environment = {**os.environ, **options.pop("env", {}), **own}
        self.card, self.outcome = cards[0], Outcome()
        self.process = subprocess.Popen(  # pylint: disable=ansible-bad-function
            [python, "-I", "-u", "-c", STARTER, json.dumps(request)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            env=environment,
            start_new_session=True,
            **options,
        )
        self._words: list[str] = []
        self._ended = False
        self.stdin, stdout, stderr = t.cast(
            "tuple[t.IO[str], ...]", (self.process.stdin, self.process.stdout, self.process.stderr)
        )
        self._threads = [
            threading.Thread(target=read_lines, args=(stdout, self.outcome.events), daemon=True),
            threading.Thread(target=keep_end, args=(stderr, self._words), daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        self.say(sources())

    def say(self, line: t.Any) -> None:
        # One that has ended tells why by its status.
        with contextlib.suppress(OSError):
            self.stdin.write(json.dumps(line) + "\n")
            self.stdin.flush()

    def runs(self) -> bool:
        """Not reaped yet, it keeps the number of its group from being anybody else's."""
        if not self._ended:
            waited = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            if waited is not None:
                self.end()
        return not self._ended

    def end(self, hung: str | None = None, lost: NvmlError | None = None) -> None:
        """With its children, if it has any."""
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
        self.outcome.hung, self.outcome.lost, self.outcome.words = hung, lost, " ".join(self._words[-3:])
        self.outcome.status = None if hung or lost else self.process.returncode


def wait(nvml: Nvml, workers: t.Sequence[Worker], done: t.Callable[[Worker], bool], step: str, seconds: float) -> None:
    """Sample the GPUs until all that still run are done. Who is not in time is ended."""
    limit = time.monotonic() + seconds
    while True:
        waiting = [worker for worker in workers if worker.runs() and not done(worker)]
        if not waiting:
            return
        for worker in [one for one in workers if one.runs()]:
            if worker in waiting and time.monotonic() >= limit:
                worker.end(hung=step)
                continue
            try:
                worker.outcome.samples.append(sample(nvml, worker.card))
            except NvmlError as error:
                worker.end(lost=error)
        time.sleep(PERIOD_S)


def do(nvml: Nvml, workers: t.Sequence[Worker], step: str, seconds: float, **facts: t.Any) -> None:
    """Have processes do a step at the same time, each with its rank among them."""
    for rank, worker in enumerate(workers):
        worker.say({"do": step, "rank": rank, "world": len(workers), "limit_s": seconds, **facts})
    wait(nvml, workers, lambda worker: worker.outcome.did(step), step, seconds)


def load_together(nvml: Nvml, workers: t.Sequence[Worker], seconds: float) -> None:
    """Each test begins when all processes are ready for it."""
    for worker in workers:
        worker.say({"do": "together"})
    for number in range(1, TOGETHER + 1):

        def is_ready(worker: Worker, number: int = number) -> bool:
            return len(worker.outcome.of("ready")) >= number

        wait(nvml, workers, is_ready, "together", seconds)
        for worker in running(workers):
            worker.say({"go": number})
    wait(nvml, workers, lambda worker: worker.outcome.did("together"), "together", seconds)


def running(workers: t.Sequence[Worker]) -> list[Worker]:
    return [worker for worker in workers if worker.runs()]


def measure(
    nvml: Nvml, requests: t.Sequence[tuple[Card, t.Mapping[str, t.Any]]], python: str, **options: t.Any
) -> list[Outcome]:
    """Run the program on these GPUs, with a Python that has PyTorch, and sample them until it ends.

    :param requests: each GPU, and what is asked of it.
    :param options: of the processes, such as their user.
    :raises OSError: it cannot be started.
    """
    longest = max(seconds_needed(request, len(requests)) for _card, request in requests)
    workers: list[Worker] = []
    try:
        for card, request in requests:
            workers.append(Worker([card], python, {**request, "limit_s": longest}, **options))
        wait(nvml, workers, lambda worker: bool(worker.outcome.of("started")), "start", START_S)
        for worker, (_card, request) in zip(workers, requests):
            if worker.runs():
                do(nvml, [worker], "measure", step_seconds(request, "measure"))
        request = requests[0][1]
        if request["memory_share"]:
            do(nvml, running(workers), "memory", MEMORY_S)
        if len(running(workers)) > 1:
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


def measure_pairs(
    nvml: Nvml, cards: t.Sequence[Card], python: str, request: t.Mapping[str, t.Any], **options: t.Any
) -> Outcome:
    """Run the program on all of these GPUs at once, for what they give to each other."""
    seconds = STEP_S + PAIR_S * len(cards) * (len(cards) - 1)
    worker = Worker(cards, python, {**request, "limit_s": seconds + START_S + END_S}, **options)
    try:
        wait(nvml, [worker], lambda one: bool(one.outcome.of("started")), "start", START_S)
        do(nvml, running([worker]), "pairs", seconds)
        worker.stdin.close()
        wait(nvml, [worker], lambda _worker: False, "end", END_S)
    finally:
        worker.end(hung="end")
    return worker.outcome


@contextlib.contextmanager
def meeting_place(**options: t.Any) -> t.Iterator[str]:
    """A file by which processes of one user find each other, in a directory of that user."""
    folder = tempfile.mkdtemp(prefix="rigwright-gpu-accept-")
    try:
        if "user" in options:
            os.chown(folder, options["user"], options["group"])
        yield f"{folder}/store"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
