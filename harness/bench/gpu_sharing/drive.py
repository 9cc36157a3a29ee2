"""Loads that run at once, in one mode after the other: workers that stay, and windows in which all of them run."""

from __future__ import annotations

import contextlib
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.bench.gpu_sharing import figures, loads, mps
from harness.bench.gpu_sharing.process import Lost, Process, end
from harness.bench.gpu_sharing.watch import Watch

WORKER = "harness.bench.gpu_sharing.worker"
START_S = 90.0
LOAD_S = 45.0
FIRST_BLOCK_S = 20.0
RAMP_S = 0.4
WINDOW_S = 3.5
# The GPU memory of a process with PyTorch's context, and the share of the card that loads are allowed to fill.
CONTEXT_GIB = 0.7
FILLED = 0.88

Record = dict[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Place:
    """The place of one worker: the daemon's name (empty: none), and further variables of its environment."""

    daemon: str = ""
    share: float = 1.0
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Mode:
    name: str
    places: tuple[Place, ...]


def limited(percentage: int) -> Place:
    """Return a place with a share of the multiprocessors."""
    return Place("a", percentage / 100, (("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", str(percentage)),))


def ranked(priority: int) -> Place:
    """Return a place with a priority."""
    return Place("a", 1.0, (("CUDA_MPS_CLIENT_PRIORITY", str(priority)),))


# The workers of a mode start once, so its places also limit its number of loads.
MODES = {
    mode.name: mode
    for mode in (
        Mode("time-sliced", (Place(),) * 4),
        Mode("mps", (Place("a"),) * 4),
        Mode("mps 50/50", (limited(50),) * 4),
        Mode("mps 70/30", (limited(70), limited(30))),
        Mode("mps priority", (ranked(1), ranked(0))),
        Mode("two servers", (Place("a"), Place("b"))),
    )
}
THREE = ("time-sliced", "mps", "mps 50/50")


@dataclass(frozen=True)
class Case:
    """Loads that run at once. All ``modes`` are measured in a random order, ``repeats`` times."""

    loads: tuple[str, ...]
    modes: tuple[str, ...] = THREE
    repeats: int = 3

    @property
    def name(self) -> str:
        """Return the name of the case."""
        return "alone " + self.loads[0] if len(self.loads) == 1 else "+".join(self.loads)

    def seconds(self) -> float:
        """Return the approximate seconds: windows, and loading, which big loads need before each window."""
        visits = len(self.modes) * self.repeats
        big = len(self.modes) > 1 and sum(loads.MEMORY_GIB[load] for load in self.loads) > 30
        return visits * (WINDOW_S + 1.0 + (2.5 if big else 0)) + 3 * len(self.modes)


@dataclass
class Seat:
    """A worker and its load."""

    place: Place
    process: Process | None = None
    proof: Record = field(default_factory=dict)
    load: str = ""
    memory_gib: float = 0.0

    def worker(self) -> Process:
        """Return the process.

        :raises Lost: it did not start, or was lost with no time for another.
        """
        if self.process is None:
            raise Lost("a worker of this mode did not start")
        return self.process


class Bench:
    """The workers and daemons of the cases. It measures until the time is up, and then ends all of them.

    *gpu* False tests the bench itself, with the load `cpu` instead of all others and without daemons.
    """

    def __init__(self, deadline: float, record: Callable[[Record], None], say: Say, gpu: bool = True) -> None:
        self.deadline, self.record, self.say, self.gpu = deadline, record, say, gpu
        self.daemons: dict[str, mps.Daemon] = {}
        self.seats: dict[str, list[Seat]] = {}
        self.empty = Path(tempfile.mkdtemp(prefix="rigwright-share-"))
        self.watch = Watch()
        self.card = self.watch.card()
        self.full: int | None = None
        self.chance = random.Random(6)  # noqa: S311 - the order of windows is no secret

    def remaining_s(self) -> float:
        """Return the seconds until the deadline."""
        return self.deadline - time.monotonic()

    # Workers

    def start(self, cases: Sequence[Case]) -> None:
        """Start all workers of all modes at once: they import PyTorch in parallel, and do not disturb each other while idle."""
        needed: dict[str, int] = {}
        for case in cases:
            for mode in case.modes:
                needed[mode] = max(needed.get(mode, 0), len(case.loads))
        for mode, count in needed.items():
            self.seats[mode] = [Seat(place) for place in MODES[mode].places[:count]]
        for name in sorted({seat.place.daemon for seats in self.seats.values() for seat in seats} - {""}):
            if not self.gpu:
                break
            try:
                self.daemons[name] = mps.Daemon(name)
            except mps.NotStarted as error:
                self.say(f"daemon {name}: {error}")
        for seats in self.seats.values():
            for seat in seats:
                self.seat(seat)
        for mode, seats in self.seats.items():
            self.greet(mode, seats)

    def seat(self, seat: Seat) -> None:
        """Start the worker of a seat."""
        seat.load, seat.memory_gib, seat.proof = "", 0.0, {}
        environment = {
            "CUDA_MPS_PIPE_DIRECTORY": str(self.empty),
            "OMP_NUM_THREADS": "4",
            **dict(seat.place.environment),
        }
        if self.gpu and seat.place.daemon:
            if seat.place.daemon not in self.daemons:
                return
            environment.update(self.daemons[seat.place.daemon].environment)
        seat.process = Process(WORKER, *(["--gpu"] if self.gpu else []), environment=environment)

    def greet(self, mode: str, seats: Sequence[Seat]) -> None:
        """Wait for the workers of a mode, and read their proofs. A seat whose worker does not start stays empty."""
        limit = time.monotonic() + START_S
        for seat in seats:
            if seat.process is None:
                continue
            try:
                seat.proof = seat.process.hear(min(limit - time.monotonic(), self.remaining_s()))["proof"]
            except Lost as error:
                self.say(f"{mode}: {error}")
                seat.process.kill()
                seat.process = None
        if mode == "time-sliced" and seats and self.full is None:
            self.full = seats[0].proof.get("multiprocessors")

    def restart(self, mode: str) -> None:
        """Start all workers of a mode again after one was lost: other clients of its daemon may have died with it."""
        for seat in self.seats[mode]:
            if seat.process is not None:
                seat.process.kill()
                seat.process = None
        if self.remaining_s() < START_S / 3:
            return
        for seat in self.seats[mode]:
            self.seat(seat)
        self.greet(mode, self.seats[mode])

    # Memory of the GPU

    def make_room(self, wanted: Sequence[tuple[Seat, str]]) -> None:
        """Unload idle workers, the largest first, until the loads fit.

        :raises Lost: a worker does not answer.
        """
        everyone = [seat for seats in self.seats.values() for seat in seats if seat.process is not None]
        total = self.card.get("memory_gib")
        if total is None:
            return
        busy = [id(seat) for seat, _load in wanted]
        # A seat that keeps its load counts with its memory; the others with the memory of the new load.
        need = sum(seat.memory_gib if seat.load == load else loads.MEMORY_GIB[load] for seat, load in wanted)
        idle = sorted((seat for seat in everyone if id(seat) not in busy), key=lambda seat: seat.memory_gib)
        room = total * FILLED - CONTEXT_GIB * len(everyone) - need
        while idle and sum(seat.memory_gib for seat in idle) > room:
            seat = idle.pop()
            if seat.load:
                seat.worker().send(do="unload")
                seat.worker().hear(LOAD_S)
                seat.load, seat.memory_gib = "", 0.0

    def load(self, wanted: Sequence[tuple[Seat, str]]) -> None:
        """Load workers.

        :raises Lost: a worker cannot load it.
        """
        self.make_room(wanted)
        fresh = [(seat, load) for seat, load in wanted if seat.load != load]
        for seat, load in fresh:
            seat.worker().send(do="load", load=load)
        for seat, load in fresh:
            answer = seat.worker().hear(min(LOAD_S, self.remaining_s()))
            if not answer["finite"]:
                raise Lost(f"{load} computes {answer['value']}")
            seat.load, seat.memory_gib = load, answer.get("memory_gib", 0.0)

    # Windows

    def run(self, cases: Sequence[Case]) -> None:
        """Measure all cases."""
        for case in cases:
            turns = [
                mode for _repeat in range(case.repeats) for mode in self.chance.sample(case.modes, len(case.modes))
            ]
            counts: dict[str, int] = {}
            broken: dict[str, int] = {}
            for mode in turns:
                counts[mode] = counts.get(mode, 0) + 1
                found: Record = {"case": case.name, "mode": mode, "repeat": counts[mode]}
                if broken.get(mode, 0) >= 2:
                    continue
                if self.remaining_s() < WINDOW_S + 4:
                    self.say(f"no time for {case.name}, {mode}, window {counts[mode]}")
                    continue
                try:
                    found.update(self.visit(case, mode))
                except Lost as error:
                    broken[mode] = broken.get(mode, 0) + 1
                    found.update(failed=str(error), workers=[])
                    self.restart(mode)
                self.record(found)

    def visit(self, case: Case, mode: str) -> Record:
        """Measure one window. The result has `failed` where a worker is not in its mode.

        :raises Lost: a worker was lost.
        """
        seats = self.seats[mode][: len(case.loads)]
        running = list(zip(seats, [load if self.gpu else "cpu" for load in case.loads], strict=True))
        self.load(running)
        processes = [seat.worker() for seat in seats]
        for process in processes:
            process.send(do="run")
        for process in processes:
            process.hear(FIRST_BLOCK_S)
        first = time.monotonic() + RAMP_S
        last = first + WINDOW_S
        # Half a block more, so that the last stamp of each is after the window.
        time.sleep(last - time.monotonic() + 0.1)
        for process in processes:
            process.send(do="stop")
        answers = [process.hear(FIRST_BLOCK_S) for process in processes]
        workers = [self.reading(seat, answer, first, last) for seat, answer in zip(seats, answers, strict=True)]
        found: Record = {"workers": workers, "window_s": last - first, "gpu": self.watch.between(first, last)}
        problems = [self.disproof(seat) for seat in seats]
        problems += [f"{worker['load']} has no rate" for worker in workers if not worker["rate"]]
        problems = [problem for problem in problems if problem]
        if problems:
            found["failed"] = "; ".join(dict.fromkeys(problems))
        return found

    def disproof(self, seat: Seat) -> str:
        """Return why a worker is not in its mode. Without a GPU nothing is proven: the bench itself is tested."""
        place = seat.place
        return figures.disproof(seat.proof, bool(place.daemon), place.share, self.full) if self.gpu else ""

    def reading(self, seat: Seat, answer: Record, first: float, last: float) -> Record:
        """Return the figures of one worker in a window."""
        found: Record = {
            "load": answer["load"],
            "rate": figures.rate_between(answer["stamps"], first, last),
            "memory_gib": round(seat.memory_gib, 2),
            "proof": seat.proof,
        }
        inside = [seconds * 1000 for moment, seconds in answer["latencies"] if first <= moment <= last]
        if inside:
            found.update(
                p50_ms=figures.percentile(inside, 0.5), p99_ms=figures.percentile(inside, 0.99), asked=len(inside)
            )
        return found

    def attached(self) -> dict[str, list[int]]:
        """Return the clients of each daemon, to compare with the ids of the workers."""
        return {name: daemon.clients() for name, daemon in self.daemons.items()}

    def end_workers(self) -> None:
        """End the workers, then their daemons, each by its own id."""
        end([seat.process for seats in self.seats.values() for seat in seats if seat.process is not None])
        self.seats = {}
        for daemon in self.daemons.values():
            daemon.close()
        self.daemons = {}

    def close(self) -> None:
        """End everything."""
        self.end_workers()
        self.watch.close()
        with contextlib.suppress(OSError):
            self.empty.rmdir()
